"""Plain commands: their words, and the same words again when they are written out."""

import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from greenroom.fs.file_lookup import FileLookup
from greenroom.shell._internal import NotPlainError, SimpleCommand, read, render
from greenroom.shell.expansion import list_names
from greenroom.shell.pieces import split_pieces
from greenroom.shell.script import Pipeline, Redirection
from tests.counted_calls import count_calls
from tests.shell.plain_commands import make_command, make_workspace

CASES = int(os.environ.get("GREENROOM_BASH_CASES", "200"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "1"))


def words(text: str) -> list[tuple[str, ...]]:
    script = read(text, home="/home/ada", folder="/work")
    return [command.words for pipeline in script for command in pipeline.commands]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" ls -l ", [("ls", "-l")]),
        ("# a comment\nls # -l\n", [("ls",)]),
        ("ls a#b", [("ls", "a#b")]),
        ("a|b && c||d; e\nf", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("""echo 'a b'"c\\"d"\\ e""", [("echo", 'a bc"d e')]),
        ("echo $'a\\tb\\'c'", [("echo", "a\tb'c")]),
        ("echo ~ ~/x '~' a~ $HOME \"${PWD}/y\"", [
            ("echo", "/home/ada", "/home/ada/x", "~", "a~", "/home/ada", "/work/y")]),
        ("echo {a,b}{1..3} a{b {} {a}", [
            ("echo", "a1", "a2", "a3", "b1", "b2", "b3", "a{b", "{}", "{a}")]),
        ("cat <<'END'\n$x\nEND\nls", [("cat",), ("ls",)]),
        ("git commit -m \"$(cat <<'E'\nit's `x`\n\nE\n)\"", [("git", "commit", "-m", "it's `x`")]),
        ("ls \\\n  -l", [("ls", "-l")]),
        ("time -p ! ls", [("ls",)]),
        ("echo if $ \"$\" !x", [("echo", "if", "$", "$", "!x")]),
    ],
)  # fmt: skip
def test_the_words_of_a_plain_command_are_those_that_bash_passes(text, found):
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ("ls $x", "a variable, $x", 3),
        ('git show "$(git rev-parse HEAD)"', "a substitution, $(git rev-parse HEAD)", 10),
        ("echo `x`", "a substitution, ` `", 5),
        ("echo $?", "a variable, $?", 5),
        ("echo $((1 + 1))", "a substitution, $(", 5),
        ("for f in a; do ls; done", "a keyword, for", 0),
        ("ls & pwd", "a command in the background, &", 3),
        ("(ls)", "a subshell or function, ( )", 0),
        ("{ ls; }", "a keyword, {", 0),
        ("f() { ls; }", "a subshell or function, ( )", 1),
        ("cat <(ls)", "a redirection without its target", 4),
        ("x=1; ls", "a variable that is set for what follows", 0),
        ("x=(1 2)", "an array or an addition to a variable, x=(", 0),
        ("ls *", "a pattern of files, *", 3),
        ("l? a", "a pattern as the name of a command", 0),
        ("ls 3> f", "a redirection of another kind, 3>", 3),
        ("ls 2>&-", "a redirection of another kind, 2>&", 3),
        ("cat 3<<'E'\nx\nE", "a redirection of another kind, 3<<", 4),
        ("cat <<E\n$x\nE", "an expansion in a here-document, $x", 8),
        ("cat <<E\nx", "a here-document that 'E' does not end", 8),
        ("echo \"$(cat 3<<'E'\nls\nE\n)\"", "a substitution, $(cat 3<<'E'", 6),
        ("ls 'a", "a single quote that is not closed", 3),
        ("cd x && ls $PWD", "a variable, $PWD, that may have changed", 11),
        ("ls ~root", "a tilde that may mean another folder", 3),
        ("make CC=~/x", "a tilde in the value of a variable", 5),
        ("echo {a,{b,c}}", "braces that are nested, or a range that is not simple", 5),
        ("echo $HOME{a,b}", "a variable, $HOME", 5),
        ("l\\\ns", "a line that is continued inside a word", 1),
        ("ls\rpwd", "a control character, \\u{d}", 2),
        ("ls;;", "a separator without a command", 2),
        ("ls &&", "a list that goes on", 5),
        ("", "nothing to run", 0),
        ("''", "a command without a name", 0),
        ("echo " + "x" * 70_000, "a text of more than 64 KiB", 0),
        (";".join(["ls"] * 300), "more than 256 commands", 768),
    ],
)
def test_whatever_else_is_not_plain_and_says_what_and_where(text, reason, at):
    with pytest.raises(NotPlainError) as caught:
        words(text)
    assert (caught.value.reason, caught.value.at) == (reason, at)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cc"]))
lines = st.lists(texts, max_size=3).map("\n".join)
redirections = st.one_of(
    st.builds(Redirection, st.just(0), st.sampled_from(["<", "<<<"]), lines),
    st.builds(Redirection, st.sampled_from([1, 2]), st.sampled_from([">", ">>"]), lines),
    st.builds(Redirection, st.sampled_from([1, 2]), st.just(">&"), st.sampled_from("12")),
)
commands = st.builds(
    SimpleCommand,
    st.lists(lines.filter(bool), min_size=1, max_size=4).map(tuple),
    st.lists(st.tuples(st.sampled_from(["A", "_b1", "PATH"]), lines), max_size=2).map(tuple),
    st.lists(redirections, max_size=3).map(tuple),
    st.integers(0, 5),
)  # fmt: skip
pipelines = st.builds(
    Pipeline,
    st.sampled_from([";", "&&", "||"]),
    st.lists(commands, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from(["", "time", "time -p"]),
)


@given(st.lists(pipelines, min_size=1, max_size=4))
def test_a_command_that_is_written_out_is_read_as_the_same_command(found):
    first, *others = found
    script = (Pipeline("", first.commands, first.inverted, first.clock), *others)
    assert read(render(script)) == script


SIGNS = (
    "'",
    '"',
    "\\",
    "$",
    "`",
    "(",
    ")",
    "{",
    "}",
    ",",
    "<",
    ">",
    "<<E\n",
    "\nE\n",
    "&",
    "|",
    ";",
)
odd = st.lists(st.sampled_from((*SIGNS, "a", " ", "\n", "~", "#", "=", "*", "[", "é"))).map("".join)


@given(odd)
def test_any_text_is_read_or_not_plain_and_can_be_split_into_pieces(text):
    split_pieces(text, home="/home/ada", folder="/work")
    try:
        script, at = read(text, home="/home/ada", folder="/work"), 0
    except NotPlainError as error:
        script, at = None, error.at
    assert 0 <= at <= len(text)
    assert script is None or read(render(script)) == script


def run(text: str, folder: Path, environment: dict[str, str]) -> tuple[object, ...]:
    """Run a text in bash: what it prints, its exit status, and the files that it writes."""
    work = folder / "work"
    for path in work.glob("o*"):
        path.unlink()
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-p", "-c", text],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    written = [(path.name, path.read_bytes()) for path in sorted(work.glob("o*"))]
    # The number of a line is that of its beginning or of its end, depending on the message.
    texts = (
        re.sub(rb"line \d+", b"line", each) for each in (ended.stdout, *(t for _, t in written))
    )
    errors = sorted(re.sub(rb"line \d+", b"line", ended.stderr).splitlines())
    return *texts, errors, ended.returncode, [name for name, _ in written]


def test_bash_does_the_same_with_a_command_and_with_what_it_was_read_as(tmp_path):
    environment, random = make_workspace(tmp_path), Random(SEED)
    work, plain = str(tmp_path / "work"), 0

    def names(pattern, earlier):
        if any(each.redirections for each in earlier):  # it may be written on the way
            raise NotPlainError("late", 0)
        return list_names(pattern, work, FileLookup())

    for _ in range(CASES):
        text = make_command(random)
        run("true", tmp_path, environment)
        try:
            script = read(text, home=environment["HOME"], folder=work, list_names=names)
        except NotPlainError:
            continue
        plain += 1
        rendered = render(script)
        for _ in range(10 if "|" in text else 1):  # the parts of a pipe run side by side
            expected, found = run(text, tmp_path, environment), run(rendered, tmp_path, environment)
            if found == expected:
                break
        assert found == expected, f"seed {SEED}: {text!r} was read as {rendered!r}"
    assert plain > CASES * 0.8


def work(length):
    """Count the calls that reading so many patterns behind as many commands takes."""
    text = "ls; " * (length // 5) + "ls " + "*a " * length
    return count_calls(read, text, list_names=lambda *_: ("a",))


def test_patterns_behind_many_commands_take_no_more_work_than_others():
    assert work(600) <= 4.6 * work(150) + 2000
