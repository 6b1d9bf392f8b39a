"""A database whose writer dies or is refused at any moment: nothing acknowledged is lost."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from greenroom.core import Message
from greenroom.session import AgentSession, SQLiteStore
from tests.session.faults.effort import STEP, tries
from tests.session.faults.interrupted_writer import MESSAGES

HERE = Path(__file__).parent
MOMENTS = tries(10 if STEP > 1 else 20, 400)  # at which each harm is done


def harmed(folder, harm, first, last, step):
    """Have the writer come to harm at each of these moments; yield what was acknowledged."""
    done = subprocess.run(
        [
            sys.executable,
            HERE / "interrupted_writer.py",
            folder,
            harm,
            *map(str, (first, last, step)),
        ],
        cwd=HERE.parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        number, acknowledged, is_harmed = map(int, line.split())
        yield folder / f"{number}.db", acknowledged, bool(is_harmed)


async def whole(path, acknowledged):
    """See that the session holds a beginning of what was said, with all that was acknowledged."""
    store = SQLiteStore(path)
    if await store.exists("mine"):
        session = await AgentSession.load("mine", store=store)
    else:
        session = AgentSession.new("coder", session_id="mine", store=store)
    texts = [message.text for message in session.history]
    assert texts == MESSAGES[: len(texts)]
    assert len(texts) >= acknowledged
    assert session.repair is None
    session.add_message(Message.user("after the crash"))
    await session.save()
    again = await AgentSession.load("mine", store=store)
    assert again.history == session.history
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("harm", "last"), [("steps", 2400), ("bytes", 130_000), ("limit", 130_000)]
)
async def test_nothing_acknowledged_is_lost_wherever_it_was_cut_off(tmp_path, harm, last):
    step = last // MOMENTS
    reached = set()
    for path, acknowledged, is_harmed in harmed(tmp_path, harm, step // 2, last, step):
        await whole(path, acknowledged)
        reached.add((acknowledged, is_harmed))
    if harm == "limit":
        assert reached == {(len(MESSAGES), True)}
    else:
        assert len(reached) > 4
        assert all(is_harmed for count, is_harmed in reached if count < len(MESSAGES))
