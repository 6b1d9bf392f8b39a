import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from greenroom.core import ToolError
from greenroom.sandbox import process as contained_process, process_tree as launcher
from greenroom.sandbox.process import Exit, ProcessReport, run_contained

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


GUARD = "$(awk '{print $4}' /proc/$PPID/stat)"
"""What in a command names the launcher: the parent of its parent."""


async def run(script: str, *, timeout: float = 20, cwd: Path = Path("/")) -> tuple[Exit, bytes]:
    output: list[bytes] = []
    with trio.fail_after(60):
        ended = await run_contained(
            ["bash", "-c", script],
            cwd=cwd,
            environment={"PATH": os.environ["PATH"]},
            on_output=output.append,
            timeout=timeout,
        )
    return ended, b"".join(output)


async def test_output_exit_code_and_note_come_back() -> None:
    ended, output = await run("echo out; echo note >&19; exit 3")
    assert output == b"out\n"
    assert ended == Exit(3, timed_out=False, note=b"note\n")


async def test_a_cancel_without_a_runtime_is_cleaned_up_all_the_same(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    script = f"echo $$ > {tmp_path}/pid; setsid sleep 600 & echo > {tmp_path}/started; sleep 600"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, script)
        await trio.Path(tmp_path / "started").read_text()
        nursery.cancel_scope.cancel()
    pid = int(await trio.Path(tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_launcher_that_does_not_answer_is_killed_with_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As if the launcher could not be woken up again.
    monkeypatch.setattr(contained_process.signal, "SIGCONT", signal.SIGWINCH)
    monkeypatch.setattr(contained_process, "_kill_below", lambda _: None)
    monkeypatch.setattr(contained_process, "_CLEANUP_GRACE", 0.05)
    monkeypatch.setattr(contained_process, "_LAST_MOMENT", 0.05)
    script = f"echo $$ > {tmp_path}/pid; kill -STOP {GUARD}; echo stopped >&19; sleep 600"
    for timeout in (2, 8, 32):  # until it is longer than the script takes to begin
        ended, _ = await run(script, timeout=timeout)
        if (tmp_path / "pid").exists():
            break
    assert ended == Exit(None, timed_out=True, has_survivors=True)
    pid = int(await trio.Path(tmp_path / "pid").read_text())
    with trio.fail_after(60), suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        await trio.lowlevel.wait_readable(handle)
        os.close(handle)


async def test_a_launcher_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launcher, "__file__", str(tmp_path / "missing.py"))
    with pytest.raises(ToolError, match=r"launcher of bash failed: .*can't open file"):
        await run("true")


@pytest.mark.parametrize("program", ["no\0program", "/nowhere/python"])
async def test_what_can_not_be_started_is_told(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(ToolError, match="can't start bash in /"):
        await run("true")


async def test_what_is_left_in_the_pipe_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_nothing(*_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(contained_process, "_read", read_nothing)
    assert await run("echo late") == (Exit(0), b"late\n")


async def test_a_pipe_that_never_dries_up_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained_process, "_DRAIN_LIMIT", 1)
    reader, writer = os.pipe()
    os.write(writer, b"x" * 100)
    assert len(contained_process._drain(trio.lowlevel.FdStream(reader))) == 100
    os.close(writer)


async def test_a_pipe_held_open_by_another_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    assert contained_process._drain(trio.lowlevel.FdStream(reader)) == b"x"
    os.close(writer)


@pytest.mark.parametrize(
    ("data", "report"),
    [
        (b"", ProcessReport(None)),
        (b"Traceback\n", ProcessReport(None, note=b"Traceback\n")),
        (b"12", ProcessReport(None, note=b"12")),
        (b"12\n", ProcessReport(12, has_survivors=True)),
        (b"12\n-9", ProcessReport(12, has_survivors=True)),
        (b"12\n-9\ngo", ProcessReport(12, has_survivors=True)),
        (b"12\nabc\ngone\n", ProcessReport(12, has_survivors=True)),
        (b"12\nabc\n0\ngone\n", ProcessReport(12, has_survivors=True)),
        (b"12\n-9\ngone\n", ProcessReport(12, True, -9)),
        (b"12\n0\nleft\n", ProcessReport(12, True, 0, has_survivors=True)),
        (b"12\n0\nkilled\n", ProcessReport(12, True, 0, left_running=True)),
        (b"12\n\ngone\n/a\nb\n", ProcessReport(12, True, note=b"/a\nb\n")),
    ],
)
def test_a_report_may_end_anywhere_and_hold_anything(data: bytes, report: ProcessReport) -> None:
    assert ProcessReport.parse(data) == report


@LINUX
@pytest.mark.parametrize("flood", ["printf 'abc\\n'", "head -c 300000 /dev/zero"])
async def test_a_command_that_writes_into_the_report_is_not_believed(flood: str) -> None:
    ended, output = await run(f"{flood} > /proc/{GUARD}/fd/2; echo hi")
    assert output == b"hi\n"
    assert ended == Exit(None, has_survivors=True)


async def test_no_time_at_all_starts_nothing(tmp_path: Path) -> None:
    ended, output = await run(f"touch {tmp_path}/made", timeout=0)
    assert ended == Exit(None, timed_out=True)
    assert output == b""
    assert os.listdir(tmp_path) == []


async def test_a_note_of_any_length_holds_nobody_up() -> None:
    ended, _ = await run("head -c 60000 /dev/zero >&19")
    assert ended == Exit(0, note=bytes(launcher.NOTE_LIMIT))


async def start_with_pipes(script: str) -> contained_process.ContainedProcess:
    return await contained_process.ContainedProcess.start(
        ["bash", "-c", script],
        cwd=Path("/"),
        environment={"PATH": os.environ["PATH"]},
        has_pipes=True,
    )


async def test_pipes_are_the_commands_own_input_and_error_output() -> None:
    process = await start_with_pipes("read line; echo $line; echo trouble >&2; cat")
    assert process.input is not None
    assert process.errors is not None
    with trio.fail_after(60):
        await process.input.send_all(b"hello\n")
        assert await process.output.receive_some() == b"hello\n"
        assert await process.errors.receive_some() == b"trouble\n"
        process.input.close()  # nothing else holds the end open, so `cat` sees the end
        await process.wait()
        report = await process.aclose()
    assert report.code == 0


async def test_nothing_is_left_of_pipes_when_the_command_ends_or_is_killed() -> None:
    before = set(os.listdir("/dev/fd"))
    with trio.fail_after(60):
        for script in ("exit 3", "trap '' TERM PIPE; while :; do sleep 600; done"):
            process = await start_with_pipes(script)
            await process.aclose()
            assert process.has_ended
    assert set(os.listdir("/dev/fd")) == before


@LINUX
async def test_a_command_holds_its_own_ends_of_pipes_alone() -> None:
    own, others = "/proc/$$/fd/0 /proc/$$/fd/2", "/proc/$PPID/fd/* /proc/$$/fd/[3-9]"
    process = await start_with_pipes(f"readlink {own}; echo --; readlink {others}")
    with trio.fail_after(60):
        output = bytearray()
        await process.follow(output.extend)
        await process.aclose()
    mine, _, theirs = output.decode().partition("--")
    assert len(set(mine.split())) == 2
    assert set(mine.split()).isdisjoint(theirs.split())
