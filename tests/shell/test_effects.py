"""What commands would do, without a rule: the package stands alone."""

import subprocess
import sys

import pytest

from greenroom.shell import (
    PathUse,
    Place,
    Unknown,
    expand_braces,
    list_effects,
    list_program_effects,
    match_names,
    read_names,
)

PLACE = Place("/work", "/work")


def effects(command):
    return [str(each) for each in list_effects(command, PLACE)]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("ls > out", ["ls", "write out"]),
        ("ls >> out", ["ls", "write out"]),
        ("ls &> out", ["ls", "write out"]),
        ("sort < names", ["sort", "read names"]),
        ("> out", ["write out"]),
        ("ls > /dev/null 2>&1", ["ls"]),
        ("cat <<END\na\nEND", ["cat"]),
        ("cat <<< a", ["cat"]),
        ("{ ls; pwd; } > out", ["ls", "pwd", "write out"]),
        ("ls > $x", ["ls", "writes a file only known at run time: $x"]),
        (
            "ls > /dev/tcp/a.test/80",
            ["ls", "opens a network connection through /dev/tcp/a.test/80"],
        ),
    ],
)
def test_a_redirection_is_a_file_that_is_read_or_written(command, found):
    assert effects(command) == found


def test_a_redirection_is_opened_where_the_command_begins():
    (_, use) = list_effects("cd src > out", PLACE)
    assert isinstance(use, PathUse)
    assert use.lexical == ("/work/out",)
    *_, later = list_effects("cd src; ls > out", PLACE)
    assert later.lexical == ("/work/out", "/work/src/out")


def test_words_that_no_shell_reads_are_taken_as_they_are():
    assert [str(each) for each in list_program_effects(["rm", "$x", "*"], [], PLACE)] == ["rm $x *"]
    (unknown,) = list_program_effects([], [], PLACE)
    assert isinstance(unknown, Unknown)


def test_more_alternatives_than_wanted_are_an_error():
    assert expand_braces("{a,b}{c,d}", most=4) == ["ac", "ad", "bc", "bd"]
    with pytest.raises(ValueError, match="more than 3 alternatives"):
        expand_braces("{a,b}{c,d}", most=3)


@pytest.mark.parametrize(
    ("pattern", "path", "folder", "fits"),
    [
        ("src/**", "src/a/b", False, True),
        ("src/**", "src", False, False),
        ("src/**", "src", True, True),
        ("**/a", "a", False, True),
        ("**/a", "b/c/a", False, True),
        ("a/*/b", "a/x/y/b", False, False),
        ("a/**/b", "a/x/y/b", False, True),
    ],
)
def test_two_stars_are_any_depth(pattern, path, folder, fits):
    wanted = read_names(tuple(pattern.split("/")))
    assert match_names(wanted, path.split("/"), folder=folder) is fits


def test_it_loads_nothing_but_the_core():
    code = "import sys, greenroom.shell; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {each for each in done.stdout.split() if each.startswith("greenroom.")}
    packages = {each.split(".")[1] for each in loaded}
    assert packages <= {"_lazy", "_version", "core", "shell"}
    assert not {"trio", "httpx", "pydantic", "rich"} & set(done.stdout.split())
