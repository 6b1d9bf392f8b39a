"""`greenroom sessions copy` and `expire`, and sessions in PostgreSQL on the command line."""

from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import trio

from greenroom.cli import sessions_change
from greenroom.cli.command_options import SessionsOptions
from greenroom.cli.stored_sessions import open_place
from greenroom.core import utc_now
from greenroom.core._internal import set_clock
from greenroom.session import AgentSession, FileStore, SessionMetadata, SQLiteStore
from tests.postgres_server import ASKED, PASSWORD


def test_sessions_are_copied_and_those_there_are_left(run, shelf, tmp_path):
    shelf.add("s-1", "hello", "hi")
    shelf.add("s-2", "bye")
    place, to = shelf.here[1], str(tmp_path / "all.db")
    one = run("sessions", "copy", "--from", place, "--to", to, "s-2")
    assert (one.code, one.out) == (0, "copied s-2\n")
    rest = run("sessions", "copy", "--from", place, "--to", to, "--json")
    assert rest.json == {"copied": ["s-1"], "there": ["s-2"], "failed": []}
    listed = run("sessions", "list", "--json", "--store", to).json
    assert {each["session_id"] for each in listed} == {"s-1", "s-2"}
    typo = run("sessions", "copy", "--from", place + "x", "--to", to)
    assert (typo.code, typo.out, typo.err) == (
        0,
        "",
        f"greenroom: there are no sessions in {place}x\n",
    )


def test_one_that_cannot_be_copied_does_not_stop_the_others(run, shelf, tmp_path):
    shelf.add("s-1", "hello", "hi")
    shelf.add("s-2", "one", "two")
    shelf.say("s-2", "three")
    history = shelf.folder("s-2") / "history.jsonl"
    history.write_bytes(history.read_bytes().replace(b"one", b"two"))
    done = run("sessions", "copy", "--from", shelf.here[1], "--to", str(tmp_path / "all.db"))
    assert done.code == 1
    assert "copied s-1" in done.out
    assert "damaged" in done.err


def test_what_was_not_changed_for_long_expires(run, shelf):
    now = utc_now()
    set_clock(lambda: now - timedelta(days=40))
    try:
        for name in ("old", "old-parent", "live-parent"):
            shelf.add(name)
        shelf.add("old-child", parent="old-parent")
    finally:
        set_clock(None)
    shelf.add("live-child", parent="live-parent")
    shelf.add("new")
    for days in ("50", "99999999999"):
        kept = run("sessions", "expire", "--older", days, "--yes", *shelf.here)
        assert (kept.code, kept.out) == (0, "")
    refused = run("sessions", "expire", "--older", "30", *shelf.here)
    assert refused.code == 2, "nobody is there to ask"
    done = run("sessions", "expire", "--older", "30", "--yes", "--json", *shelf.here).json
    assert set(done["removed"]) == {"old", "old-parent", "old-child"}
    left = {each.session_id for each in trio.run(shelf.store.list_all)}
    assert left == {"live-parent", "live-child", "new"}


def test_many_sessions_are_looked_at_once_each(monkeypatch):
    reads = 0

    class Counted(list):
        def __iter__(self):
            nonlocal reads
            reads += len(self)
            return super().__iter__()

    now = utc_now()
    listed = Counted(
        SessionMetadata(
            session_id=f"s-{number}",
            agent_type="coder",
            parent_session_id=f"s-{number - 1}" if number % 4 else None,
            created_at=now,
            updated_at=now - timedelta(days=9),
        )
        for number in range(400)
    )
    removed = []

    async def list_all(store):
        return listed

    async def delete(session_id, **options):
        removed.append(session_id)

    monkeypatch.setattr(FileStore, "list_all", list_all)
    monkeypatch.setattr(AgentSession, "delete", delete)
    assert trio.run(sessions_change.expire_sessions, SessionsOptions(older=8, yes=True)) == 0
    assert removed == [f"s-{number}" for number in range(0, 400, 4)]
    assert reads <= 10 * len(listed)


def test_a_password_is_no_word_of_a_command(run):
    for place in (
        "postgresql://ann:s3cr3t@localhost/agents",
        "postgresql://localhost/agents?password=s3cr3t",
        "host=localhost password=s3cr3t",
    ):
        done = run("sessions", "list", "--store", place)
        assert done.code == 2
        assert "s3cr3t" not in done.out + done.err
        assert "pgpass" in done.err


def test_without_a_server_the_command_says_how_to_name_one(run):
    done = run("sessions", "list", "--store", "postgresql")
    assert done.code == 2
    assert "GREENROOM_DSN" in done.err


def test_a_session_in_postgresql_is_used_as_any_other(run, shelf, postgres_server, tmp_path):
    variables = {"GREENROOM_DSN": postgres_server.dsn}
    asked = run(
        "-p", "hello", "--output-format", "json", "--store", "postgresql", cwd=tmp_path, **variables
    )
    assert asked.code == 0, asked.err
    session_id = asked.json["session_id"]
    more = run("-p", "more", "-r", session_id, "--store", "postgresql", cwd=tmp_path, **variables)
    assert more.code == 0, more.err
    to = str(tmp_path / "copy.db")
    done = run("sessions", "copy", "--from", "postgresql", "--to", to, session_id, **variables)
    assert done.out == f"copied {session_id}\n"
    assert trio.run(SQLiteStore(to).exists, session_id)


def test_no_command_shows_a_password_or_leaves_it_anywhere(run, postgres_server, tmp_path):
    given = {"GREENROOM_DSN": postgres_server.dsn, "GREENROOM_SESSIONS": "postgresql"}
    for words in (
        ("-p", "run env; ps axww; cat /proc/$PPID/cmdline", "--allow", "Bash", "--log", "log"),
        ("-p", "fail", "--output-format", "stream-json"),
        ("sessions", "list"),
        ("sessions", "copy", "--from", "postgresql", "--to", str(tmp_path / "all.db")),
        ("config", "--json"),
        ("doctor",),
        ("cost",),
        ("trace", "s-unknown"),
    ):
        done = run(*words, **given)
        assert PASSWORD not in done.out + done.err
    assert done.code == 2, "there is no such session"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"log", "all.db"} <= {path.name for path in files}
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_wrong_password_is_one_line_that_does_not_show_it(run, asked_role, env):
    done = run("sessions", "list", "--store", "postgresql", GREENROOM_DSN=asked_role("wr0ng"))
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "password authentication failed" in done.err
    assert "pgpass" in done.err
    assert "wr0ng" not in done.out + done.err
    checked = run("doctor", "--store", "postgresql")
    assert checked.code == 1
    assert "FAIL  sessions: " in checked.out
    assert "wr0ng" not in checked.out
    passes = Path(env["HOME"], ".pgpass")
    passes.write_text(f"*:*:*:*:{PASSWORD}\n")
    passes.chmod(0o600)
    found = run("doctor", "--store", "postgresql", GREENROOM_DSN=asked_role(None))
    passes.unlink()
    assert "ok    sessions: PostgresStore(" in found.out


@pytest.fixture
def asked_role(postgres_server):
    """A role that is asked for its password; return its address with another, or none."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ASKED}")
        connection.execute(f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}' IN ROLE {ASKED}")
        connection.execute("GRANT tests TO ann")
        yield lambda password: postgres_server.dsn.replace("user=tests", "user=ann").replace(
            f"password={PASSWORD}", f"password={password}" if password else ""
        )
        for role in ("ann", ASKED):
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("place", ["postgresql.d", "./postgresql", "a/postgresql:x"])
def test_a_folder_may_have_a_similar_name(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "FileStore" in repr(open_place(place))
