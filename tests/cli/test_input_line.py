"""What is typed into the input line, in a real pseudo-terminal."""

import base64
import json
import sys
import zlib

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from greenroom.cli.input_history import add_to_history, history_file, read_history
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.mentions import find_mentions
from greenroom.cli.paste_chips import LONG_LINES, LONG_TEXT, PasteChips
from greenroom.cli.prompt_terminal import PromptApplication
from greenroom.cli.terminal import Key, KeyName
from tests.cli.test_interactive import CTRL_C, CTRL_D, ENTER, ESCAPE, READY, ask
from tests.terminal_program import TerminalProgram

UP, DOWN, TAB, ALT_ENTER, BACKSPACE = "\x1b[A", "\x1b[B", "\t", "\x1b\r", "\x7f"
SHIFT_TAB = "\x1b[Z"
CLEAR_LINE = "\x15"


def paste(program, text):
    program.type(f"\x1b[200~{text}\x1b[201~")


def sent(run):
    """Return what the person has sent in the newest session, block by block."""
    [newest, *_] = run("sessions", "list", "--json").json
    exported = run("sessions", "export", newest["session_id"], "--format", "json").out
    messages = json.loads(exported)["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


def texts(blocks):
    return "\n".join(each.get("text", "") for each in blocks)


@given(st.lists(st.text(max_size=3_000), max_size=5), st.text(max_size=50))
def test_a_chip_is_one_letter_and_stands_for_its_whole_text(pasted, typed):
    chips = PasteChips()
    made = [chips.make(text) for text in pasted]
    for text, chip in zip(pasted, made, strict=True):
        is_long = len(text) > LONG_TEXT or len(text.split("\n")) > LONG_LINES + 1
        assert not is_long or len(chip) == 1
        assert chips.expand(chip) == text
        assert is_long or chips.show(chip) in (text, chips.show(chip))
    assert chips.expand(typed.join(made)) == typed.join(pasted)


@given(st.text(max_size=80), st.text(max_size=20))
def test_a_text_never_names_a_place_that_does_not_exist(text, more):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for each in find_mentions(f"{text} @{more}", Path(folder)):
            assert each.path.exists()


@pytest.mark.parametrize(
    ("text", "label", "lines"),
    [
        ("see @a.py#L2-4.", "a.py#L2-4", (2, 4)),
        ("see @a.py #L2-4, please", "a.py#L2-4", (2, 4)),  # as completion leaves it
        ('see @"a b.py" #L3', "a b.py#L3", (3, 3)),
        ('see @"a b.py#L3"', "a b.py#L3", (3, 3)),
        ("see @a.py #Later", "a.py", (0, 0)),
        ("see @a.py  #L2", "a.py", (0, 0)),
        ("see @a.py. #L2", "a.py#L2", (2, 2)),
    ],
)
def test_lines_of_a_file_may_stand_behind_a_blank(tmp_path, text, label, lines):
    for name in ("a.py", "a b.py"):
        (tmp_path / name).touch()
    (found,) = find_mentions(text, tmp_path)
    assert (found.label, (found.first, found.last)) == (label, lines)


def test_the_history_keeps_the_newest_inputs_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = history_file(tmp_path / "project")
    assert read_history(path) == []
    for text in ("one", "two\nlines", "x" * 200_000, "三"):
        add_to_history(path, text)
    path.write_bytes(path.read_bytes() + b"\xff half a line")
    assert read_history(path) == ["one", "two\nlines", "三"]
    assert path.stat().st_mode & 0o077 == 0
    assert history_file(tmp_path / "other") != path


def test_a_long_history_is_cut_to_its_newest_inputs(tmp_path):
    path = tmp_path / "history.jsonl"
    for number in range(60):
        add_to_history(path, f"{number} " + "x" * 90_000)
    assert len(read_history(path)) == 60
    path.write_bytes(path.read_bytes() * 10)
    read_history(path)
    assert len(path.read_bytes().splitlines()) == 500


def test_pasted_text_that_is_long_is_a_chip_that_is_sent_whole(terminal, run):
    program = terminal(size=(44, 80))
    program.wait_for("offline:rules", READY)
    whole = "\n".join(f"line {number}" for number in range(10_000))
    paste(program, "short\ntext")
    program.wait_for("> short\ntext")
    program.type(CLEAR_LINE + CLEAR_LINE + BACKSPACE + CLEAR_LINE + "see ")
    paste(program, whole)
    program.wait_for("> see [pasted 10,000 lines #1]")
    paste(program, "x" * 3_000)
    program.wait_for("> see [pasted 10,000 lines #1][pasted 3,000 letters #2]")
    program.type(BACKSPACE)
    program.wait_for("> see [pasted 10,000 lines #1]", without=["#2"])
    program.type(" please" + ENTER)
    screen = program.wait_for("> see [pasted 10,000 lines #1] please\n", "idle", "handful of rules")
    assert "line 5" not in screen
    program.type(UP)
    program.wait_until(lambda screen: screen.count("[pasted 10,000 lines #1]") == 2)
    program.type(CTRL_C)
    program.wait_until(lambda screen: screen.count("[pasted 10,000 lines #1]") == 1)
    program.type(CTRL_D)
    assert program.wait() == 0
    [said] = sent(run)
    assert texts(said) == f"see {whole} please"


def test_an_input_may_have_several_lines(terminal, run):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type("one\\" + ENTER + "two\n" + "three" + ALT_ENTER + "four")
    program.wait_for("> one\ntwo\nthree\nfour")
    program.type(ENTER)
    program.wait_for("handful of rules", "idle")
    program.type(CTRL_D)
    assert program.wait() == 0
    assert texts(sent(run)[0]) == "one\ntwo\nthree\nfour"


def test_earlier_inputs_of_the_folder_come_back_over_sessions(terminal):
    first = terminal()
    first.wait_for("offline:rules", READY)
    ask(first, "read README.md")
    first.wait_for("README.md, 1 line:", "idle")
    ask(first, "help me")
    first.wait_for("handful of rules, no language model", "idle")
    first.type(CTRL_D)
    assert first.wait() == 0
    second = terminal()
    second.wait_for("offline:rules", READY)
    second.type(UP)
    second.wait_for("> help me")
    second.type(UP)
    second.wait_for("> read README.md")
    second.type(DOWN + DOWN)
    second.wait_for("\n>\n", without=["> help me"])
    second.type("draft\x12")
    second.wait_for("search:", "help me", "read README.md")
    second.type("readme")
    second.wait_for("▸ read README.md", without=["help me"])
    second.type(ENTER)
    second.wait_for("> read README.md", without=["search"])
    second.type(CLEAR_LINE + "draft\x12")
    second.wait_for("search:")
    second.type(ESCAPE)
    second.wait_for("> draft", without=["search"])


PIXEL = b"\x00\x00\x00\x00\x00"


def png():
    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = (1).to_bytes(4, "big") * 2 + b"\x08\x06\x00\x00\x00"
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(PIXEL)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def test_files_that_are_named_are_sent_with_the_input(terminal, project, tmp_path, run):
    (project / "src").mkdir()
    (project / "src" / "parser.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    (project / "a b.txt").write_text("blank\n")
    (project / ".env").write_text("SECRET=1\n")
    (tmp_path / "a picture.png").write_bytes(png())
    program = terminal("--deny", "Read(.env)", size=(44, 100))
    program.wait_for("offline:rules", READY)
    program.type("look at @sppy")
    program.wait_for("  src/parser.py")
    program.type(TAB)
    program.wait_for("> look at @src/parser.py", without=["  src/parser.py"])
    program.type(BACKSPACE + "#L2-4 and @src, @.env @nobody ")
    paste(program, f"'{tmp_path}/a picture.png'")
    program.wait_for('/a picture.png"\n')
    program.type('@"a b')
    program.wait_for("  a b.txt")
    program.type(TAB + ENTER)
    program.wait_for("not sent: .env: a rule denies reading it", "handful of rules", "idle")
    program.type(CTRL_D)
    assert program.wait() == 0
    [said] = sent(run)
    whole = texts(said)
    assert '<file path="src/parser.py#L2-4">\ntwo\nthree\nfour\n</file>' in whole
    assert '<folder path="src">\nparser.py\n</folder>' in whole
    assert '<file path="a b.txt">\nblank\n</file>' in whole
    assert "SECRET" not in whole
    [picture] = [each for each in said if each["type"] == "image"]
    assert base64.b64decode(picture["data"]) == png()


def test_a_command_of_the_person_runs_unasked_and_goes_to_the_model(terminal, project, run):
    program = terminal("--deny", "Bash(rm:*)", "--permission-mode", "plan", size=(44, 100))
    program.wait_for("offline:rules", READY)
    ask(program, "!echo made > file; cat file; echo $((40 + 2))")
    program.wait_for("> !echo made", "made\n42", without=["allow? >"])
    ask(program, "!rm file")
    program.wait_for("not run: the rule", "denies it")
    assert (project / "file").exists()
    ask(program, "!sleep 60")
    program.wait_for(" sleep 60 · 1 s · Esc ends it")
    program.type(ESCAPE)
    program.wait_for("ended: sleep 60", without=["running sleep"])
    ask(program, "help")
    program.wait_for("a handful of rules", "idle")
    program.type(CTRL_D)
    assert program.wait() == 0
    whole = texts(sent(run)[0])
    assert whole.startswith("help\n")
    assert "I ran this command myself:\n$ echo made > file; cat file" in whole
    assert "made\n42" in whole


def test_the_draft_is_edited_in_an_editor(terminal, tmp_path):
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys\nfile = sys.argv[1]\ntext = open(file).read()\n"
        "open(file, 'w').write(text.upper() + '\\nmore\\n')\n"
    )
    program = terminal(VISUAL=f"{sys.executable} {editor}")
    program.wait_for("offline:rules", READY)
    program.type("read it\x07")
    program.wait_for("> READ IT\nmore")


def test_the_keys_of_vi(terminal, tmp_path, env):
    folder = tmp_path / "config" / "greenroom"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"key_bindings": "vi"}')
    program = terminal(XDG_CONFIG_HOME=str(folder.parent))
    program.wait_for("offline:rules", READY)
    program.type("read the file" + ESCAPE)
    program.wait_for(": read the file")
    program.type("0dwA now")
    program.wait_for("> the file now")
    program.type(ESCAPE)
    program.wait_for(": the file now")
    program.type("ccrun touch made" + ENTER)
    program.wait_for("allow? >")
    program.type(ESCAPE)
    program.wait_for("interrupted", "idle")


def test_escape_twice_on_an_empty_line_offers_a_rewind(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    program.type(ESCAPE)
    program.wait_for("idle")
    program.type("x" + ESCAPE)
    program.wait_for("> x")
    program.type(BACKSPACE + ESCAPE + ESCAPE)
    program.wait_for("> /rewind", "read README.md")


def test_a_stop_and_a_start_of_the_job_keep_the_turn_going(project, env):
    program = TerminalProgram(
        ["/bin/bash", "--norc", "-i"], project, {**env, "TERM": "xterm-256color", "PS1": "shell$ "}
    )
    try:
        program.wait_for("shell$")
        program.type(f"{sys.executable} -m greenroom --allow 'Bash(sleep:*)'\r")
        program.wait_for("offline:rules", READY)
        ask(program, "run sleep 3")
        program.wait_for("● Bash  sleep 3", "Esc interrupts")
        program.type("half\x1a")
        program.wait_for("Stopped")
        program.type("echo in the shell\r")
        program.wait_for("\nin the shell")
        program.type("fg\r")
        program.wait_for("> half", "(no output)", "idle")
        program.type(CLEAR_LINE + CTRL_D)
        program.wait_for("--resume")
        program.type("exit\r")
        program.wait()
    finally:
        program.close()


def test_keys_that_come_faster_than_frames_are_all_carried_out(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type(SHIFT_TAB * 1_301)  # of four modes, so the second one is left
    program.wait_for("mode accept-edits ·", "idle", without=["come too fast"])
    program.type(CTRL_D)
    assert program.wait() == 0
    assert program.output.decode().count("the mode bypass asks about nothing") >= 325


def test_ctrl_c_clears_the_line_once_however_fast_it_is_pressed_again(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type("draft" + CTRL_C * 3)
    assert program.wait() == 0
    assert "draft" not in program.screen


def test_a_key_that_finds_no_room_is_refused_in_words():
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        application = PromptApplication(lambda event: False, has_colors=False)
        application._report(Key(KeyName.ESCAPE))
        assert "not taken" in application._refusal


def test_the_line_is_drawn_anew_only_for_other_styles():
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        application = PromptApplication(lambda event: False, has_colors=True)
        before = application._app.style
        application.restyle(LINE_STYLES["dark"])
        assert application._app.style is before
        application.restyle(LINE_STYLES["light"])
        assert application._app.style is not before
