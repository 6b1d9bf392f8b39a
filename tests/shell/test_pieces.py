"""Pieces of texts that are not plain: what seems to run is found, and what is only text is not."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from greenroom.programs._internal import extract_words
from greenroom.shell._internal import render
from greenroom.shell.pieces import MAX_PIECES, split_pieces
from tests.shell.test_reader import pipelines

WANTED = ("rm", "-rf", "x")


def split(text):
    return split_pieces(text, home="/home/ada", folder="/work")


def runs(text):
    """Return whether a text seems to run what is wanted."""
    return any(each.words == WANTED for each in split(text))


@pytest.mark.parametrize(
    "text",
    [
        *("rm -rf x", "ls; rm -rf x", "ls&&rm -rf x", "ls || rm -rf x", "ls|rm -rf x"),
        *("ls & rm -rf x", "ls\nrm -rf x", "ls # a\nrm -rf x", "r\\\nm -rf x"),
        *("ls \\\n&& rm -rf x", "! rm -rf x", "'rm' \"-rf\" x", "r''m -r\"\"f x", "\\rm -r\\f x"),
        *("$'rm' -rf x", "rm -rf x # y", "(rm -rf x)", "{ rm -rf x; }", "f() { rm -rf x; }"),
        *("function f { rm -rf x; }", "if rm -rf x; then ls; fi", "if ls; then rm -rf x; fi"),
        *("while rm -rf x; do ls; done", "if a; then b; elif rm -rf x; then c; else rm -rf x; fi"),
        *("for i in a; do rm -rf x; done", "until rm -rf x; do ls; done"),
        *("case x in a) rm -rf x;; esac", "coproc rm -rf x", "ls $(rm -rf x)", "ls `rm -rf x`"),
        *('ls "$(rm -rf x)"', 'ls "`rm -rf x`"', "a=$(rm -rf x)", "ls $(ls $(rm -rf x))"),
        *("ls `ls \\`rm -rf x\\``", 'ls "a $(ls "$(rm -rf x)") b"', "ls <(rm -rf x)"),
        *("ls >(rm -rf x)", "ls < <(rm -rf x)", "$(true) rm -rf x", "$X rm -rf x"),
        *("ls ${x:-$(rm -rf x)}", 'ls "${x:-"$(rm -rf x)"}"', "ls $(( $(rm -rf x) ))"),
        *("((`rm -rf x`))", "cat <<E\n$(rm -rf x)\nE", "cat <<-E\n\t`rm -rf x`\n\tE"),
        *("cat <<A <<'B'\n$(rm -rf x)\nA\nB", "cat <<E; rm -rf x\na\nE"),
        *("cat <<'E'\n'\nE\nrm -rf x", "$(cat <<E\na\nE\nrm -rf x)", "ls $((1<<2))\nrm -rf x"),
        *("(( a << 2 ))\nrm -rf x", "ls $[1<<2]\nrm -rf x", "A=1 B=$C rm -rf x", "A+=1 rm -rf x"),
        *("> out rm -rf x", "rm 2>&1 -rf x <in", "2>/dev/null rm -rf x", "ls; <&-rm -rf x"),
        *("2>&-rm -rf x", "ls 2>&1&& rm -rf x", "ls >&-;rm -rf x", "ls 9>a; rm -rf x"),
        *("ls )\nrm -rf x", "ls ( ; rm -rf x", "ls;;rm -rf x", "ls &&& rm -rf x"),
        *('echo "a\\"; rm -rf x" ; rm -rf x', "echo \\'; rm -rf x", "echo '\\'; rm -rf x"),
        "echo a#b; rm -rf x",
    ],
)  # fmt: skip
def test_what_may_begin_as_a_command_is_a_piece(text):
    assert runs(text)


@pytest.mark.parametrize(
    "text",
    [
        *("echo rm -rf x", "echo 'ls; rm -rf x'", 'echo "ls; rm -rf x"', "ls # ; rm -rf x"),
        *("echo \\; rm -rf x", "echo $'\\'; rm -rf x'", 'echo "\\$(rm -rf x)"'),
        *("echo '$(rm -rf x)'", "cat <<'E'\n$(rm -rf x)\nE", "cat <<E\nrm -rf x\nE"),
        *("cat <<\\E\n`rm -rf x`\nE", "cat <<E\n\\$(rm -rf x)\nE", "cat <<-E\n\trm -rf x\n\tE"),
        *("ls > rm -rf x", "rm -rf $X x"),
    ],
)  # fmt: skip
def test_what_is_only_text_is_not(text):
    assert not runs(text)


def test_a_piece_has_its_variables_and_the_files_of_its_redirections():
    piece, other = split("A=1 B+='b c' cat < ~/in 2>> $HOME/err 2>&1 >\"$PWD/o u\" && ls {fd}< f")
    assert piece.settings == (("A", "1"), ("B", "b c"))
    assert piece.words == ("cat",)
    assert piece.redirections == (
        (0, "<", "/home/ada/in"),
        (1, ">", "/home/ada/err"),
        (1, ">", "/work/o u"),
    )
    assert other.redirections == ((0, "<", "f"),)


def name(command):
    """Give a command a program that is neither a keyword nor a variable that is set."""
    first, *others = command.words
    return replace(command, words=(f"p {first}", *others))


@given(st.lists(pipelines, min_size=1, max_size=4))
def test_each_command_of_a_plain_text_is_a_piece_of_it(found):
    script = [structs.replace(each, commands=tuple(map(name, each.commands))) for each in found]
    script[0] = structs.replace(script[0], operator="")
    pieces = {each.words for each in split(render(script))}
    for pipeline in script:
        first, *others = pipeline.commands
        assert pieces.issuperset(each.words for each in others)
        settings = (f"{name}={value}" for name, value in first.settings)
        timed = (*pipeline.clock.split(), *["!"] * pipeline.inverted, *settings, *first.words)
        assert (timed if pipeline.clock else first.words) in pieces


def test_the_same_piece_counts_once_and_only_so_many_are_looked_at():
    assert len(split("ls; " * 9_000 + "pwd")) == 2
    assert len(split("".join(f"ls {n}; " for n in range(2 * MAX_PIECES)))) == MAX_PIECES


@pytest.mark.parametrize(
    "sign", ["(", "$(", "`", '"', "'", "{ ", "<<E\n", "$(cat <<E\n", "<(", "\\"]
)
def test_no_nesting_is_too_deep(sign):
    assert runs(f"rm -rf x; {sign * 5_000}")


def test_words_that_may_run_are_split_at_whatever_separates_commands():
    assert extract_words("a;(b c)|`d`>e=f") == ("a", "b", "c", "d", "e", "f")
    assert {"su", "rm", "-rf", "x"} <= set(extract_words("su -c'rm -rf x'"))
    assert "rm" in extract_words("frob -vfrm x")
