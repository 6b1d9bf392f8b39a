"""Processes that kill themselves at a chosen operation on their files, and what they leave behind.

Run as a program, this is the parent of such processes: it imports once, forks for each operation,
and prints what each child had said before it died, as one JSON object a line.

    python -m tests.session.faults.killed FOLDER SIZE MUTANT

A child is killed before its n-th operation, for n = 1, 2, 3 and so on until one survives; where
that is a write, another child is killed in the middle of it.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from greenroom.core import Message
from greenroom.session import AgentSession, FileStore
from tests.session.faults import mutants
from tests.session.faults.effort import IS_LONG, STEP
from tests.session.faults.life import MODULES

OPERATIONS = {
    "open", "close", "write", "pwrite", "pread", "fsync", "fdatasync", "ftruncate", "fstat", "stat",
    "mkdir", "rmdir", "rename", "unlink", "utime", "listdir",
}  # fmt: skip
SYNCS = ("fsync", "fdatasync")
TORN = b'{"n":1,"e":[{"kind":"message","mess'
STEPS = {
    "new": (
        ("open", ""), ("save", "a"), ("loose", "b"), ("loose", "c"), ("title", "t"), ("save", "d"),
        ("rewind", "2"), ("save", "e"), ("close", ""), ("save", "f"),
    ),
    "torn": (("open", ""), ("save", "x"), ("loose", "y"), ("close", "")),
}  # fmt: skip


def states(session_id, size):
    """Yield the texts of a session before its first step and after each."""
    texts = ["old"] if session_id == "torn" else []
    yield tuple(texts)
    for kind, word in STEPS[session_id]:
        if kind in {"save", "loose"}:
            texts.append(word * size)
        elif kind == "rewind":
            del texts[int(word) :]
        yield tuple(texts)


async def prepare(store):
    """Store a session whose end is torn off, as an earlier crash leaves it."""
    session = AgentSession.new("coder", session_id="torn", store=store)
    session.add_message(Message.user("old"))
    await session.save()
    path = Path(store.folder("torn")) / "history.jsonl"
    path.write_bytes(path.read_bytes() + TORN)


async def play(store, size, tell):
    """Take every session through its steps, and tell of each that has returned."""
    for session_id, steps in STEPS.items():
        if session_id == "torn":
            session = await AgentSession.load(session_id, store=store)
        else:
            session = AgentSession.new("coder", session_id=session_id, store=store)
        for kind, word in steps:
            await _step(session, kind, word, size)
            tell(session_id)


async def _step(session, kind, word, size):
    match kind:
        case "open":
            await session.open()
        case "close":
            await session.close()
        case "title":
            session.set_metadata("title", word)
            await session.save()
        case "rewind":
            await session.rewind(int(word))
        case _:
            session.add_message(Message.user(word * size))
            await session.save(flush=kind == "save")


class DeadlyDisk:
    """`os`, which tells its n-th operation and kills the process: before it, or within a write."""

    def __init__(self, nth, is_torn, tell):
        self.nth, self.is_torn, self.tell, self.count = nth, is_torn, tell, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        return (lambda *args: self._call(name, real, args)) if name in OPERATIONS else real

    def _call(self, name, real, args):
        self.count += 1
        if self.count == self.nth:
            self.tell(name)
            if self.is_torn and name == "write":
                os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if name in SYNCS and not IS_LONG:
            return None  # a kill leaves what is written alone, so only patience is lost
        return real(*args)


@contextlib.contextmanager
def installed(disk):
    """Put this disk under the store."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            if hasattr(module, "os"):
                patch.setattr(module, "os", disk)
        yield


def forked(work):
    """Do this in a process of its own; return its exit code, and what it told.

    This process never starts a thread, which a fork would leave behind.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 1
        try:
            work(lambda word: os.write(writing, f"{word} ".encode()))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as told:
        words = told.read().split()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), words


def main(root, size, name):
    """Kill a child at each operation, once before it and, if it writes, once within."""
    template = os.path.join(root, "template")
    forked(lambda tell: trio.run(prepare, FileStore(template)))
    for nth in itertools.count(1, STEP):
        found = kill(root, nth, False, name, int(size))
        if "write" in found["told"]:
            kill(root, nth, True, name, int(size))
        if found["code"] != -signal.SIGKILL:
            return


def kill(root, nth, is_torn, name, size):
    """Kill a child at its n-th operation; print and return what it leaves."""
    folder = os.path.join(root, f"{nth}-{is_torn:d}")
    shutil.copytree(os.path.join(root, "template"), folder)
    code, told = forked(
        lambda tell: live(FileStore(folder), DeadlyDisk(nth, is_torn, tell), name, size, tell)
    )
    found = {"folder": folder, "nth": nth, "code": code, "told": told}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    return found


def live(store, disk, name, size, tell):
    """Play on a deadly disk, with this mistake in the store."""
    mistake = mutants.living(getattr(mutants, name)) if name else contextlib.nullcontext()
    with mistake, installed(disk):
        trio.run(play, store, size, tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
