"""What the command line means, and what starting it costs."""

import inspect
import subprocess
import sys

import pytest
from msgspec.structs import replace

from greenroom import __version__
from greenroom.cli import arguments
from greenroom.cli.arguments import read_arguments
from greenroom.cli.command_options import SessionsOptions
from greenroom.cli.dispatch import COMMANDS, find_command
from greenroom.cli.options import Options
from greenroom.cli.stored_sessions import sessions_folder


def read(words):
    """Read a command line; which of its options are given is left out."""
    return replace(read_arguments(words), given=frozenset())


HEAVY = ("rich", "prompt_toolkit", "httpx", "pydantic", "jsonschema", "trio")


def test_no_words_mean_an_interactive_run():
    assert read([]) == Options()


def test_every_option_of_a_run_is_read():
    words = (
        "-p hi --output-format json --model offline: --resume s-1 --allow Read --allow Grep "
        "--deny Bash --permission-mode plan --sessions /s --max-steps 7 --log /l "
        "--sandbox read-only --sandbox-network all --sandboxed allow --on-question wait"
    )
    assert read(words.split()) == Options(
        prompt="hi",
        output_format="json",
        model="offline:",
        resume="s-1",
        allow=("Read", "Grep"),
        deny=("Bash",),
        mode="plan",
        sessions="/s",
        max_steps=7,
        log="/l",
        sandbox="read-only",
        sandbox_network="all",
        sandboxed="allow",
        on_question="wait",
    )


def test_short_options_and_other_names_mean_the_same():
    short = read(["-p", "hi", "-c", "-m", "offline:", "--max-turns", "7"])
    assert short == read(
        ["--prompt", "hi", "--continue", "--model", "offline:", "--max-steps", "7"]
    )
    assert read(["-r", "s-1"]) == Options(resume="s-1")


def test_a_word_that_is_not_a_command_is_the_prompt_that_the_terminal_begins_with():
    assert read(["read a.py"]) == Options(opening="read a.py")
    after = read(["-m", "offline:", "mend the test", "--max-cost", "0.5"])
    assert after == Options(opening="mend the test", model="offline:", max_cost=0.5)


def test_inputs_may_be_read_as_lines():
    words = ["-p", "--input-format", "stream-json", "--output-format", "stream-json"]
    assert read(words) == Options(
        prompt="", input_format="stream-json", output_format="stream-json"
    )


def test_help_names_the_verbs_that_there_are():
    summaries = arguments._SUMMARIES
    verbs = {name.split()[1] for name in summaries if name.startswith("sessions ")}
    assert set(summaries["sessions"].split(", ")) == verbs


def test_a_session_to_be_chosen_is_an_empty_id():
    assert read(["--resume"]) == Options(resume="")
    assert read_arguments(["--resume", "--model", "offline:"]).resume == ""


@pytest.mark.parametrize("words", [["--sessions", "/s", "sessions", "list"]])
def test_the_folder_may_stand_before_the_command_or_after_it(words):
    after = read(["sessions", "list", "--sessions", "/s"])
    assert read(words) == after == SessionsOptions(command="sessions list", sessions="/s")


def test_commands_take_json():
    assert read(["sessions", "show", "s-1", "--json"]) == SessionsOptions(
        command="sessions show", ids=("s-1",), json=True
    )
    assert read(["doctor", "--json"]) == Options(command="doctor", json=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--nonsense"], "--nonsense"),
        (["--max-steps", "0"], "--max-steps"),
        (["--permission-mode", "yolo"], "yolo"),
        (["--sandbox", "full"], "full"),
        (["--sandbox", "read-only", "--sandboxed", "yes"], "yes"),
        (["--output-format", "json"], "-p PROMPT"),
        (["--on-question", "wait"], "-p PROMPT"),
        (["-p", "hi", "--on-question", "ask"], "ask"),
        (["--resume", "s-1", "--continue"], "exclude"),
        (["--resume", "--continue"], "exclude"),
        (["--resume", "-p", "hi"], "--resume needs an id"),
        (["sessions"], "VERB"),
        (["permissions"], "VERB"),
        (["permissions", "log"], "ID"),
        (["permissions", "explain"], "CMD"),
        (["sessions", "show"], "ID"),
        (["sesions"], "did you mean sessions?"),
        (["read", "a.py"], "a prompt of several words needs quotes"),
        (["read a.py", "-p", "x"], "two prompts"),
        (["  "], "the prompt is empty"),
        (["--input-format", "stream-json"], "-p PROMPT"),
        (["--max-cost", "0"], "0 is not above 0"),
        (["--max-cost", "nan"], "nan is not above 0"),
        (["--max-cost", "much"], "much is not a number"),
        (["sessions", "rewind", "s-1"], "--to"),
        (["sessions", "fork", "s-1", "--at", "-1"], "--at"),
        (["sessions", "show", "s-1", "--last", "0"], "0 is less than 1"),
        (["--max-steps", "0"], "0 is less than 1"),
        (["--max-steps", "many"], "many is not a whole number"),
    ],
)
def test_a_command_line_that_can_not_be_read_is_exit_code_2(words, says, capsys):
    with pytest.raises(SystemExit) as error:
        read_arguments(words)
    assert error.value.code == 2
    told = capsys.readouterr().err
    assert says in told
    assert "_positive" not in told


def test_each_command_has_a_function_that_runs_it():
    def commands(parser, words=()):
        groups = [each for each in parser._actions if isinstance(each.choices, dict)]
        for name, below in groups[0].choices.items() if groups else ():
            yield from commands(below, (*words, name))
        if not groups:
            yield " ".join(words)

    declared = set(commands(arguments.command_parser())) - {"completion", "complete"}
    assert declared | {"run", "run -p", "run --resume", "config"} == set(COMMANDS)
    for command in COMMANDS:
        name, *rest = command.split()
        options = Options(command=command if name != "run" else name)
        if rest and name == "run":
            options = Options(prompt="hi") if rest == ["-p"] else Options(resume="")
        assert inspect.iscoroutinefunction(find_command(options).func)


def test_only_the_command_that_a_line_may_run_has_a_parser_of_its_own():
    parser = arguments.command_parser(["--sessions", "/s", "sessions", "list"])
    choices = next(each.choices for each in parser._actions if isinstance(each.choices, dict))
    assert {name for name, each in choices.items() if each is not parser} == {
        "sessions",
        "complete",
    }
    assert set(choices) >= {name for name in COMMANDS if " " not in name} - {"run"}


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_load_next_to_nothing(word):
    code = (
        "import sys\nfrom greenroom.cli import main\n"
        f"try: main([{word!r}])\nexcept SystemExit as end: assert end.code == 0\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr.strip() == "[]"
    assert __version__ in done.stdout or "exit codes" in done.stdout


def test_help_lists_the_codes_of_the_signals(capsys):
    with pytest.raises(SystemExit):
        read_arguments(["--help"])
    told = capsys.readouterr().out
    assert all(code in told for code in ("129", "130", "141", "143"))


def test_the_module_runs_as_the_command_does():
    done = subprocess.run(
        [sys.executable, "-m", "greenroom", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == f"greenroom {__version__}\n"


def test_windows_is_told_at_once_that_it_is_not_supported(monkeypatch, capsys):
    from greenroom.cli import main

    monkeypatch.setattr("sys.platform", "win32")
    assert main(["-p", "x"]) == 2
    assert "WSL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "platform", "folder"),
    [
        ({"XDG_STATE_HOME": "/x"}, "linux", "/x/greenroom/sessions"),
        ({"XDG_STATE_HOME": "relative"}, "linux", "/home/me/.local/state/greenroom/sessions"),
        ({}, "linux", "/home/me/.local/state/greenroom/sessions"),
        ({}, "darwin", "/home/me/Library/Application Support/greenroom/sessions"),
    ],
)
def test_sessions_are_kept_where_the_system_keeps_such_things(env, platform, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert sessions_folder(env, platform).as_posix() == folder


def test_the_renderer_is_found_in_the_package_and_nothing_else_is():
    import greenroom.cli

    assert greenroom.cli.ConsoleRenderer.__name__ == "ConsoleRenderer"
    with pytest.raises(AttributeError, match="nothing"):
        _ = greenroom.cli.nothing
