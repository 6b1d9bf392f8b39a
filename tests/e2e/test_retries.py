"""The command retries what fails for a while, says so, and can be interrupted meanwhile."""

import signal
import subprocess
import sys

import pytest
import trio

from greenroom.core._internal import serde
from tests.e2e.test_repair import greenroom
from tests.e2e.wire import Anthropic
from tests.llm.server import Answer, model_server

BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
HELLO = ("-p", "hello", "--model", Anthropic.model)


def a_server(*errors):
    """Answer the first requests with these errors, the next one with a greeting."""
    answers = [*errors, Anthropic.answer("Good day!", None, 1)]
    return model_server(lambda _: answers.pop(0))


async def test_an_overloaded_model_is_asked_again_and_the_reason_is_told(tmp_path):
    async with a_server(Answer.error(529, BUSY)) as server:
        done = await greenroom(*HELLO, cwd=tmp_path, **Anthropic.environment(server.url))
    assert (done.returncode, done.stdout.decode()) == (0, "Good day!\n"), done.stderr.decode()
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("greenroom: anthropic answered 529: Overloaded; attempt 2 in ")
    assert len(server.requests) == 2


async def test_an_interrupt_ends_a_wait_at_once(tmp_path):
    async with a_server(Answer.error(429, BUSY, retry_after="150")) as server:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "greenroom", *HELLO, "--output-format", "stream-json"],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), **Anthropic.environment(server.url)},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        lines = b""
        while b'"model.retry"' not in lines:
            received = await process.stdout.receive_some()
            assert received, "it ended before it was to wait"
            lines += received
        process.send_signal(signal.SIGINT)
        with trio.fail_after(100):  # less than it would wait
            while received := await process.stdout.receive_some():
                lines += received
            assert await process.wait() == 130
        await process.stdout.aclose()
    chunks = [serde.loads(line) for line in lines.splitlines()]
    (told,) = [chunk for chunk in chunks if chunk["type"] == "custom"]
    assert told["data"]["seconds"] >= 150
    assert (chunks[-2]["type"], chunks[-2]["status"]) == ("done", "interrupted")


@pytest.mark.parametrize("form", ["json", "stream-json"])
async def test_a_reply_that_breaks_off_starts_over_unless_its_pieces_were_handed_out(
    form, tmp_path
):
    whole = Anthropic.answer("Good day!", None, 1)
    cut = Answer.stream(*whole.pieces[: len(whole.pieces) * 2 // 3], end="cut")
    answers = [cut, whole]
    async with model_server(lambda _: answers.pop(0)) as server:
        done = await greenroom(
            *HELLO, "--output-format", form, cwd=tmp_path, **Anthropic.environment(server.url)
        )
    last = serde.loads(done.stdout.splitlines()[-1])
    if form == "json":
        assert (done.returncode, last["result"]) == (0, "Good day!")
    else:
        assert (done.returncode, last["status"], len(answers)) == (1, "failed", 1)
        assert b"reply.restarted" not in done.stdout
