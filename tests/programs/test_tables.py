"""The tables say of each option what the program's own help says, and what BSD takes as well."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import greenroom.programs
from greenroom.programs.invocation import PROGRAMS
from tests.programs.generated_readings import list_installed, read_help
from tests.programs.reading_oracle import BUILTINS

TABLE = (Path(greenroom.programs.__file__).parent / "programs.txt").read_text()
EXTERNAL = [name for name in list_installed() if name not in BUILTINS]
# What a help does not say as it says the rest, or says of another option in the same line.
UNCLEAR = {
    "date": "-I",
    "diff": "-c -u -C -U",
    "du": "--time",
    "ls": "-F -p",
    "shasum": "-a --algorithm",
    "sort": "-c -C --check",
    "stat": "-c",
    "strings": "-U -w",
    "tail": "-f",
    "find": (
        "-empty -false -true -print -print0 -ls -prune -depth -nouser -nogroup -quit -regextype"
    ),
}
_UNKNOWN = re.compile(
    "unrecognized|unrecognised|invalid option|unknown (?:option|predicate)|not an option"
    "|illegal option|unknown arguments",
    re.IGNORECASE,
)


def list_options(program):
    """List the options that may be part of reading, with what stands for their value."""
    for option, marks in PROGRAMS[program].options.items():
        if option[0] == "-" and not re.search("[!~%&>]", marks):
            yield option, "=" if re.search("[=@]", marks) else "?" if "?" in marks else ""


def is_accepted(program, option, arity):
    """Return whether a program takes an option that its help does not list."""
    words = [option, *("1" for _ in range(2) if arity == "=")]
    done = subprocess.run(
        [program, *words, *(["."] if program == "jq" else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    return not _UNKNOWN.search(done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="the help of BSD's programs lists no options")
@pytest.mark.parametrize("program", EXTERNAL)
def test_each_option_is_in_the_programs_help_and_takes_what_that_says(
    program, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    helped, unclear = read_help(program), UNCLEAR.get(program, "").split()
    wrong = [
        (option, arity, helped.get(option))
        for option, arity in list_options(program)
        if option not in unclear
        and arity not in helped.get(option, ())
        and (option in helped or not is_accepted(program, option, arity))
    ]
    assert wrong == []


# The options of macOS' programs (of FreeBSD's `cmp` and `diff`), as they hand them to getopt.
BSD = {
    "base64": "b:Ddhi:o:w:",
    "cat": "belnstuv",
    "cksum": "o:",
    "cmp": "bhi:ln:sxz",
    "column": "c:s:tx",
    "comm": "123i",
    "cut": "b:c:d:f:snw",
    "date": "f:I::jnRr:uv:z:",
    "df": "abcgHhIiklmnPtT:Y,",
    "diff": "0123456789aBbC:cdD:efHhI:iL:lnNPpqrS:sTtU:uwW:X:x:y",
    "du": "AB:HI:LPasd:cghklmnrt:x",
    "expand": "t:",
    "fmt": "0123456789cd:hl:mnpst:w:",
    "fold": "0123456789bsw:",
    "grep": "0123456789A:B:C:D:EFGHILOPSRUVabcd:e:f:hilm:nopqrsuvwxyz",
    "head": "n:c:",
    "hexdump": "bcCde:f:n:os:vx",
    "join": "a:e:j:1:2:o:t:v:",
    "ls": "@1ABCD:FGHILOPRSTUWXabcdefghiklmnopqrstuvwxy%,",
    "nl": "pb:d:f:h:i:l:n:s:v:w:",
    "od": "A:aBbcDdeFfHhIij:LlN:Oost:vXx",
    "paste": "d:s",
    "readlink": "fn",
    "realpath": "q",
    "rev": "",
    "sed": "EHI:ae:f:i:lnru",
    "sort": "bcCdfghik:Mmno:RrsS:t:T:uVz",
    "stat": "f:FHlLnqrst:x",
    "tail": "Fb:c:fn:qrv",
    "unexpand": "at:",
    "uniq": "D::cdif:s:u",
    "wc": "clmwL",
    "which": "as",
}


@pytest.mark.parametrize("program", BSD)
def test_what_is_not_marked_for_linux_only_is_so_for_bsd(program):
    known = {
        f"-{letter}": {"": "", ":": "=", "::": "?"}[colons]
        for letter, colons in re.findall(r"([^:])(:*)", BSD[program])
    }
    marked = PROGRAMS[program].options
    wrong = {
        option: arity
        for option, arity in list_options(program)
        if len(option) == 2 and "g" not in marked[option] and known.get(option) != arity
    }
    assert wrong == {}


def test_each_word_of_a_row_is_explained_at_the_top_of_the_table():
    explained = set(re.findall(r"[\w*+^]+", TABLE[: TABLE.index("\n\n")]))
    kinds = {kind.removeprefix("gnu ") for each in PROGRAMS.values() for kind in each.kinds}
    assert {kind for kind in kinds if kind[0] != "+"} <= explained
    assert all(f"git {kind}" in PROGRAMS for kind in kinds if kind[0] == "+")
