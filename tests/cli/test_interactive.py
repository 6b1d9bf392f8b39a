"""`greenroom` in a real pseudo-terminal, as a person sees and drives it."""

import json
import os
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from tests.terminal_program import SECONDS

ENTER, ESCAPE, CTRL_C, CTRL_D, CTRL_O = "\r", "\x1b", "\x03", "\x04", "\x0f"
READY = "/help"


def ask(program, text):
    program.type(text + ENTER)


def test_a_question_is_answered_with_a_stream_and_a_tool(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    ask(program, "read README.md")
    screen = program.wait_for("README.md, 1 line:", "idle")
    assert "> read README.md" in screen
    assert "● Read  README.md" in screen
    assert "A project of ours." in screen
    ask(program, "/quit")
    assert program.wait() == 0


def test_the_way_back_names_where_the_session_is_kept(terminal, tmp_path):
    place = tmp_path / "my sessions"
    program = terminal("--sessions", str(place))
    program.wait_for("offline:rules", READY)
    ask(program, "help")
    program.wait_for("a handful of rules", "idle")
    ask(program, "/quit")
    assert program.wait() == 0
    [session] = place.iterdir()
    line = f"greenroom --resume {session.name} --sessions '{place}'   continues this session"
    assert line in program.screen.replace("\n", "")


def test_a_permission_prompt_shows_the_exact_command_and_a_yes_runs_it(terminal, project):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made && echo done")
    screen = program.wait_for("allow? >")
    assert "coder asks: Run a command (Bash)" in screen
    assert "touch made && echo done" in screen
    assert not (project / "made").exists()
    ask(program, "y")
    program.wait_for("Bash allowed by user", "idle")
    assert (project / "made").exists()


def test_what_answers_nothing_and_what_denies(terminal, project):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch one")
    program.wait_for("? touch one", "allow? >")
    program.type(ENTER + " " + ENTER + ENTER)  # nothing, or a blank alone
    ask(program, "n")
    program.wait_for("touch one · Bash denied by user", "idle")
    ask(program, "run touch two")
    program.wait_for("? touch two", "allow? >", "Ctrl-O: more", without=["read as"])
    program.type(CTRL_O)
    program.wait_for("read as:", "'touch' 'two'", "? coder asks", "Ctrl-O: less")
    program.type(CTRL_O)
    program.wait_for("? touch two", without=["read as"])
    program.type(CTRL_D)
    program.wait_for("touch two · Bash denied by user", "idle")
    ask(program, "run touch three")
    program.wait_for("? touch three", "allow? >")
    ask(program, "w")
    program.wait_for("why not? >")
    ask(program, "make it a folder")
    program.wait_for("touch three · Bash denied by user: make it a folder", "idle")
    assert [path.name for path in project.iterdir()] == ["README.md"]


def test_a_line_begun_before_the_prompt_neither_answers_nor_is_lost(terminal, project):
    program = terminal()
    program.wait_for(READY)
    # The letter stands in the line before the prompt comes; Enter is pressed after it.
    program.type("run touch made" + ENTER + "y")
    program.wait_for("coder asks", "for afterwards: y")
    program.type(ENTER)
    program.wait_for("allow? >", without=["queued"])
    ask(program, "no")
    program.wait_for("Bash denied by user", "idle", "\n> y\n", without=["kept"])
    assert not (project / "made").exists()


def test_words_typed_at_the_prompt_that_are_no_choice_are_refused_and_never_sent(terminal):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made")
    program.wait_for("allow? >")
    ask(program, "yes, but list *.md first")
    program.wait_for("not a choice, and was not sent: [y] once", "allow? >", without=["queued"])
    program.type("half a line")
    program.wait_for("allow? > half a line")
    program.type(ESCAPE)
    program.wait_for("withdrawn", "idle", without=["asks:", "half a line", "allow? >", "> yes"])


def test_a_remembered_answer_is_not_asked_again_in_the_session(terminal):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made")
    program.wait_for("allow? >", "s, p, a keep: touch made")
    ask(program, "s")
    program.wait_for("remembered for this session: Bash(touch made)", "idle")
    ask(program, "run touch made")
    screen = program.wait_for("idle", "> run touch made\nI will run touch made.\n\n● Bash")
    assert screen.count("✓ coder: touch made") == 1


def test_tab_lets_an_answer_be_remembered_for_the_first_words(terminal):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run git commit -m one --dry-run")
    program.wait_for("allow? >", "--dry-run · Tab: git commit:*")
    program.type("\t")
    program.wait_for("keep: git commit:* · Tab", "coder asks")
    program.type("\t\ts" + ENTER)
    program.wait_for("remembered for this session", "idle")
    ask(program, "run git commit -m two --dry-run")
    screen = program.wait_for("● Bash  git commit -m two", "idle")
    assert screen.count("✓ coder: git commit") == 1


def test_an_answer_for_the_project_holds_in_its_next_run(terminal, run, project):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made")
    program.wait_for("allow? >")
    ask(program, "p")
    program.wait_for("remembered for this project", "idle")
    (project / "made").unlink()
    done = run("-p", "run touch made", "--model", "offline:", "--output-format", "json")
    assert done.json["denials"] == []
    assert done.err == ""
    assert (project / "made").exists()


def test_a_mode_that_asks_nothing_stands_on_the_screen_all_the_time(terminal, project):
    program = terminal("--permission-mode", "bypass")
    program.wait_for("the mode bypass asks about nothing", "BYPASS: nothing is asked", READY)
    ask(program, "run touch made")
    program.wait_for("● Bash", "idle · offline:rules · BYPASS: nothing is asked")
    assert (project / "made").exists()


def test_a_rule_file_that_can_not_be_used_is_told_of_and_everything_is_asked(terminal, project):
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "permissions.json").write_text("{")
    program = terminal("--permission-mode", "bypass")
    program.wait_for("not usable as JSON", "every call is asked", READY, without=["BYPASS"])
    ask(program, "read README.md")
    program.wait_for("allow? >")


def test_a_prompt_says_where_an_answer_for_the_project_would_not_count(terminal, project):
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "permissions.json").write_text('{"version": 1}')
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made")
    program.wait_for("allow? >", "[p] project (this run)")
    program.type(CTRL_O)
    program.wait_for("this project: counts in this run only")


def test_a_session_that_is_open_elsewhere_is_told_of_once(terminal):
    first = terminal()
    first.wait_for(READY)
    ask(first, "read README.md")
    first.wait_for("README.md, 1 line:", "idle")
    second = terminal("--continue")
    assert second.wait() == 2
    assert second.screen.count("is being written by process") == 1
    assert "the agent has ended\n" in second.screen
    assert "crashed" not in second.screen


def test_a_subagents_prompt_says_who_asks_and_is_answered_here(terminal, project):
    program = terminal()
    program.wait_for(READY)
    ask(program, "ask a subagent to run touch made")
    program.wait_for("coder > run touch made asks", "allow? >", "waiting for permission: Bash")
    ask(program, "y")
    screen = program.wait_for("The subagent answered:", "idle")
    assert re.search(r"◆ run touch made  \d+ s · 1 call", screen)
    assert (project / "made").exists()


def running_sleep(terminal):
    program = terminal("--permission-mode", "bypass")
    program.wait_for(READY)
    ask(program, "run sleep 600 & setsid sleep 600 & sleep 600")
    program.wait_for("● Bash", "working", " Bash")
    return program


def test_escape_interrupts_a_running_command_and_the_next_input_is_answered(terminal):
    program = running_sleep(terminal)
    program.type(ESCAPE)
    program.wait_for("interrupted", "idle")
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")


def test_ctrl_c_interrupts_clears_the_line_and_pressed_twice_leaves(terminal):
    program = running_sleep(terminal)
    program.type("typed" + CTRL_C)
    program.wait_for("interrupted", "idle", "> typed")
    program.type(CTRL_C)
    program.wait_for("idle", without=["> typed"])
    program.type(CTRL_C + CTRL_C)
    assert program.wait() == 0
    assert "--resume s-" in program.screen


def test_what_is_typed_while_the_agent_works_is_queued_and_a_key_takes_it_back(terminal):
    program = running_sleep(terminal)
    ask(program, "read README.md")
    program.wait_for("queued: read README.md", "Up takes it back")
    program.type("\x1b[A")
    program.wait_for("\n> read README.md\n", without=["queued"])
    ask(program, " and list *")
    ask(program, "help")
    program.wait_for("queued: read README.md and list *", "queued: help")
    program.type("rest" + ESCAPE)
    screen = program.wait_for("interrupted", "idle", "read README.md and list *\nhelp\nrest")
    assert "queued" not in screen
    assert "1 line:" not in screen


def test_ctrl_d_on_an_empty_idle_line_leaves_and_gives_the_terminal_back(terminal):
    program = terminal()
    program.wait_for(READY)
    assert program.mode != program.before
    program.type(CTRL_D)
    assert program.wait() == 0
    assert program.mode == program.before
    assert program.mode[3] & termios.ECHO


def test_a_command_that_does_not_exist_gets_a_clear_line_and_help_helps(terminal):
    program = terminal()
    program.wait_for(READY)
    ask(program, "/frobnicate")
    program.wait_for("> /frobnicate\nthere is no command /frobnicate")
    ask(program, "/help")
    program.wait_for("Alt-Enter")
    ask(program, "/exit")
    assert program.wait() == 0


def test_sigterm_saves_the_session_and_it_goes_on_the_next_day(terminal, run):
    program = running_sleep(terminal)
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM
    assert program.mode == program.before
    [session] = run("sessions", "list", "--json").json
    again = terminal("--resume", session["session_id"])
    screen = again.wait_for(READY, session["session_id"], "so far:", "✗ Bash", "interrupted")
    assert "> run sleep 600 & setsid sleep 600 & sleep 600" in screen
    ask(again, "read README.md")
    again.wait_for("README.md, 1 line:", "idle")


def test_sigusr1_writes_what_the_agents_do_to_a_file_and_leaves_the_screen_alone(terminal, env):
    state = Path(env["HOME"], ".local", "state", "greenroom")
    state.mkdir(parents=True)
    os.mkfifo(state / "dump.txt")  # its reader waits for the writer
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.process.send_signal(signal.SIGUSR1)
    assert (state / "dump.txt").read_text().startswith("1 agent\ncoder s-")
    ask(program, "read README.md")
    program.wait_for("A project of ours.", "idle", without=["1 agent"])


def test_the_newest_session_of_the_folder_is_continued(terminal, run):
    first = terminal("read README.md")
    first.wait_for("A project of ours.", READY)
    first.type(CTRL_D)
    assert first.wait() == 0
    run("-p", "list *")  # a script's, which is not offered here
    program = terminal("--continue")
    program.wait_for("so far:", "> read README.md", READY)


def test_a_program_that_is_only_opened_stores_no_session(terminal, run):
    run("-p", "read README.md")
    program = terminal()
    program.wait_for(READY)
    program.type(CTRL_D)
    assert program.wait() == 0
    assert len(run("sessions", "list", "--json").json) == 1


def test_a_session_is_described_with_its_first_input(terminal, run, project):
    program = terminal()
    program.wait_for(READY)
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    ask(program, "list *")
    program.wait_for("Files that match *, 1 line:", "idle")
    program.type(CTRL_D)
    assert program.wait() == 0
    [session] = run("sessions", "list", "--json").json
    assert session["metadata"] == {"workspace": str(project), "title": "read README.md"}


def test_what_a_file_holds_can_not_take_over_the_terminal(terminal, project):
    (project / "evil.txt").write_text("\x1b[2J\x1b]0;owned\x07\u202egnp.exe\n")
    program = terminal()
    program.wait_for(READY)
    ask(program, "read evil.txt")
    screen = program.wait_for("evil.txt, 1 line:", "idle")
    assert "␛[2J" in screen
    assert "owned␇" in screen
    assert b"owned\x07" not in program.output


def test_no_color_means_no_color(terminal):
    program = terminal(NO_COLOR="1")
    program.wait_for(READY)
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    styles = set(re.findall(rb"\x1b\[([0-9;]*)m", program.output))
    assert {code for style in styles for code in style.split(b";")} <= {b"", b"0", b"7"}


def test_a_dumb_terminal_gets_plain_text_and_takes_lines(terminal, project):
    program = terminal(term="dumb")
    program.wait_for("offline:rules")
    ask(program, "run touch made")
    program.wait_for("allow? >")
    ask(program, "y")
    program.wait_for("Bash allowed by user", "● Bash")
    assert (project / "made").exists()
    ask(program, "/quit")
    assert program.wait() == 0
    assert b"\x1b" not in program.output


def test_a_dumb_terminal_shows_what_is_typed_once_and_a_program_that_writes_lines_sees_them(
    terminal, start
):
    program = terminal(term="dumb")
    program.wait_for("offline:rules")
    ask(program, "read README.md")
    program.wait_for("A project of ours.")
    ask(program, "/exti")
    screen = program.wait_for("did you mean /exit?")
    assert screen.count("read README.md\n") == 1
    assert screen.count("/exti\n") == 1
    piped = start(stdin=subprocess.PIPE)
    out, _ = piped.communicate(b"read README.md\n", timeout=SECONDS)
    assert out.count(b"\n> read README.md\n") == 1


def test_what_a_command_printed_before_a_hang_up_is_retold(terminal):
    program = terminal("--permission-mode", "bypass")
    program.wait_for(READY)
    ask(program, "run seq 5; sleep 600")
    program.wait_for("● Bash", "\n  5\n")
    program.hang_up()
    again = terminal("--continue")
    again.wait_for("Its output until then:\n  … 2 lines\n  3\n  4\n  5\n", READY)


def test_a_question_that_was_interrupted_is_in_the_log_as_withdrawn(terminal, run):
    program = terminal()
    program.wait_for(READY)
    ask(program, "run touch made")
    program.wait_for("allow? >")
    program.type(ESCAPE)
    program.wait_for("withdrawn", "idle")
    ask(program, "/quit")
    program.wait()
    [session] = run("sessions", "list", "--json").json
    found = run("permissions", "log", session["session_id"]).out
    assert "denied  Bash  since the question was withdrawn" in found


def test_texts_of_a_project_are_named_once_until_they_change(terminal, project):
    said = "the model is told that these are not your words"
    for text, count in [("one", 1), ("one", 0), ("two", 1)]:
        (project / "AGENTS.md").write_text(text)
        program = terminal(size=(24, 200))
        screen = program.wait_for("offline:rules ·", READY)
        assert screen.count(said) == count
        ask(program, "/quit")
        program.wait()


@pytest.mark.parametrize("home", ["", "home", "./home"])
def test_a_home_that_is_no_absolute_path_is_refused_and_makes_no_folder(run, project, home):
    before = sorted(project.iterdir())
    done = run("-p", "read README.md", HOME=home)
    assert done.code == 2
    assert f"HOME is {home!r}, which is not an absolute path" in done.err
    assert sorted(project.iterdir()) == before


def test_a_dumb_terminal_says_too_that_another_ctrl_c_leaves(terminal):
    program = terminal(term="dumb")
    program.wait_for("offline:rules")
    program.type(CTRL_C)
    program.wait_for("Ctrl-C again leaves")
    program.type(CTRL_C)
    assert program.wait() == 0


@pytest.mark.parametrize(
    ("said", "shown"),
    [("read README.md", "A project of ours."), ("/nope", "there is no command /nope")],
)
def test_what_it_begins_with_is_as_if_it_had_been_typed(start, terminal, said, shown):
    process = start(said, "--model", "offline:")
    out, _ = process.communicate(timeout=SECONDS)
    assert f"> {said}" in out.decode()
    assert shown in out.decode()
    terminal(said, "--model", "offline:").wait_for(f"> {said}", shown, "idle")


def test_lines_from_a_pipe_are_worked_on_in_order_and_then_it_ends(start):
    process = start("--model", "offline:", stdin=subprocess.PIPE)
    out, err = process.communicate(b"read README.md\nrun touch made\nlist *\n", timeout=SECONDS)
    text = out.decode()
    assert process.returncode == 0
    assert text.index("> read README.md") < text.index("> run touch made") < text.index("> list *")
    assert "Bash denied by terminal" in text
    assert "made" not in text[text.index("> list *") :]
    assert "\x1b" not in text
    assert err == b""


def test_a_reader_of_a_plain_run_that_goes_away_ends_it(start, unread):
    process = start("--model", "offline:", stdin=subprocess.PIPE, stdout=unread)
    assert process.wait(SECONDS) == 0
    assert process.stderr.read() == b""


def test_a_terminal_that_goes_away_ends_it_and_keeps_the_session(terminal, run):
    program = running_sleep(terminal)
    assert program.hang_up() == 128 + signal.SIGHUP
    [session] = run("sessions", "list", "--json").json
    shown = run("sessions", "show", session["session_id"], "--json").json
    assert "interrupted" in json.dumps(shown["messages"][-1])


def test_ctrl_o_shows_all_that_is_folded_and_goes_back(terminal):
    program = terminal("--permission-mode", "bypass")
    program.wait_for(READY)
    ask(program, "run seq 1000 1099")
    program.wait_for("1003\n", "88 more rows: Ctrl-O", "1099\n", "idle", without=["1050"])
    program.type("\x0f")
    program.wait_for("1080", "1099", "Esc, Ctrl-O: back", without=["more rows"])
    program.type("\x1b[5~")
    program.wait_for("1040", "1050", without=["1099"])
    program.type("typed" + ESCAPE)
    program.wait_for("idle", without=["Ctrl-O: back"])
    for key in (CTRL_O, CTRL_C, "q"):
        program.type(CTRL_O)
        program.wait_for("Ctrl-O: back")
        program.type(key)
        program.wait_for("idle", without=["Ctrl-O: back"])
    assert b"\x1b[?1049l" in program.output
    ask(program, "help")
    program.wait_for("a handful of rules", "idle", without=["typed"])
