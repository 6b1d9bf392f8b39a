"""`greenroom completion`: what a press of Tab offers, and the scripts in the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from greenroom import AgentSession, FileStore
from greenroom.cli import completion as command
from greenroom.cli.arguments import SHELLS
from greenroom.cli.completion import split_line
from greenroom.llm._internal import MODELS, VENDORS
from tests.absent_programs import explain_absence
from tests.terminal_program import TerminalProgram


@pytest.fixture
def folder(tmp_path):
    """A folder with three sessions and one of a subagent."""
    store = FileStore(tmp_path / "kept")

    async def save():
        for name in ("s-new", "s-older", "t-other"):
            session = AgentSession.new("coder", session_id=name, store=store)
            session.set_metadata("title", f"title:\tof\n{name}")
            session.set_model("openai", "old-model")
            await session.save()
        child = AgentSession.new_subagent("coder", "s-new", session_id="s-child", store=store)
        child.set_metadata("title", "a child")
        await child.save()

    trio.run(save)
    return str(tmp_path / "kept")


@pytest.fixture
def complete(run):
    """Press Tab at the end of a line; return the kind of answer, and the words."""

    def complete(line, shell="bash", word=None):
        part = () if word is None else (f"--word={word}",)
        done = run("complete", shell, line, *part)
        assert (done.code, done.err) == (0, "")
        kind, *words = done.out.splitlines()
        return kind, words

    return complete


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("greenroom ", ["sessions", "doctor", "completion"]),
        ("greenroom --model x do", ["doctor"]),
        ("greenroom -p doctor ", ["sessions", "doctor", "completion"]),
        ("greenroom --perm", ["--permission-mode"]),
        ("greenroom --permission-mode ac", ["accept-edits"]),
        ("greenroom --permission-mode=", ["--permission-mode=accept-edits"]),
        ("greenroom -p", ["-p"]),
        ("greenroom -p ", []),
        ("greenroom --continue=x do", ["doctor"]),
        ("greenroom --nonsense x", []),
        ("greenroom doctor --", ["--help", "--json", "--sessions"]),
        ("greenroom doctor ", []),
        ("greenroom permissions ", ["explain", "list", "test", "log"]),
        ("greenroom permissions explain --", ["--allow", "--input", "--permission-mode", "--tool"]),
        ("greenroom permissions explain --permission-mode pl", ["plan"]),
        ("greenroom nonsense ", []),
        ("greenroom completion ", ["bash", "zsh", "fish"]),
        ("greenroom completion zsh ", []),
        ("greenroom 'sess", ["sessions"]),
        ("greenroom --log a\\", []),
        ("", ["sessions", "doctor", "completion"]),
    ],
)
def test_commands_and_options_are_offered_where_they_may_stand(complete, line, words):
    _, found = complete(line)
    assert [each for each in words if each not in found] == []
    if not words:
        assert found == []


def test_a_short_option_is_offered_only_once_it_stands_there(complete):
    assert "-p" not in complete("greenroom -")[1]
    assert "--prompt" in complete("greenroom -")[1]


@pytest.mark.parametrize(
    "line", ["--log ", "--sessions=", "sessions list --sessions x", "permissions test "]
)
def test_where_a_file_may_stand_the_shell_offers_files(complete, line):
    assert complete(f"greenroom {line}") == ("files", [])


@pytest.mark.parametrize(
    "line",
    [
        "greenroom --sessions {} --resume ",
        "greenroom --resume --sessions={} --resume ",
        "greenroom sessions show --sessions {} ",
        "greenroom permissions log --sessions {} ",
    ],
)
def test_ids_of_sessions_are_offered_but_for_subagents(complete, folder, line):
    line = line.format(folder)
    assert sorted(complete(f"{line}s-")[1]) == ["s-new", "s-older"]
    assert "t-other" in complete(line)[1]


def test_ids_of_archived_sessions_are_offered_where_they_are_brought_back(run, complete, folder):
    assert run("sessions", "archive", "s-older", "--sessions", folder).code == 0
    line = f"greenroom sessions archive --sessions {folder} "
    assert "s-older" not in complete(line)[1]
    assert complete(f"{line}--undo ")[1] == ["s-older"]


def test_other_shells_are_told_the_titles(complete, folder):
    line = f"greenroom --sessions {folder} --resume s-n"
    for shell in ("zsh", "fish"):
        assert complete(line, shell) == ("words", ["s-new\ttitle: of s-new, now"])


def test_an_option_may_follow_in_place_of_an_id(complete, folder):
    start = f"greenroom --sessions {folder} --resume"
    assert complete(f"{start} --cont") == ("words", ["--continue"])
    assert complete(f"{start} --model x do") == ("words", ["doctor"])


def test_models_are_the_providers_and_what_was_used(complete, folder):
    providers = sorted(f"{name}:" for name in VENDORS)
    assert complete("greenroom --model of") == ("open", ["offline:"])
    line = f"greenroom --sessions {folder} --model "
    assert complete(line)[1] == [*providers, "openai:old-model"]
    assert complete(f"{line}openai:old", word="old") == ("words", ["old-model"])
    assert complete(f"{line[:-1]}=openai:o", word="o") == ("words", ["old-model"])


def test_models_that_are_known_are_offered_behind_their_provider(complete):
    known = sorted(name for name in MODELS if name.startswith("groq:"))
    assert complete("greenroom --model groq:")[1] == ["groq:", *known]
    assert complete("greenroom models groq:o")[1] == known


def test_sessions_that_can_not_be_read_complete_nothing(complete, tmp_path):
    (tmp_path / "file").write_text("no database\n" * 100)
    for place in ("file", "nowhere"):
        line = f"greenroom --sessions {tmp_path / place} --resume "
        assert complete(line) == ("words", [])


def test_a_home_is_understood_in_the_place_of_the_sessions(complete, folder, env):
    shutil.move(folder, Path(env["HOME"], "kept"))
    assert complete("greenroom --sessions ~/kept --resume s-n")[1] == ["s-new"]


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("greenroom a", "a"),
        ("greenroom a ", ""),
        ('greenroom "a b', "a b"),
        ("greenroom a\\ b", "a b"),
        ("greenroom a\\", "a"),
        ("greenroom 'it''s' #x", "#x"),
        ("greenroom \x00a", "a"),
    ],
)
def test_the_last_word_is_the_one_being_typed(line, last):
    assert split_line(line)[-1] == last


def test_the_command_that_scripts_run_is_not_told_of(capsys):
    with pytest.raises(SystemExit):
        command.command_parser().parse_args(["--help"])
    assert "    complete\n" not in capsys.readouterr().out


def test_completing_a_command_loads_no_event_loop():
    program = (
        "import sys; from greenroom.cli import main; main(['complete', 'bash', 'greenroom ses']); "
        "print('trio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"words", b"sessions", b"False"]


@pytest.fixture
def shell(project, env):
    """Start a shell in a terminal, with the script loaded."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    programs = []

    def shell(*words, load):
        if absence := explain_absence(words[0]):
            pytest.skip(absence)
        variables = {**env, "PATH": path, "TERM": "xterm-256color", "PS1": "$ "}
        program = TerminalProgram([shutil.which(words[0]), *words[1:]], project, variables)
        programs.append(program)
        program.type(f"{load}; echo rea''dy\r")
        program.wait_for("ready")
        return program

    yield shell
    for program in programs:
        program.type("\x15exit\r")
        program.wait()
        program.close()


SHELL = {
    "bash": ("bash", "--norc", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
LOAD = {
    "bash": "source <(greenroom completion bash)",
    "zsh": "autoload -U compinit; compinit -u; source <(greenroom completion zsh)",
    "fish": "greenroom completion fish | source",
}


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_completes_commands_ids_models_and_files(shell, folder, project, name):
    (project / "a log.txt").touch()
    program = shell(*SHELL[name], load=LOAD[name])
    program.type("greenroom sess\t")
    program.wait_for("greenroom sessions")
    program.type(f"sho\t--sessions {folder} s-n\t")
    program.wait_for("s-new")
    program.type("\x15greenroom --model anth\t")
    program.wait_for("--model anthropic:")
    program.type("\x15greenroom --log a\t")
    program.wait_for(r"--log a\ log.txt")
    program.type(f"\x15greenroom --sessions {folder} --resume \t\t")
    program.wait_for("s-new", "s-older", "t-other")
    assert ("title: of s-older" in program.screen) == (name != "bash")
