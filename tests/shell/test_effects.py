"""What commands would do, without a rule: the package stands alone."""

import subprocess
import sys

import pytest

from greenroom.fs import file_lookup
from greenroom.programs._internal import find_reading, read_invocation
from greenroom.shell._internal import (
    PathUse,
    Place,
    Unknown,
    analyse,
    list_program_effects,
)

PLACE = Place("/work", "/work", environment={"HOME": "/home/ada"})


def effects(command):
    return [str(each) for each in analyse(command, PLACE).effects]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("ls > out", ["ls", "write out"]),
        ("ls >> out", ["ls", "write out"]),
        ("ls &> out", ["ls", "write out"]),
        ("ls &> 1", ["ls", "write 1"]),
        ("sort < names", ["sort", "read names"]),
        ("> out", ["write out"]),
        ("ls > /dev/null 2>&1", ["ls"]),
        ("cat <<END\na\nEND", ["cat"]),
        ("cat <<< a", ["cat"]),
        ("< /dev/tcp/a.test/80", ["opens a network connection through /dev/tcp/a.test/80"]),
        ("A=1 timeout 5 make", ["sets the variable A", "timeout 5 make", "make"]),
        ("ls | xargs rm -f", ["ls", "xargs rm -f", "rm -f"]),
        ("find . -exec cat {} +", ["find . -exec cat {} +", "cat {}"]),
        ("bash -c 'ls; pwd'", ["bash -c ls; pwd", "ls", "pwd"]),
        ("ls | sh", ["ls", "sh", "sh may run what its standard input brings"]),
        ("tee a; sh a", ["tee a", "runs a file that the same command writes", "sh a"]),
    ],
)
def test_a_plain_command_is_taken_apart_in_its_order(command, found):
    assert effects(command) == found


def test_of_a_text_that_is_not_plain_is_told_what_it_seems_to_do():
    first, *others = effects("for f in a; do cat < x > out; done")
    assert first.startswith("not plain: a keyword, for at 0")
    assert others == ["perhaps for f in a", "perhaps cat", "read x", "write out", "perhaps done"]


def test_a_redirection_is_opened_where_the_command_begins():
    (_, use) = analyse("cd src > out", PLACE).effects
    assert isinstance(use, PathUse)
    assert use.lexical == ("/work/out",)
    *_, later = analyse("cd src; ls > out", PLACE).effects
    assert {*later.lexical} == {"/work/out", "/work/src/out"}


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        ("cd a && ls", "/work/a"),
        ("cd a; ls", "/work /work/a"),
        ("cd a || ls", "/work"),
        ("! cd a && ls", "/work"),
        ("! cd a || ls", "/work/a"),
        ("cd a && cd b; ls", "/work /work/a /work/a/b"),
        ("true && cd a; ls", "/work /work/a"),
        ("cd a | cat && ls", "/work"),
        ("cd -- /x && cd ../y && ls", "/y"),
        ("cd a b && ls", None),
        ("cd - && ls", None),
        ("cd a && cd && ls", "/home/ada"),
        ("pushd a; ls", None),
        ("A=1 cd a && ls", None),
        ("command cd a && ls", None),
        ("; ".join(f"cd d{n}" for n in range(9)) + "; ls", None),
    ],
)
def test_a_command_runs_in_each_folder_that_the_ones_before_may_lead_to(command, folders):
    place = analyse(command, PLACE).effects[-1].place
    assert place.is_lost is (folders is None)
    if folders is not None:
        assert {*place.folders} == {*folders.split()}


def test_words_that_no_shell_reads_are_taken_as_they_are():
    assert [str(each) for each in list_program_effects(["rm", "$x", "*"], [], PLACE)] == ["rm $x *"]
    (unknown,) = list_program_effects([], [], PLACE)
    assert isinstance(unknown, Unknown)


def test_a_program_with_a_space_in_its_name_is_not_a_program_and_its_verb():
    assert find_reading(read_invocation(("git", "status"))) is not None
    assert find_reading(read_invocation(("git status",))) is None


@pytest.mark.parametrize(
    "name",
    [
        *("/proc/self/cwd/b/c", "/proc/1/task/2/cwd/b/c", "/proc/self/root{}/b/c"),
        *("own/cwd/b/c", "own/cwd/b/../b/c", "own/cwd/../a/b/c", "here/b/c", "fds/../cwd/b/c"),
        *("/dev/fd/../cwd/b/c", "/proc/self/root/proc/thread-self/cwd/b/c"),
    ],
)
def test_a_link_of_a_process_leads_where_it_leads_for_the_command(name, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    for link, target in (("own", "/proc/self"), ("here", "/proc/self/cwd"), ("fds", "/dev/fd")):
        (folder / link).symlink_to(target)
    use = Place(str(tmp_path), str(folder)).use("read", name.format(folder))
    assert isinstance(use, PathUse)
    assert str(folder / "b/c") in use.real


def test_a_link_of_a_process_to_an_open_file_is_not_followed():
    for name in ("/proc/self/fd/1", "/dev/fd/1", "/proc/1/fd/../fd/1/x", "/proc/self/map_files/1"):
        use = PLACE.use("read", name)
        assert isinstance(use, PathUse)
        assert all(file_lookup.PROCESS_LINK.match(path) for path in use.real)


def test_it_loads_nothing_but_the_core():
    code = "import sys, greenroom.shell; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {each for each in done.stdout.split() if each.startswith("greenroom.")}
    packages = {each.split(".")[1] for each in loaded}
    assert packages <= {"_lazy", "_version", "core", "fs", "programs", "shell"}
    assert not {"trio", "httpx", "pydantic", "rich"} & set(done.stdout.split())
