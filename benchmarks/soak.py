"""A long run with faults: models that fail, interrupts, and kills of the whole process.

python -m benchmarks.soak --minutes N [--seed S]

A process has agents with sessions in files, which take turn after turn: each calls `Bash`, and
answers. One reply in ten fails, at its beginning or in its middle; some turns are interrupted; and
every half minute to two, the process is killed, and another one goes on with its sessions. At the
end it prints, and exits with 1 unless

- at least 99.9 % of the turns ended in an outcome, or were cut off by a kill;
- no turn hung, so none went a minute without an end;
- no session was lost: each loads, and has all that was acknowledged;
- memory was flat: a process that lived longer than a minute had no more at its end, but for a
  tenth and 8 MB;
- no process was left.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    FileStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    builtin_tools,
    coder,
)
from greenroom.llm import ModelOverloadedError, ModelRequest, ModelStream, ProviderWrapper
from greenroom.testing import Reply, ScriptedProvider, call

AGENTS = 12
TURNS = 15  # of a session, before another one takes its place
FAILS, INTERRUPTS = 0.1, 0.05
LIVES = (30.0, 120.0)  # seconds between two kills
HANG = 60.0
MARK = "GREENROOM_SOAK"
ENOUGH = 0.999


class Moody(ProviderWrapper):
    """A model that calls a tool and answers, and fails now and then."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(ScriptedProvider("unused"))
        self._rng = rng

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        has_called = bool(request.messages[-1].tool_results)
        content = "done and well" if has_called else [call("Bash", command="true")]
        fails, dice = self._rng.random() < FAILS, self._rng.random()
        error = ModelOverloadedError("on order", provider="moody") if fails else None
        if error is not None and dice < 0.5:
            raise error
        async with ScriptedProvider(Reply(content, error=error)).stream(request) as stream:
            yield stream


async def work(folder: Path, seed: int) -> None:
    """Be the process: go on with the sessions that are there, until killed."""
    rng = random.Random(seed)
    store = FileStore(folder / "sessions")
    with open(folder / "book", "a", buffering=1) as book:  # noqa: ASYNC230
        async with AgentRuntime(store) as runtime, trio.open_nursery() as nursery:
            for number in range(AGENTS):
                nursery.start_soon(live, runtime, store, number, rng, book)


async def live(
    runtime: AgentRuntime, store: FileStore, number: int, rng: random.Random, book: object
) -> None:
    names = sorted(path.name for path in Path(store.folder("x")).parent.glob(f"a{number}-*"))
    generation = int(names[-1].split("-")[1]) if names else 0
    while True:
        name = f"a{number}-{generation:06}"
        is_stored = await store.exists(name)
        session = (
            await AgentSession.load(name, store=store)
            if is_stored
            else AgentSession.new("coder", session_id=name, store=store)
        )
        tools = ToolRegistry(builtin_tools())
        permissions = PermissionManager([PermissionRule.allow_all()])
        handle = runtime.spawn(session, coder, Moody(rng), tools, permissions)
        done = sum(m.role == "user" and not m.tool_results for m in session.history)
        for turn in range(done, TURNS):
            text = f"turn {turn}"
            book.write(f"begin {name} {turn}\n")  # type: ignore[attr-defined]
            async with trio.open_nursery() as nursery:
                if rng.random() < INTERRUPTS:
                    nursery.start_soon(interrupt_later, handle, rng.random() / 50)
                result = await handle.ask(text)
                nursery.cancel_scope.cancel()
            book.write(f"end {name} {turn} {result.status}\n")  # type: ignore[attr-defined]
        await handle.shutdown()
        generation += 1


async def interrupt_later(handle: object, seconds: float) -> None:
    await trio.sleep(seconds)
    await handle.interrupt()  # type: ignore[attr-defined]


class Soak:
    """Starts the process again and again, and keeps the books."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.rng = random.Random(seed)
        self.lives = self.hangs = self.crashes = self.left = 0
        self.growth: list[tuple[float, float]] = []  # megabytes after a minute, and at the end

    def live_once(self, seconds: float) -> None:
        """Let a process live for so long, unless it hangs, and kill it."""
        self.lives += 1
        mark = f"{self.seed}-{self.lives}"
        command = [sys.executable, "-m", "benchmarks.soak", "--work", str(self.folder)]
        process = subprocess.Popen(
            [*command, "--seed", str(self.rng.randrange(1 << 30))],
            env=os.environ | {MARK: mark},
            start_new_session=True,
        )
        begun = progress = time.monotonic()
        size, early = -1, 0.0
        while (now := time.monotonic()) < begun + seconds and process.poll() is None:
            time.sleep(1)
            written = self.book().stat().st_size if self.book().exists() else 0
            progress, size = (now, written) if written != size else (progress, size)
            if now - progress > HANG:
                self.hangs += 1
                break
            if now - begun > 60 and not early:
                early = megabytes(process.pid)
        if process.poll() is not None:
            self.crashes += 1
        elif early:
            self.growth.append((early, megabytes(process.pid)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(2)  # what watches a tool's processes kills them then
        self.left += len(marked(mark))

    def book(self) -> Path:
        return self.folder / "book"

    def judge(self) -> bool:
        """Print what happened; return whether all is well."""
        statuses, begun, ended = Counter[str](), set[str](), set[str]()
        for line in self.book().read_text().splitlines():
            kind, name, turn, *status = line.split(" ")
            (begun if kind == "begin" else ended).add(f"{name} {turn}")
            statuses.update(status)
        cut = len(begun - ended)
        most_cut = self.lives * AGENTS
        lost = trio.run(count_lost, self.folder, ended)
        share = (len(ended) + min(cut, most_cut)) / max(1, len(begun))
        is_flat = all(late <= early * 1.1 + 8 for early, late in self.growth)
        print(f"{len(begun)} turns: {dict(statuses)}; {cut} cut off by {self.lives} kills")
        print(f"{100 * share:.3f} % with an outcome; {self.hangs} hung; {self.crashes} crashed")
        print(f"{lost} sessions lost; {self.left} processes left")
        print("memory after a minute and at the end, MB:", self.growth)
        has_failed = self.hangs or self.crashes or lost or self.left
        return share >= ENOUGH and is_flat and not has_failed and bool(ended)


async def count_lost(folder: Path, ended: set[str]) -> int:
    """Count the sessions that don't load, or lack an input whose turn has ended."""
    store, lost = FileStore(folder / "sessions"), 0
    turns: dict[str, set[str]] = {}
    for each in ended:
        name, turn = each.split(" ")
        turns.setdefault(name, set()).add(f"turn {turn}")
    for name, texts in turns.items():
        try:
            session = await AgentSession.load(name, store=store)
            lost += not texts <= {message.text for message in session.history}
        except Exception as error:  # noqa: BLE001 (whatever it is, the session is lost)
            print(f"{name}: {error!r}")
            lost += 1
    return lost


def megabytes(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def marked(mark: str) -> list[int]:
    """Find the processes that were started below the one with this mark."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0".encode() in (each / "environ").read_bytes() + b"\0":
                found.append(int(each.name))
        except OSError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        trio.run(work, arguments.work, arguments.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        soak, end = Soak(Path(folder), arguments.seed), time.monotonic() + 60 * arguments.minutes
        while (left := end - time.monotonic()) > 0:
            soak.live_once(min(left, soak.rng.uniform(*LIVES)))
        return int(not soak.judge())


if __name__ == "__main__":
    sys.exit(main())
