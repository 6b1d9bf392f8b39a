"""A program that writes a session into a database and comes to harm at a chosen moment, many times.

    python interrupted_writer.py FOLDER HARM FIRST LAST STEP

For each number it forks, so that one start serves all. The child writes `FOLDER/<number>.db`, and
tells of each message once it is saved. The harm is

    steps    SIGKILL at the n-th step of SQLite's machine
    bytes    death by a signal when a file would grow beyond n bytes: in the middle of a write
    limit    a write beyond n bytes fails, as on a full disk; later there is room again

It prints a line for each number: how many messages were acknowledged, and whether the harm was
done.
"""

import os
import resource
import signal
import sqlite3
import sys

import trio

from greenroom.core import Message, SessionStorageError
from greenroom.session import AgentSession, SQLiteStore

MESSAGES = [f"{number} " + "x" * (1 << 2 * number) for number in range(7)]


def kill_at_step(nth):
    steps, real = [0], sqlite3.connect

    def step():
        steps[0] += 1
        if steps[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*args, **options):
        connection = real(*args, **options)
        connection.set_progress_handler(step, 1)
        return connection

    sqlite3.connect = connect


def limit_files(size):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


async def write(path, acknowledge):
    session = AgentSession.new("coder", session_id="mine", store=SQLiteStore(path))
    await persist(session.open)
    for number, text in enumerate(MESSAGES):
        session.add_message(Message.user(text))
        session.set_metadata("count", number + 1)
        await persist(session.save)
        os.write(acknowledge, b".")
    await session.close()
    await session.store.aclose()


async def persist(act):
    """Do it; where the disk refuses, make room and do it again."""
    try:
        await act()
    except SessionStorageError:
        limit_files(resource.RLIM_INFINITY)
        await act()


def child(path, harm, number, acknowledge):
    if harm == "steps":
        kill_at_step(number)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if harm == "bytes" else signal.SIG_IGN)
        limit_files(number)
    trio.run(write, path, acknowledge)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return 7 if harm == "limit" and limit == resource.RLIM_INFINITY else 0


def run_one(folder, harm, number):
    told, acknowledge = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(child(os.path.join(folder, f"{number}.db"), harm, number, acknowledge))
        except BaseException as error:
            sys.stderr.write(f"{number}: {error!r}\n")
            os._exit(1)
    os.close(acknowledge)
    with os.fdopen(told, "rb") as pipe:
        count = len(pipe.read())
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 1:
        raise SystemExit(f"the writer failed at {number}")
    return count, code != 0


if __name__ == "__main__":
    folder, harm, *numbers = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(*map(int, numbers)):
        count, is_harmed = run_one(folder, harm, number)
        print(number, count, int(is_harmed), flush=True)
