"""Commands of the input line that change the session, or the run, in a real pseudo-terminal."""

from pathlib import Path

import pytest

from tests.cli.test_interactive import ENTER, READY, ask

DOWN = "\x1b[B"


@pytest.fixture
def program(terminal, tmp_path):
    """The command, with sessions of its own."""
    program = terminal("--sessions", str(tmp_path / "sessions"), size=(44, 100))
    program.wait_for("offline:rules", READY)
    return program


def leave(program):
    ask(program, "/quit")
    assert program.wait() == 0


def test_clear_begins_a_new_session_and_resume_goes_back_to_the_old_one(program, tmp_path):
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    ask(program, "/clear")
    program.wait_until(lambda screen: screen.count("greenroom 0") == 2)
    ask(program, "/sessions")
    program.wait_for("read README.md", "now")
    ask(program, "/resume readme")
    program.wait_for("so far:", "● Read  README.md")
    ask(program, "read absent.md")
    program.wait_for("there is no file absent.md", "idle")
    leave(program)
    [session] = (tmp_path / "sessions").iterdir()
    assert f"--resume {session.name}" in program.screen.replace("\n", "")


def test_resume_offers_the_sessions_of_this_folder_with_what_was_said(program):
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    ask(program, "/clear")
    program.wait_until(lambda screen: screen.count("greenroom 0") == 2)
    ask(program, "list *.md")
    program.wait_for("● Glob", "idle")
    ask(program, "/resume")
    program.wait_for("> /resume", "messages", "read README.md")
    program.type(DOWN)
    program.wait_for("▸ read README.md", "    ● Read README.md")
    program.type(ENTER)
    program.wait_for("so far:")
    leave(program)


def test_a_session_that_is_unknown_is_said_and_nothing_changes(program):
    ask(program, "/resume nothing-like-this")
    program.wait_for("no session has the id or the words 'nothing-like-this'", "idle")
    leave(program)


def test_fork_goes_on_in_a_second_session(program, tmp_path):
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    ask(program, "/fork")
    program.wait_for("so far:")
    ask(program, "list *.md")
    program.wait_for("● Glob", "idle")
    leave(program)
    assert len(list((tmp_path / "sessions").iterdir())) == 2


def make_file(program, name):
    ask(program, f"run echo {name} > {name}")
    program.wait_for("allow? >")
    ask(program, "y")
    program.wait_for("idle", without=["allow? >"])


def test_undo_takes_the_last_turn_back_with_its_files_and_again_the_one_before(program, project):
    make_file(program, "one")
    make_file(program, "two")
    ask(program, "/undo")
    program.wait_for("1 file restored", "> run echo two > two")
    assert not (project / "two").exists()
    assert (project / "one").exists()
    program.type("\x15")  # the words of the turn are in the line again
    ask(program, "/undo")
    program.wait_until(lambda screen: screen.count("1 file restored") == 2)
    assert not (project / "one").exists()
    program.type("\x15")
    ask(program, "/undo")
    program.wait_for("there is no turn to take back")
    leave(program)


@pytest.mark.parametrize(("scope", "is_there"), [("conversation", True), ("files", False)])
def test_rewind_lists_the_turns_and_takes_back_what_is_chosen(program, project, scope, is_there):
    make_file(program, "one")
    ask(program, "/rewind")
    program.wait_for("> /rewind", "run echo one > one")
    program.type(DOWN + ENTER)
    program.wait_for("> /rewind 1", "conversation", "files", "both")
    program.type(scope)
    program.type(ENTER)
    program.wait_for("taken back" if is_there else "1 file restored")
    assert (project / "one").exists() == is_there
    program.type("\x15")
    leave(program)


def test_the_model_and_the_effort_change_from_the_next_request_on(program):
    ask(program, "/model offline:")
    program.wait_for("from the next request on: offline:rules")
    ask(program, "/model anthropic:claude-sonet-5-5")
    program.wait_for("did you mean", "idle")
    ask(program, "/effort huge")
    program.wait_for("'huge' is not an effort")
    ask(program, "/effort high")
    program.wait_for("effort high, from the next request on")
    leave(program)


def test_the_mode_is_switched_by_its_name_and_by_shift_tab(program, project):
    ask(program, "/mode plan")
    program.wait_for("mode plan")
    ask(program, "run touch made")
    program.wait_for("Bash", "idle", without=["allow? >"])
    ask(program, "/mode plum")
    program.wait_for("there is no mode 'plum'")
    program.type("\x1b[Z")
    program.wait_for("BYPASS")
    program.type("\x1b[Z")
    program.wait_for(READY, without=["BYPASS"])
    leave(program)
    assert not (project / "made").exists()


def test_a_rule_is_added_and_removed_inside_the_session(program, project):
    ask(program, "/permissions allow Bash(touch:*)")
    program.wait_for("added in this session: allow Bash(touch:*)")
    ask(program, "run touch made")
    program.wait_for("● Bash  touch made", "idle", without=["allow? >"])
    assert (project / "made").exists()
    ask(program, "/permissions")
    program.wait_for("Bash(touch:*)", "/permissions", "read-workspace")
    ask(program, "/permissions remove allow Bash(touch:*)")
    program.wait_for("removed: allow Bash(touch:*)")
    ask(program, "run touch again")
    program.wait_for("allow? >")
    ask(program, "n")
    program.wait_for("denied", "idle")
    leave(program)


@pytest.mark.parametrize("scope", ["project", "always"])
def test_a_rule_is_kept_for_longer_and_removed_from_its_file(program, project, env, run, scope):
    user = Path(env["HOME"], ".config", "greenroom", "permissions.json")
    path = user if scope == "always" else project / ".greenroom" / "permissions.json"
    ask(program, f"/permissions allow {scope} Bash(touch:*)")
    program.wait_for("added in ", "allow Bash(touch:*)\n")
    ask(program, "run touch made")
    program.wait_for("● Bash  touch made", "idle", without=["allow? >"])
    assert "touch" in path.read_text()
    (project / "made").unlink()
    assert run("-p", "run touch made", "--model", "offline:").err == ""
    assert (project / "made").exists()
    ask(program, "/permissions remove allow Bash(touch:*)")
    program.wait_for("removed: allow Bash(touch:*)")
    assert "touch" not in path.read_text()
    ask(program, "run touch again")
    program.wait_for("allow? >")
    ask(program, "n")
    program.wait_for("denied", "idle")
    ask(program, "/permissions remove read-workspace")
    program.wait_for("can't be removed, since it comes from: built in")
    ask(program, "/permissions remove nothing")
    program.wait_for("there is no rule 'nothing'")
    ask(program, "/permissions deny Bsh(ls)")
    program.wait_for("Bsh", "Bash", "idle")


def test_what_a_session_is_made_of_is_shown(program, project):
    (project / "AGENTS.md").write_text("Be brief.\n")
    ask(program, "read README.md")
    program.wait_for("README.md, 1 line:", "idle")
    ask(program, "/context")
    program.wait_for("system prompt", "tools", "instructions", "memory", "messages")
    ask(program, "/cost")
    program.wait_for("this session", "with its subagents")
    ask(program, "/memory")
    program.wait_for("nothing is remembered over sessions")
    ask(program, "/skills")
    program.wait_for("there are no skills here")
    ask(program, "/agents")
    program.wait_for("no subagents are running")
    ask(program, "/export talk.md")
    program.wait_for("written: talk.md")
    ask(program, "/export talk.md")
    program.wait_for("talk.md exists")
    assert "A project of ours." in (project / "talk.md").read_text()
    leave(program)


def test_doctor_reports_inside_the_terminal(program):
    ask(program, "/doctor")
    program.wait_for("your settings", "terminal")
    leave(program)


def test_sessions_of_headless_runs_are_offered_after_tab(terminal, run):
    run("-p", "list *.md")
    first = terminal()
    first.wait_for("offline:rules", READY)
    ask(first, "read README.md")
    first.wait_for("README.md, 1 line:", "idle")
    ask(first, "/clear")
    first.wait_until(lambda screen: screen.count("greenroom 0") == 2)
    ask(first, "/resume")
    first.wait_for("  read README.md  now", without=["list *.md"])
    first.type("\t")
    first.wait_for("  read README.md", "  list *.md")


def test_what_a_session_has_cost_and_the_skills_are_shown_on_the_command_line_too(run, project):
    folder = project / ".greenroom" / "skills" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets\n---\nSay hello.\n")
    assert "greet: Greets" in run("skills").out
    assert "not trusted" in run("skills").out
    [skill] = run("skills", "--json").json
    assert (skill["name"], skill["is_trusted"]) == ("greet", False)
    run("-p", "read README.md")
    [session] = run("sessions", "list", "--json").json
    assert set(run("cost", session["session_id"], "--json").json) == {"rows", "total", "currency"}
    assert "together" in run("cost", session["session_id"]).out
