import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from greenroom.sandbox import process_tree as launcher
from tests.absent_programs import needs

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


PROGRAM = (launcher.__file__,)
# The launcher, whose middle process is slow to let go of what it inherited: it waits for the end of
# the command, half a second at most.
SLOW_PARENT = f"""
import os, runpy, signal
def open_late(path, flags, real=os.open):
    if flags == os.O_RDWR:
        signal.sigtimedwait({{signal.SIGCHLD}}, 0.5)
    return real(path, flags)
os.open = open_late
runpy.run_path({launcher.__file__!r}, run_name="__main__")
"""


async def launch(
    *command: str, stop: bool = False, program: tuple[str, ...] = PROGRAM
) -> tuple[bytes, list[bytes]]:
    """Run the launcher by itself; its output, and the lines of its report."""
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [sys.executable, *program, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        output, report = b"", b""
        async with process.stdin, process.stdout, process.stderr:
            if stop:
                output += await process.stdout.receive_some()
                await process.stdin.aclose()
            async for chunk in process.stdout:
                output += chunk
            async for chunk in process.stderr:
                report += chunk
        assert await process.wait() == 0
    return output, report.split(b"\n", 3)


async def test_the_report_has_the_id_the_exit_code_and_the_note() -> None:
    output, (pid, code, state, note) = await launch(
        "bash", "-c", "echo $$; echo hello >&19; exit 5"
    )
    assert output == pid + b"\n"
    assert code == b"5"
    assert state == b"gone"
    assert note == b"hello\n"


async def test_a_closed_lifeline_kills_and_reports_no_exit_code() -> None:
    output, report = await launch("bash", "-c", "echo up; sleep 600", stop=True)
    assert output == b"up\n"
    assert report[1:] == [b"", b"gone", b""]


async def test_a_command_that_is_not_there_exits_as_a_shell_says() -> None:
    output, report = await launch("no-such-program-here")
    assert output == b"no-such-program-here: No such file or directory\n"
    assert report[1] == b"127"


@needs("ps")
async def test_the_dead_that_were_left_to_the_launcher_are_collected() -> None:
    script = "for i in 1 2 3; do (setsid true &); done; sleep 0.2; ps -o stat= --ppid $PPID"
    output, _ = await launch("bash", "-c", script)
    assert b"Z" not in output


@needs("ps")
def test_both_ways_to_list_processes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = launcher.list_processes()
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    by_ps = launcher.list_processes()
    own = next(row for row in direct if row[0] == os.getpid())
    assert own in by_ps
    assert own == (os.getpid(), os.getppid(), os.getpgrp())


def test_without_linux_there_is_no_subreaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert launcher.prctl(36, 1) is False


def test_a_family_is_descendants_and_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    own, group = os.getpid(), os.getpgrp()
    rows = [
        (own, 1, group),
        (9001, own, 9001),
        (9002, 9001, 9002),
        (9003, 1, 9001),
        (9004, 1, 9004),
    ]
    monkeypatch.setattr(launcher, "list_processes", lambda: [*rows, (9005, own, group)])
    assert sorted(launcher.find_descendants(own, 9001)) == [9001, 9002, 9003]


def test_killing_gives_up_on_what_may_not_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    wake, end = os.pipe()
    tried = []

    def refuse(pid: int, _: int) -> None:
        tried.append(pid)
        os.write(end, b"x")
        raise PermissionError

    monkeypatch.setattr(launcher, "reap", lambda _: (False, False))
    monkeypatch.setattr(launcher, "find_descendants", lambda *_: [4242])
    monkeypatch.setattr(os, "kill", refuse)
    assert not launcher.kill_descendants(4242, wake, subreaper=True)
    os.close(wake)
    os.close(end)
    assert tried == [4242] * launcher.ROUNDS


def test_without_a_subreaper_an_empty_family_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "reap", lambda _: (True, False))
    monkeypatch.setattr(launcher, "find_descendants", lambda *_: [])
    assert launcher.kill_descendants(4242, -1, subreaper=False)


def test_what_the_linker_reads_does_not_reach_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/lib")
    monkeypatch.setenv("PLAIN", "kept")
    cleaned = launcher.drop_linker_variables(os.environb)
    assert b"LD_LIBRARY_PATH" not in cleaned
    assert cleaned[b"PLAIN"] == b"kept"


@LINUX
async def test_a_parent_that_is_stopped_is_woken_up() -> None:
    output, report = await launch("bash", "-c", "kill -STOP $PPID; echo hi; exit 3")
    assert output == b"hi\n"
    assert report[1:] == [b"3", b"gone", b""]


async def test_a_parent_that_is_killed_ends_the_command() -> None:
    output, report = await launch("bash", "-c", "kill -KILL $PPID; sleep 600")
    assert output == b""
    assert report[1:] == [b"", b"gone", b""]


@LINUX
@pytest.mark.parametrize("program", [PROGRAM, ("-c", SLOW_PARENT)], ids=["launcher", "slow"])
async def test_the_report_is_out_of_the_parents_reach(program: tuple[str, ...]) -> None:
    write = "printf 'abc\\n' > /proc/$PPID/fd/2; exit 3"
    _, report = await launch("bash", "-c", write, program=program)
    assert report[1:] == [b"3", b"gone", b""]


@LINUX
async def test_a_request_to_terminate_counts_as_a_cut_lifeline() -> None:
    terminate = "kill -TERM $(awk '{print $4}' /proc/$PPID/stat); sleep 600"
    output, report = await launch("bash", "-c", terminate)
    assert output == b""
    assert report[1] == b""


def test_a_python_without_ctypes_has_no_subreaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert launcher.prctl(36, 1) is False


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["self", "4194305", str(os.getpid())])
    assert [row[0] for row in launcher.list_processes()] == [os.getpid()]


async def test_a_caller_that_listens_no_more_changes_nothing() -> None:
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [sys.executable, launcher.__file__, "bash", "-c", "echo up; sleep 600"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        await process.stderr.aclose()
        async with process.stdin, process.stdout:
            assert await process.stdout.receive_some() == b"up\n"
            await process.stdin.aclose()
            assert await process.wait() == 0


@needs("ps")
async def test_where_there_is_no_subreaper_the_group_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The launcher as it runs on a system that is not Linux and has no /proc.
    (tmp_path / "elsewhere.py").write_text(
        "import os, sys; sys.platform = 'darwin'\n"
        f"sys.path.append({os.path.dirname(launcher.__file__)!r})\n"
        "import process_tree; os.path.exists = lambda _: False; process_tree.main(sys.argv[1:])\n"
    )
    monkeypatch.setattr(launcher, "__file__", str(tmp_path / "elsewhere.py"))
    # The second one is an orphan, but still of the group.
    output, report = await launch("bash", "-c", "sleep 600 & (sleep 600 & echo up)")
    assert output == b"up\n"
    assert report[1:] == [b"0", b"killed", b""]


def test_parents_are_killed_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    launcher.kill([9003, 9001, 9002])
    assert killed == [9001, 9002, 9003]
