"""The small parts: piped input, plain lines, the log, the recap, the exit codes."""

import logging
import os
import pty
import stat

import pytest
import trio
from msgspec.structs import replace

from greenroom.cli.diagnostics import log_to_file
from greenroom.cli.formatting import count_earlier_turns, recap
from greenroom.cli.interactive import _exit_code
from greenroom.cli.options import Options
from greenroom.cli.painter import ColorScheme, Painter, detect_colors
from greenroom.cli.render_chunk import render_recap
from greenroom.cli.run_setup import open_setup, read_instructions
from greenroom.cli.stdio import MAX_PIPED, OutputWriter, add_context, count_unread, read_piped
from greenroom.cli.terminal import Closed, Frame, Line, PromptQuestion, open_plain_terminal
from greenroom.cli.turn_record import TurnRecord
from greenroom.core import (
    ConfigurationError,
    Done,
    Error,
    Exited,
    Message,
    SessionLockedError,
    ToolResultBlock,
    ToolUseBlock,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.runtime import AgentRuntime, Outcome
from greenroom.session import AgentSession, FileStore
from greenroom.testing import ScriptedProvider, call


def pipe_of(data, *, close=True):
    read, write = os.pipe()
    os.write(write, data)
    if close:
        os.close(write)
    return read, write


async def test_a_pipe_is_read_to_its_end():
    read, _ = pipe_of("grüße".encode())
    assert await read_piped(read) == "grüße"
    os.close(read)


async def test_a_pipe_that_nobody_writes_to_counts_as_empty(autojump_clock):
    read, write = pipe_of(b"", close=False)
    assert await read_piped(read) == ""
    os.close(read)
    os.close(write)


async def test_a_file_is_read_and_cut_at_the_limit(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(b"x" * (MAX_PIPED + 10))
    with path.open() as file:
        text = await read_piped(file.fileno())
    assert text.endswith(f"x\n[cut after {MAX_PIPED} bytes]")
    assert len(text) < MAX_PIPED + 50


async def test_a_terminal_is_not_read():
    master, slave = pty.openpty()
    assert await read_piped(slave) == ""
    os.close(master)
    os.close(slave)


async def test_a_closed_standard_input_counts_as_empty():
    read, _ = pipe_of(b"x")
    os.close(read)
    assert await read_piped(read) == ""


def test_blank_input_is_no_context():
    assert add_context("explain", " \n") == "explain"


async def test_plain_lines_are_bound_to_the_question_that_was_printed_before_they_came(capfd):
    read, write = pipe_of(b"early\n", close=False)
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            assert await terminal.events.receive() == Line("early")
            await terminal.show(Frame("really?\n", question=PromptQuestion("q", "allow? > ")))
            terminal.clear_line()
            os.write(write, b"y\r\nlast without end")
            assert await terminal.events.receive() == Line("y", "q")
            os.close(write)
            assert await terminal.events.receive() == Line("last without end", "q")
            assert await terminal.events.receive() == Closed()
    os.close(read)
    assert capfd.readouterr().out == "really?\nallow? >\n"


async def test_a_line_without_end_is_taken_in_pieces(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * 2_500_000)
    lengths = []
    with path.open() as file, trio.fail_after(60):
        async with open_plain_terminal(file.fileno()) as terminal:
            while isinstance(event := await terminal.events.receive(), Line):
                lengths.append(len(event.text))
    assert sum(lengths) == 2_500_000
    assert max(lengths) < 1_100_000


async def test_for_a_terminal_what_is_written_is_made_visible():
    master, slave = pty.openpty()
    await OutputWriter(slave).text("a\x1b[2Jb")
    assert os.read(master, 100) == b"a\\u{1b}[2Jb\r\n"
    os.close(master)
    os.close(slave)


def test_the_log_turns_over_and_stays_private(tmp_path, monkeypatch):
    monkeypatch.setattr("greenroom.cli.log_file._BYTES", 1_000)
    path = tmp_path / "log"
    with log_to_file(str(path)):
        for number in range(100):
            logging.getLogger("greenroom.test").warning("line %s", number)
        try:
            raise ValueError("broken by Bearer abc123def")
        except ValueError:
            logging.getLogger("greenroom").exception("it went wrong")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert "ValueError: broken by Bearer [secret]" in path.read_text()
    assert not [h for h in logging.getLogger("greenroom").handlers if hasattr(h, "maxBytes")]


def test_a_log_that_can_not_be_written_says_so(tmp_path):
    with pytest.raises(ConfigurationError, match="Is a directory"), log_to_file(str(tmp_path)):
        pass


CALL = ToolUseBlock("t", "Bash", {"command": "make"})
HISTORY = (
    Message.user("build it"),
    Message.assistant([CALL]),
    Message.user([ToolResultBlock("t", (), is_error=True)]),
    Message.assistant("It failed\x1b[2J."),
    Message.user("again"),
    Message.assistant([CALL]),
)


def test_a_recap_tells_what_was_said_and_done_and_how_it_went():
    assert "\n\n".join(map(str, recap(HISTORY))) == (
        "> build it\n\n✗ Bash  make\n  failed\n\nIt failed␛[2J.\n\n> again\n\n● Bash  make"
    )


def test_a_recap_tells_who_said_it():
    said = (Message.user("go"), Message.user("on", sender="plan"))
    assert "\n\n".join(map(str, recap(said))) == "> go\n\nplan> on"
    shown = [Painter(None).paint([render_recap(line, ColorScheme())], 60) for line in recap(said)]
    assert shown == ["> go\n", "plan> on\n"]


def test_a_recap_of_the_last_messages_begins_with_words_of_the_user():
    assert [line.kind for line in recap(HISTORY, 2)] == ["user", "call"]
    assert recap(HISTORY, 3)[0].kind == "user"
    assert recap((), 3) == []


def test_a_recap_counts_the_turns_that_it_leaves_out():
    assert count_earlier_turns(HISTORY, 2) == 1
    assert count_earlier_turns(HISTORY, 6) == 0


@pytest.mark.parametrize(
    ("chunks", "code"),
    [
        ([Done("i")], 0),
        ([Done("i", TurnStatus.FAILED)], 1),
        ([Error("x", "ModelAuthenticationError"), Done("i", TurnStatus.FAILED)], 2),
        ([Done("i", TurnStatus.INTERRUPTED)], 130),
        ([Exited(EndStatus.CRASHED)], 1),
        ([], 1),
    ],
)
def test_the_exit_code_says_how_the_turn_ended(chunks, code):
    record = TurnRecord("s-1", "model")
    for chunk in chunks:
        record.note(chunk)
    assert record.exit_code == code
    assert record.result(())["exit_code"] == code


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (None, 0),
        (Outcome(EndStatus.COMPLETED), 0),
        (Outcome(EndStatus.CRASHED, error=ValueError()), 1),
        (Outcome(EndStatus.CRASHED, error=SessionLockedError("it is in use")), 2),
    ],
)
def test_an_interactive_run_ends_with_a_code_too(outcome, code):
    assert _exit_code(outcome) == code


@pytest.mark.parametrize(
    ("env", "colors"),
    [
        ({"TERM": "xterm"}, "standard"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, None),
    ],
)
def test_colours_are_those_that_the_terminal_has(env, colors):
    assert detect_colors(env) == colors


def test_a_very_narrow_terminal_is_painted_as_one_of_twenty_columns():
    assert Painter(None).paint(["x" * 30], width=3) == "x" * 20 + "\n" + "x" * 10 + "\n"


async def test_a_torn_session_is_told_of_when_it_is_resumed(tmp_path, monkeypatch):
    store = FileStore(tmp_path / "sessions")
    session = AgentSession.new("coder", session_id="s-torn", store=store)
    session.add_message(Message.user("hello"))
    await session.save()
    with (tmp_path / "sessions" / "s-torn" / "history.jsonl").open("ab") as file:
        file.write(b'{"half')
    monkeypatch.chdir(tmp_path)
    options = Options(resume="s-torn", sessions=str(tmp_path / "sessions"), model="offline:")
    async with open_setup(options, {}) as setup:
        assert any("6 bytes that can't be read" in note for note in setup.notes)
        assert setup.session.history == (Message.user("hello"),)


@pytest.fixture
def answers():
    """A pipe, and a plain terminal's view of what comes through it."""
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


ASKED = Frame(question=PromptQuestion("q", "allow? > "))


async def test_a_line_that_lay_in_the_pipe_before_the_label_is_no_answer(answers):
    read, write = answers
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            os.write(write, b"y\nyes\nn")  # not read yet when the question is printed
            await terminal.show(ASKED)
            os.write(write, b"o\ny\n")
            lines = [await terminal.events.receive() for _ in range(4)]
    assert lines == [Line("y"), Line("yes"), Line("no"), Line("y", "q")]


async def test_a_line_begun_under_one_question_does_not_answer_the_next(answers):
    read, write = answers
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            await terminal.show(ASKED)
            os.write(write, b"first\ny")
            assert await terminal.events.receive() == Line("first", "q")
            await terminal.show(Frame(question=PromptQuestion("q2", "allow? > ")))
            os.write(write, b"\ny\n")
            assert await terminal.events.receive() == Line("y", "q")
            assert await terminal.events.receive() == Line("y", "q2")


async def test_what_lay_there_when_the_next_question_came_is_no_input_either(answers):
    read, write = answers
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            await terminal.show(ASKED)
            os.write(write, b"y\nyes\nn")  # not read yet when the next one is printed
            await terminal.show(Frame(question=PromptQuestion("q2", "allow? > ")))
            os.write(write, b"o\ny\n")
            lines = [await terminal.events.receive() for _ in range(4)]
    assert lines == [Line("y", "q"), Line("yes", "q"), Line("no", "q"), Line("y", "q2")]


async def test_a_question_that_is_gone_takes_no_line(answers):
    read, write = answers
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            await terminal.show(ASKED)
            await terminal.show(Frame())
            os.write(write, b"y\n")
            assert await terminal.events.receive() == Line("y")


async def test_a_follow_up_takes_what_is_there_already(answers):
    read, write = answers
    follow_up = Frame(question=PromptQuestion("q why", "why not? > ", is_follow_up=True))
    with trio.fail_after(60):
        async with open_plain_terminal(read) as terminal:
            await terminal.show(ASKED)
            await terminal.show(follow_up)
            os.write(write, b"because\n")
            assert await terminal.events.receive() == Line("because", "q why")


def test_of_what_is_no_stream_nothing_is_unread(tmp_path):
    (tmp_path / "x").write_text("y\n")
    with (tmp_path / "x").open() as file:
        assert count_unread(file.fileno()) == 0


def test_a_run_is_told_what_the_project_and_the_user_say(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.platform", "linux")
    project, config = tmp_path / "project", tmp_path / "config" / "greenroom"
    for folder, text in ((project, "of the project"), (config, "of the user")):
        folder.mkdir(parents=True)
        (folder / "AGENTS.md").write_text(text)
        place = {project: folder / ".greenroom", config: folder}[folder] / "skills" / text[-4:]
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\nname: {text[-4:]}\ndescription: {text}\n---\nBody")
    (project / "CLAUDE.md").write_text("not read")
    found = read_instructions(project)
    assert "| of the project" in found.text.splitlines()
    assert "of the user" in found.text.splitlines()
    assert "- user: of the user" in found.text.splitlines()
    assert "| - ject: of the project" in found.text.splitlines()
    assert [tool.name for tool in found.tools] == ["Skill"]
    assert [each.path.name for each in found.from_project] == ["AGENTS.md", "SKILL.md"]
    assert len(found.untrusted) == 2


async def test_the_model_of_a_run_is_told_of_notes_and_skills(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skill = tmp_path / ".greenroom" / "skills" / "a" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: deploy\ndescription: Ship it.\n---\nMake it.")
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    llm = ScriptedProvider(call("Skill", name="deploy"), "done")
    options = Options(model="offline:", sessions=str(tmp_path / "sessions"))
    async with open_setup(options, {}) as setup:
        run = replace(setup, model=llm)
        async with AgentRuntime(run.store, workspace=run.workspace) as runtime:
            handle = run.spawn(runtime, unattended="deny")
            assert (await handle.ask("hello")).text == "done"
    first, second = llm.requests
    assert first.system == second.system
    assert {"| Be brief.", "| - deploy: Ship it."} <= set(first.system.splitlines())
    assert second.messages[-1].content[0].content[0].text.endswith("| Make it.")
