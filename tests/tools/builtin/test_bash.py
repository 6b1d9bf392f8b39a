import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ShellCommand, ToolError, ToolStatus
from greenroom.tools.builtin.bash import Bash
from tests.absent_programs import needs

USR_BIN = Path("/usr/bin").resolve()
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


async def run(context: AgentContext, command: str, **options: object):
    with trio.fail_after(60):
        return await Bash().execute({"command": command, **options}, context)


def heard_by(hear: Callable[[str], object], context: AgentContext) -> AgentContext:
    """Return the context of a call whose progress goes to a function."""
    return replace(context, current_tool_use_id="t", on_progress=lambda _, text: hear(text))


def marker() -> str:
    """Return a duration for `sleep` that stands in no other process's arguments."""
    return f"600.{int.from_bytes(os.urandom(6), 'big')}"


def marked(text: str) -> list[int]:
    """List the living processes that have this text among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and text.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


async def dead(pids: list[int]) -> None:
    """Wait for processes that are not our children."""
    for pid in pids:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            await trio.lowlevel.wait_readable(handle)
            os.close(handle)


SURVIVORS = {
    "a job": "sleep {0} &",
    "a session of its own": "setsid sleep {0} &",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 &",
    "a daemon that forked twice": "(setsid bash -c 'sleep {0} & exit' </dev/null "
    ">/dev/null 2>&1 &)",
    "a cleared environment": "env -i /bin/sleep {0} &",
    "signals ignored": "(trap '' TERM INT HUP; sleep {0}; sleep {0}) &",
    "a chain of parents": "setsid bash -c 'setsid bash -c \"sleep {0}; true\"; true' &",
    "a stopped process": "sleep {0} & sleep 0.05; kill -STOP $!",
}


async def test_output_and_error_output_come_in_order(context: AgentContext) -> None:
    result = await run(context, "echo one; echo two >&2; echo three")
    assert result.text == "one\ntwo\nthree"
    assert result.metadata["exit_code"] == 0
    assert not result.is_error


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("exit 3", 3, "[exit code 3]"),
        ("echo a; false", 1, "a\n[exit code 1]"),
        ("kill -9 $$", -9, "[killed by signal 9 (SIGKILL)]"),
        ("kill -SEGV $$", -11, "[killed by signal 11 (SIGSEGV)]"),
        ("if", 2, "syntax error"),
        ("no-such-program-here", 127, "command not found"),
        ("exec >&- 2>&-; exit 4", 4, "(no output)\n[exit code 4]"),
        ("exec false", 1, "[exit code 1]"),
        ("kill 0", -15, "SIGTERM"),
        ("bash -c 'exit 7'", 7, "[exit code 7]"),
    ],
)
async def test_a_failure_is_an_error_with_its_exit_code(
    context: AgentContext, command: str, code: int, text: str
) -> None:
    result = await run(context, command)
    assert result.status is ToolStatus.ERROR
    assert result.metadata["exit_code"] == code
    assert text in result.text
    assert f"[{result.error_message}]" in result.text


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="needs real-time signals")
async def test_a_signal_without_a_name_is_told_by_its_number(context: AgentContext) -> None:
    assert "killed by signal 40 (unnamed)" in (await run(context, "kill -40 $$")).text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("  \n", "is empty"),
        ("echo a\0b", "NUL"),
        ("echo \ud800", "not valid Unicode"),
        ("x" * 131_072, "131072 bytes"),
    ],
)
async def test_what_bash_can_not_take_is_refused(
    context: AgentContext, command: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await run(context, command)


async def test_the_longest_command_runs(context: AgentContext) -> None:
    assert not (await run(context, "true #".ljust(131_000, "x"))).is_error


async def test_a_command_that_was_judged_runs_in_place_of_its_text(
    context: AgentContext, root: Path
) -> None:
    context.command = "'echo' '*'"
    assert (await run(context, "echo *")).text == "*"


async def test_bash_takes_no_function_from_the_environment(
    context: AgentContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await Bash(environment={"BASH_FUNC_ls%%": "() { echo taken; }"}).execute(
        {"command": "ls"}, context
    )
    assert "taken" not in found.text


async def test_the_working_directory_persists(context: AgentContext, root: Path) -> None:
    await run(context, "mkdir 'sub dir'$'\\n'")
    await run(context, "cd sub*; exit 3")
    assert context.workspace.cwd == root / "sub dir\n"
    assert (await run(context, "pwd")).text == str(root / "sub dir")
    assert (await run(context, "VALUE=1; cd ..")).metadata["cwd"] == str(root)
    assert (await run(context, "echo ${VALUE:-gone}")).text == "gone"


@pytest.mark.parametrize("command", ["cd /", "cd link"])
async def test_a_working_directory_outside_is_reset_with_a_note(
    context: AgentContext, root: Path, command: str
) -> None:
    os.symlink("/usr", root / "link")
    result = await run(context, command)
    assert f"working directory reset to {root}" in result.text
    assert context.workspace.cwd == root


async def test_the_working_directory_keeps_the_name_of_the_root(
    context: AgentContext, root: Path
) -> None:
    alias = root.parent / "alias"
    os.symlink(root, alias)
    context.workspace.root = context.workspace.cwd = alias
    await run(context, "mkdir sub; cd sub")
    assert context.workspace.cwd == alias / "sub"


async def test_an_allowed_folder_may_be_the_working_directory(context: AgentContext) -> None:
    context.allowed_paths = ("/usr",)
    await run(context, "cd /usr/bin")
    assert context.workspace.cwd == USR_BIN


async def test_a_working_directory_that_is_gone_falls_back_to_the_root(
    context: AgentContext, root: Path
) -> None:
    context.workspace.cwd = root / "gone"
    result = await run(context, "pwd")
    assert result.text.startswith(f"{root}\n[")
    assert "gone is gone" in result.text


async def test_no_root_at_all_is_an_error(context: AgentContext, root: Path) -> None:
    os.rmdir(root)
    with pytest.raises(ToolError, match="can't start bash"):
        await run(context, "pwd")


@pytest.mark.parametrize(
    "command",
    [
        "exec pwd",
        "(cd /usr)",
        "trap - EXIT; cd /usr",
        "bash -c 'cd /usr'",
        "kill -9 $$",
        "mkdir gone; cd gone; rmdir ../gone",
    ],
)
async def test_a_shell_that_does_not_tell_leaves_the_working_directory(
    context: AgentContext, root: Path, command: str
) -> None:
    assert "reset" not in (await run(context, command)).text
    assert context.workspace.cwd == root


@pytest.mark.parametrize("noise", ["", "relative", "/a\\0b", "/%04000d"])
async def test_a_forged_note_can_not_move_the_agent(
    context: AgentContext, root: Path, noise: str
) -> None:
    await run(context, f"printf '{noise}' >&19; exec true")
    assert context.workspace.cwd == root


async def test_no_secret_and_no_startup_hook_reaches_a_command(
    context: AgentContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A_API_KEY", "DATABASE_URL", "LD_LIBRARY_PATH", "ENV", "NODE_OPTIONS", "IFS"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("HTTPS_PROXY", "http://planted:planted@proxy")
    result = await run(context, "env; cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -v ^LD_")
    assert "planted" not in result.text
    assert "BASH_ENV" not in (await run(context, "bash -c env")).text
    assert "GIT_TERMINAL_PROMPT=0" in result.text


async def test_the_programmer_may_add_variables(context: AgentContext) -> None:
    with trio.fail_after(60):
        result = await Bash(environment={"COLOUR": "green"}).execute(
            {"command": "echo $COLOUR"}, context
        )
    assert result.text == "green"


async def test_standard_input_is_empty(context: AgentContext) -> None:
    assert (await run(context, "cat; read line || echo none")).text == "none"


async def test_a_syntax_error_quotes_the_command_and_nothing_of_ours(context: AgentContext) -> None:
    result = await run(context, "echo )")
    assert "`echo )'" in result.text
    assert "trap" not in result.text


async def test_signals_are_as_a_fresh_shell_has_them(context: AgentContext) -> None:
    assert (await run(context, "bash -c 'trap -p'; yes | head -1; echo ${PIPESTATUS[0]}")).text == (
        "y\n141"
    )


async def test_output_is_shown_while_the_command_runs(context: AgentContext, root: Path) -> None:
    os.mkfifo(root / "gate")
    shown = trio.Event()
    pieces: list[str] = []

    def progress(text: str) -> None:
        pieces.append(text)
        shown.set()

    async with trio.open_nursery() as nursery:
        call = heard_by(progress, context)
        nursery.start_soon(run, call, "echo first; cat gate >/dev/null; echo second")
        with trio.fail_after(60):
            await shown.wait()
        assert "".join(pieces) == "first\n"
        await trio.to_thread.run_sync((root / "gate").write_text, "open")
    assert "".join(pieces) == "first\nsecond\n"


async def test_a_character_cut_between_two_writes_is_shown_whole(context: AgentContext) -> None:
    pieces: list[str] = []
    call = heard_by(pieces.append, context)
    script = "for b in f0 9f 8c b1; do printf \"\\x$b\"; sleep 0.01; done; printf '\\xff\\0'"
    result = await run(call, script)
    assert result.text == "🌱\ufffd\ufffd"
    assert "".join(pieces) == "🌱\ufffd\ufffd"


async def test_a_flood_is_bounded_in_the_result_and_in_what_is_shown(context: AgentContext) -> None:
    pieces: list[str] = []
    call = heard_by(pieces.append, context)
    result = await run(call, "echo first; yes 🌱 | head -c 60000000; echo last")
    assert result.text.startswith("first\n🌱\n")
    assert result.text.endswith("🌱\nlast")
    assert "characters left out" in result.text
    assert len(result.text) < 1_000_100
    assert sum(map(len, pieces)) < 1_000_100
    assert "not shown live" in pieces[-1]


async def test_the_time_out_kills_and_keeps_the_output(context: AgentContext) -> None:
    result = await run(context, "echo before; sleep 600", timeout=3000)
    assert result.status is ToolStatus.TIMEOUT
    assert result.text == "before\n[timed out after 3 s; all it started was killed]"
    assert result.metadata["timed_out"] is True


@LINUX
@needs("pgrep")
@pytest.mark.parametrize("survivor", SURVIVORS.values(), ids=SURVIVORS)
async def test_nothing_survives_the_end_of_a_command(context: AgentContext, survivor: str) -> None:
    duration = marker()
    # The survivors are waited for, so that none of them is only about to start.
    start = (
        survivor.format(duration)
        + f"\nuntil pgrep -f '^[^ ]*sleep {duration}'; do sleep 0.01; done"
    )
    result = await run(context, start, timeout=20_000)
    assert result.metadata["timed_out"] is False
    assert marked(duration) == []


@LINUX
async def test_nothing_survives_the_time_out_of_a_command(context: AgentContext) -> None:
    duration = marker()
    started = "\n".join(survivor.format(duration) for survivor in SURVIVORS.values())
    result = await run(context, f"{started}\nsleep 600", timeout=1_000)
    assert result.metadata["timed_out"] is True
    assert marked(duration) == []


@LINUX
async def test_a_cancel_waits_for_no_command_and_leaves_no_process(context: AgentContext) -> None:
    duration = marker()
    started = trio.Event()
    call = heard_by(lambda _: started.set(), context)
    command = f"sleep {duration} & setsid sleep {duration} & echo ready; sleep {duration}"
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, call, command)
            await started.wait()
            nursery.cancel_scope.cancel()
    assert marked(duration) == []


@LINUX
async def test_a_cancel_works_within_the_scope_that_the_runtime_gives(
    context: AgentContext,
) -> None:
    duration = marker()
    asked: list[float] = []

    @contextmanager
    def spent(call: str, grace: float):
        asked.append(grace)
        with trio.move_on_after(0, shield=True) as scope:
            yield scope

    context.on_cleanup = spent
    started = trio.Event()
    call = heard_by(lambda _: started.set(), context)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, call, f"setsid sleep {duration} & echo ready; sleep {duration}")
        await started.wait()
        nursery.cancel_scope.cancel()
    assert len(asked) == 1
    assert marked(duration) == []


@LINUX
@pytest.mark.parametrize("name", ["KILL", "TERM"])
async def test_killing_the_parent_leaves_nothing(context: AgentContext, name: str) -> None:
    duration = marker()
    command = f"setsid sleep {duration} & sleep 0.1; kill -{name} $PPID; sleep {duration}"
    result = await run(context, command)
    assert result.status is ToolStatus.ERROR
    assert "it interfered with the process that waits for it; all it started" in result.text
    assert marked(duration) == []


@LINUX
async def test_a_killed_guard_takes_the_group_along_and_the_result_is_honest(
    context: AgentContext,
) -> None:
    duration = marker()
    guard = "$(awk '{print $4}' /proc/$PPID/stat)"
    result = await run(context, f"sleep {duration} & kill -9 {guard}; sleep {duration}")
    assert "it may have left processes running" in result.text
    assert "all it started was killed" not in result.text
    with trio.fail_after(60):
        await dead(marked(duration))
    assert marked(duration) == []


@LINUX
async def test_a_stopped_parent_holds_nothing_up(context: AgentContext) -> None:
    assert (await run(context, "kill -STOP $PPID; echo hi")).text == "hi"


@LINUX
@pytest.mark.parametrize("whom", ["$PPID", "$(awk '{print $4}' /proc/$PPID/stat)"])
async def test_a_guard_that_is_stopped_again_and_again_still_kills(
    context: AgentContext, whom: str
) -> None:
    duration = marker()
    command = f"P={whom}; setsid sleep {duration} & while :; do kill -STOP $P; done"
    result = await run(context, command, timeout=1_000)
    assert "timed out after 1 s; all it started was killed" in result.text
    assert marked(duration) == []


@LINUX
async def test_the_death_of_our_own_process_leaves_nothing(root: Path) -> None:
    duration = marker()
    program = textwrap.dedent(
        f"""
        import trio
        from greenroom.core import AgentContext, Workspace
        from greenroom.tools import Bash
        context = AgentContext(session_id="s", agent_type="t", workspace=Workspace({str(root)!r}))
        call = context.with_tool_use_id("t")
        call.on_progress = lambda _, text: print(text, flush=True)
        command = "sleep {duration} & setsid sleep {duration} & echo ready; sleep {duration}"
        trio.run(Bash().execute, {{"command": command}}, call)
        """
    )
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", program], stdout=subprocess.PIPE
        )
        assert b"ready" in await process.stdout.receive_some()
        pids = [pid for pid in marked(duration) if pid != process.pid]
        assert len(pids) >= 4
        process.kill()
        await process.wait()
        await process.stdout.aclose()
        await dead(pids)
    assert marked(duration) == []


@LINUX
async def test_no_descriptor_and_no_zombie_is_left(context: AgentContext) -> None:
    def state() -> tuple[int, str]:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
        return len(os.listdir("/proc/self/fd")), children

    await run(context, "true")
    before = state()
    for command in ("true", "exit 1", "sleep 9 & true"):
        await run(context, command)
    with trio.move_on_after(0.1):
        await run(context, "sleep 600")
    assert state() == before


class Steps(trio.abc.Instrument):
    """Count how often the event loop gives a task its turn."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_nothing_looks_again_and_again_whether_a_command_has_printed(
    context: AgentContext,
) -> None:
    counts = []
    for command in ("true", "sleep 1"):
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await run(context, command)
        trio.lowlevel.remove_instrument(steps)
        counts.append(steps.count)
    assert counts[1] <= counts[0] + 10


async def test_commands_of_two_agents_run_side_by_side(root: Path, context: AgentContext) -> None:
    os.mkfifo(root / "pipe")
    texts = []

    async def note(command: str) -> None:
        texts.append((await run(context, command)).text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, "echo hello > pipe")
        nursery.start_soon(note, "cat pipe")
    assert sorted(texts) == ["(no output)", "hello"]


def test_a_prompt_shows_the_command_and_rules_see_it(context: AgentContext) -> None:
    tool = Bash()
    assert tool.info({"command": "rm -r x"}).details == "rm -r x"
    assert tool.effects({"command": "ls"}, context) == (ShellCommand("ls"),)
    assert tool.timeout > 600


@needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "git commit --allow-empty",
        "git commit --allow-empty -qm one && git commit --allow-empty -qm two && git rebase -i @~1",
        "git commit --allow-empty -qm one && git tag -a v1",
        "git -c core.editor=vi commit --allow-empty",
        "$EDITOR x",
        "$VISUAL x",
    ],
)
async def test_an_editor_fails_at_once_and_says_why(context: AgentContext, command: str) -> None:
    await run(context, "git init -q . && git config user.email a@b.c && git config user.name n")
    result = await run(context, command, timeout=60_000)
    assert result.status is ToolStatus.ERROR
    assert "editor" in result.text or "$" in command


async def test_what_is_meant_for_a_terminal_does_not_reach_the_model(context: AgentContext) -> None:
    pieces: list[str] = []
    command = (
        "for i in $(seq 1 300); do printf 'Downloading %d%%\\r' $i; done; echo; "
        "printf '\\033[31mred\\033[0m \\033[2K\\033[1Gx\\n\\033]0;title\\007'; echo a; echo b; "
        "printf '\\033[2A\\033[2KA\\n'"
    )
    result = await run(heard_by(pieces.append, context), command)
    assert result.text == "Downloading 300%\nx\nA\nb"
    live = "".join(pieces)
    assert not {"\x1b", "\r", "\a"} & {*live}
    assert "Downloading 300%\n" in live
