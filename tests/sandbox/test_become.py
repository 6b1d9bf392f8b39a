"""The program that stops being root: run by root, and in-process with root's calls replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.sandbox import enforce

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def run(*arguments: str, before: str = "") -> str:
    """Run the program, with something done before in the same process; return what it wrote."""
    program = (
        "import ctypes, os, runpy, sys\nlibc = ctypes.CDLL(None)\n"
        f"{before}\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", program, enforce.__file__, "--become", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert not done.stderr
    return done.stdout


@ROOT
def test_it_is_another_user_without_any_right() -> None:
    look = "id -u; id -g; id -G; pwd; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status"
    inherits = (
        "h, d = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()\n"
        "libc.capget(h, d); d[2] = 192; assert libc.capset(h, d) == 0"
    )
    lines = run("1234", "1235", "/", "sh", "-c", look, before=inherits).splitlines()
    assert lines[:4] == ["1234", "1235", "1235", "/"]
    assert [int(line.split()[1], 16) for line in lines[4:]] == [0] * 4


@ROOT
@pytest.mark.parametrize("death_signal", [0, 9])
def test_it_dies_with_its_parent_as_before(tmp_path: Path, death_signal: int) -> None:
    told = tmp_path / "told.py"
    told.write_text(
        "import ctypes\ndef main():\n n = ctypes.c_int(7)\n"
        " ctypes.CDLL(None).prctl(2, ctypes.byref(n), 0, 0, 0)\n print(n.value)\n"
    )
    before = f"libc.prctl(1, {death_signal}, 0, 0, 0)"
    assert run("1234", "1234", "", "--run", str(told), before=before) == f"{death_signal}\n"


@ROOT
def test_who_has_lost_its_parent_meanwhile_runs_nothing(tmp_path: Path) -> None:
    before = "libc.prctl(1, 9, 0, 0, 0); parents = [1, 2]; os.getppid = parents.pop"
    assert run("1234", "1234", "", "echo", "run", before=before) == ""


@ROOT
def test_who_could_be_root_again_runs_nothing() -> None:
    keeps_rights = """assert libc.prctl(28, 1 << 2, 0, 0, 0) == 0  # SECBIT_NO_SETUID_FIXUP
libc_of = ctypes.CDLL
class Lax:
    def __init__(self, *a, **k): self.libc = libc_of(None)
    def __getattr__(self, name):
        return (lambda *a: 0) if name == 'capset' else getattr(self.libc, name)
ctypes.CDLL = Lax"""
    told = run("1234", "1234", "", "echo", "run", before=keeps_rights)
    assert told.endswith("user 1234 could become root again\n")


@ROOT
def test_a_file_is_loaded_by_root_and_run_by_the_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "closed.py"
    file.write_text("import os\ndef main(*words): print(os.getuid(), *words)\n")
    assert run("1234", "1234", "", "--run", str(file), "a", "b") == "1234 a b\n"


@ROOT
def test_a_program_reads_nothing_of_what_the_linker_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_OF_OURS", "x")
    told = run("1234", "1234", "", "env")
    assert "PATH=" in told
    assert "LD_OF_OURS" not in told


class TestWhereItIsMeasured:
    """The same in this process, which becomes nobody else."""

    @pytest.fixture
    def written(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        written: list[bytes] = []
        monkeypatch.setattr(os, "write", lambda _, text: written.append(text))
        return written

    @pytest.fixture(autouse=True)
    def codes(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        codes: list[int] = []

        def end(code: int) -> None:
            codes.append(code)
            raise SystemExit

        monkeypatch.setattr(os, "_exit", end)
        return codes

    def test_the_order_is_groups_group_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        done: list[tuple[object, ...]] = []

        def set_user(*ids: int) -> None:
            done.append(ids)
            if ids == (0, 0, 0):
                raise PermissionError

        monkeypatch.setattr(os, "setgroups", lambda groups: done.append((groups,)))
        monkeypatch.setattr(os, "setresgid", lambda *ids: done.append(ids))
        monkeypatch.setattr(os, "setresuid", set_user)
        monkeypatch.setattr(enforce, "libc", Nothing())
        enforce.become(7, 8)
        assert done == [([],), (8, 8, 8), (7, 7, 7), (0, 0, 0)]
        monkeypatch.setattr(os, "setresuid", lambda *_: None)
        with pytest.raises(OSError, match="root again"):
            enforce.become(7, 8)

    def test_what_fails_is_told(
        self, monkeypatch: pytest.MonkeyPatch, written: list[bytes], codes: list[int]
    ) -> None:
        for user, command in (("1", ("--run", "/no/file")), ("1", ("--run", "/nowhere.py"))):
            with pytest.raises(SystemExit):
                enforce.main("--become", user, "1", "", *command)
        monkeypatch.setattr(enforce, "become", lambda *_: None)
        with pytest.raises(SystemExit):
            enforce.main("--become", "1", "1", "", "no-such-program-here")
        assert codes == [enforce.FAILED, enforce.FAILED, enforce.COMMAND_NOT_FOUND]
        assert written[0] == b"the sandbox could not be set up: /no/file is not a Python file\n"
        assert b"No such file" in written[1]
        assert written[2] == b"no-such-program-here: No such file or directory\n"

    def test_a_file_is_run_in_place_of_a_command(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(enforce, "become", lambda *_: None)
        (tmp_path / "file.py").write_text("def main(said): raise LookupError(said)")
        with pytest.raises(LookupError, match="hello"):
            enforce.main("--become", "1", "1", "", "--run", str(tmp_path / "file.py"), "hello")


class Nothing:
    """A library whose calls do nothing."""

    def __getattr__(self, _: str) -> object:
        return lambda *_: 0
