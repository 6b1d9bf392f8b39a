"""A whole life of a session, and not one operation on a file on the thread of the event loop."""

import io
import os
import sqlite3
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    FileStore,
    InMemoryStore,
    Message,
    PermissionManager,
    PermissionRule,
    SQLiteStore,
    ToolRegistry,
    builtin_tools,
    coder,
)
from greenroom.agents import FileCheckpoints
from greenroom.export import export_session, import_session
from greenroom.fs import loop_writes
from greenroom.session._internal import read_last
from greenroom.testing import ScriptedProvider, call

OPERATIONS = {
    "open", "pread", "write", "pwrite", "writev", "fsync", "fdatasync", "rename", "replace", "link",
    "symlink", "unlink", "remove", "mkdir", "rmdir", "truncate", "ftruncate", "utime", "chmod",
    "listdir", "scandir",
}  # fmt: skip
LONG = "long " * 100_000


class Watch:
    """Notes each operation on a file or a database that its thread is asked for, in C."""

    def __init__(self):
        self.found = set()

    def __enter__(self):
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _profile(self, frame, event, function):
        if event == "c_call" and self._is_operation(function):
            code = frame.f_code
            # A pipe to a process is no file.
            if Path(code.co_filename).name not in {"_unix_pipes.py", "contained_process.py"}:
                self.found.add((function.__name__, code.co_filename, frame.f_lineno))

    @staticmethod
    def _is_operation(function):
        name, module = function.__name__, getattr(function, "__module__", None)
        if isinstance(function.__self__, sqlite3.Connection | sqlite3.Cursor):
            return True
        is_opened = module in {"io", "_io"} and name in {"open", "open_code"}
        return is_opened or (module == os.name and name in OPERATIONS)


def script():
    return ScriptedProvider(
        call("Read", file_path="a.txt"),
        call("Write", file_path="b.txt", content=LONG),
        call("Edit", file_path="a.txt", old_string="one", new_string="two"),
        call("Bash", command="echo three > c.txt"),
        call("Grep", pattern="two"),
        call("Glob", pattern="*.txt"),
        "done",
    )


async def play(store, workspace):
    """An agent with tools, then all that can be done with its session."""
    session = AgentSession.new("coder", store=store)
    await turn(session, workspace)
    session = await AgentSession.load(session.session_id, store=store)
    await turn(session, workspace)
    plan = await FileCheckpoints.plan_restore(session, 1, workspace)
    await session.rewind(1)
    await plan.apply()
    session.add_message(Message.assistant("very well"))
    session.add_message(Message.user(LONG))
    session.set_metadata("title", "mine")
    await session.save()
    await session.compact("short", 1)
    fork = await session.fork(1, branch=0)
    assert await session.read_branches()
    copies = [await round_trip(session, store, form) for form in ("markdown", "html", "json")]
    await look(session, store)
    await AgentSession.archive(fork.session_id, store=store)
    await AgentSession.archive(fork.session_id, store=store, archived=False)
    await AgentSession.delete(fork.session_id, store=store)
    assert len(await AgentSession.list_all(store=store)) == 2
    assert copies[2].history == session.history


async def turn(session, workspace):
    arguments = (ToolRegistry(builtin_tools()), PermissionManager([PermissionRule.allow_all()]))
    async with AgentRuntime(workspace=workspace) as runtime:
        agent = partial(coder, checkpoints=True)
        handle = runtime.spawn(session, agent, script(), *arguments)
        assert (await handle.ask("go")).status == "completed"


async def round_trip(session, store, form):
    page = io.StringIO()
    await export_session(session, page.write, form)
    return await import_session(page.getvalue(), store=store) if form == "json" else None


async def look(session, store):
    assert await store.exists(session.session_id)
    assert (await read_last(session.session_id, 1, store=store)).messages
    assert (await AgentSession.search("short", store=store)).hits
    assert await store.salvage(session.session_id) is None


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


@pytest.mark.parametrize("kind", ["files", "files elsewhere", "database"])
async def test_no_operation_on_a_file_runs_on_the_event_loop(
    tmp_path, workspace, kind, monkeypatch
):
    """Except for short lines that need no sync, on a local disk."""
    monkeypatch.setattr(loop_writes, "is_local", lambda _device: kind == "files")
    await turn(AgentSession.new("coder", store=InMemoryStore()), workspace)  # imports read files
    import_module("greenroom.agents.file_restore")
    (workspace / "a.txt").write_text("one\n")
    store = SQLiteStore(tmp_path / "s.db") if kind == "database" else FileStore(tmp_path / "s")
    with trio.fail_after(60), Watch() as watch:
        await play(store, workspace)
        if isinstance(store, SQLiteStore):
            await store.aclose()
    found = {(name, Path(file).name) for name, file, _ in watch.found}
    assert found == ({("write", "durable.py")} if kind == "files" else set())


def test_what_runs_here_is_noticed(tmp_path):
    with Watch() as watch:
        (tmp_path / "a").write_text("a")
        os.rename(tmp_path / "a", tmp_path / "b")
        os.listdir(tmp_path)
        connection = sqlite3.connect(tmp_path / "c")
        connection.execute("PRAGMA user_version")
        connection.close()
    assert {name for name, _, _ in watch.found} >= {"open", "rename", "listdir", "execute"}
