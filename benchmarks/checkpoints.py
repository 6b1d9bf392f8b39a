"""What a checkpoint adds to one call, against `bash -c true` started by trio in the same run.

A file that the call names; and a command, after which workspaces of several sizes are compared: at
first, when their files are kept, and from then on.

python benchmarks/checkpoints.py
"""

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from greenroom.tools._internal import Packs, WorkspaceRecorder

ROUNDS = 15
SIZES = (100, 1_000, 10_000, 40_000)


async def bare() -> None:
    await trio.run_process(["bash", "--noprofile", "--norc", "-c", "true"])


async def timed(run: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await run()
    return time.perf_counter() - begin


def prepare(folder: str, files: int) -> WorkspaceRecorder:
    root = Path(os.path.realpath(folder), "workspace")
    root.mkdir()
    fill(root, files)
    return WorkspaceRecorder(root, Packs(f"{folder}/packs"))


def fill(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"{number // 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.txt").write_text(f"{number}\n" * 100)
    (root / ".gitignore").write_text("*.pyc\nbuild/\n*.log\n.venv/\nnode_modules/\n")


async def main() -> None:
    floor = statistics.median([await timed(bare) for _ in range(ROUNDS)])
    print(f"{'bash -c true':34} {1000 * floor:8.1f} ms")

    def show(name: str, taken: float) -> None:
        print(f"{name:34} {1000 * taken:8.1f} ms  {taken / floor:6.2f} × floor")

    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            recorder = prepare(folder, size)
            await trio.sleep(3)  # a file that was changed this moment is read anew each time

            async def window(*named: str, recorder: WorkspaceRecorder = recorder) -> None:
                opened = await recorder.open(named, compares=not named)
                assert recorder.failure == "", recorder.failure
                await recorder.close(opened)

            if size == SIZES[0]:
                file = f"{folder}/workspace/0/0.txt"
                named = [await timed(lambda file=file: window(file)) for _ in range(ROUNDS)]
                show("a named file", statistics.median(named))
            show(f"a command, {size:,} files, at first", await timed(window))
            again = [await timed(window) for _ in range(ROUNDS)]
            show(f"a command, {size:,} files, then", statistics.median(again))


if __name__ == "__main__":
    trio.run(main)
