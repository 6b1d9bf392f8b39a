"""The program that becomes the command, run with something to look at in the command's place."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.sandbox import enforce
from greenroom.sandbox.seccomp import seccomp_filter
from tests.sandbox.held import REFUSED

LANDLOCK = pytest.mark.skipif(
    enforce.landlock_version() < 3, reason=f"{REFUSED} Landlock, or has an old one"
)

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

# The command would take the place of the program, so that nothing could look at it any more.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import enforce, ctypes, errno, os, resource, signal
def become(name, command, environment):
    exec(command[1])
enforce.os.execvpe = become
enforce.main(sys.argv[2], "command", sys.argv[3])
"""


def become(code: str, **specification: object) -> str:
    """Put a specification into force in a process, run some code there, and return its output."""
    folder = str(Path(enforce.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, json.dumps(specification), code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def rules(**lists: list[str]) -> dict[str, list[str]]:
    return {"read": ["/"], "write": ["/"], "devices": ["/dev/null"], "hidden": [], **lists}


def test_limits_are_lowered_and_never_raised() -> None:
    shown = (
        "print(resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_CORE))"
    )
    assert become(shown, limits={"RLIMIT_CPU": 7}) == "(7, 8) (0, 0)"
    lower = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5)); "
        "enforce.set_limits({'RLIMIT_FSIZE': 9}); "
    )
    assert become(lower + "print(resource.getrlimit(resource.RLIMIT_FSIZE))") == "(5, 5)"


def test_it_joins_groups_before_anything_else(tmp_path: Path) -> None:
    group = tmp_path / "cgroup.procs"
    assert become("print(os.getpid())", cgroups=[str(group)]) == group.read_text()


def test_more_processes_are_counted_from_those_there_are() -> None:
    found = become("print(resource.getrlimit(resource.RLIMIT_NPROC)[0])", more_processes=5)
    assert 5 < int(found) <= enforce.count_processes(os.getuid()) + 5 + 200


def test_processes_are_counted_by_their_real_user_with_all_their_threads() -> None:
    code = """
import threading
os.listdir = lambda _: ["self", str(os.getpid()), "4194304999"]
before, done = enforce.count_processes(os.getuid()), threading.Event()
for _ in range(3):
    threading.Thread(target=done.wait).start()
print(before, enforce.count_processes(os.getuid()), enforce.count_processes(4_000_000))
done.set()
"""
    assert become(code) == "1 4 0"


@ROOT
def test_for_another_user_its_processes_are_counted_and_rights_to_become_it_are_kept() -> None:
    found = become(
        "print(resource.getrlimit(resource.RLIMIT_NPROC)[0], os.fstat(1).st_uid,"
        " [n for n in range(64) if enforce.libc.prctl(23, n, 0, 0, 0) == 1])",
        user=[3_999_999, 3_999_998],
        more_processes=5,
        drops_capabilities=True,
    )
    assert found == "5 3999999 [6, 7]"


@ROOT
def test_only_a_pipe_is_given_to_another_user(tmp_path: Path) -> None:
    specification = json.dumps({"user": [1234, 1234]})
    command = [sys.executable, "-I", "-S", enforce.__file__, specification, "echo", "x"]
    with (tmp_path / "out").open("w") as file:
        subprocess.run(command, stdout=file, check=True)
    assert (tmp_path / "out").stat().st_uid == 0


@LANDLOCK
def test_what_is_hidden_is_walked_around(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/open", "a/other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a" / "link").symlink_to("b")
    code = f"""
os.chdir({str(tmp_path)!r})
for name in ("a/b/secret", "a/link/secret", "a/b/open", "a/link/open", "a/other"):
    try:
        print(open(name).read(), end=" ")
    except PermissionError:
        print("refused", end=" ")
"""
    hidden = [str(tmp_path / "a" / "b" / "secret"), str(tmp_path / "a" / "gone")]
    found = become(code, landlock=rules(hidden=hidden), lists=True)
    assert found == "refused refused a/b/open a/b/open a/other"


@LANDLOCK
def test_what_is_named_itself_is_open_below_something_hidden(tmp_path: Path) -> None:
    for name in ("hidden/open", "hidden/secret"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    hidden = tmp_path / "hidden"
    code = f"""
os.chdir({str(hidden)!r})
print(open("open").read())
print(enforce.libc.open(b"secret", 0))
"""
    given = rules(read=["/", str(hidden / "open"), "/nowhere"], hidden=[str(hidden)])
    assert become(code, landlock=given) == "hidden/open\n-1"


@LANDLOCK
def test_too_many_names_beside_what_is_hidden_stop_it(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    code = """
enforce._MAX_RULES = 3
try:
    rules = {"read": ["/"], "write": [], "devices": [], "hidden": [HIDDEN]}
    enforce.restrict_files(rules, lists=False, scopes=False)
except OSError as error:
    print(error.strerror)
""".replace("HIDDEN", repr(str(tmp_path / "secret")))
    assert become(code) == "more than 3 names are beside what is hidden"


def test_a_filter_refuses_calls_with_the_error_of_a_missing_right() -> None:
    program = seccomp_filter(())
    assert program is not None
    code = (
        "import socket\ntry: socket.socket()\nexcept PermissionError as error: print(error.errno)"
    )
    assert become(code, filter=program.hex(), drops_capabilities=True) == "1"


def test_a_filter_for_bubblewrap_is_handed_over() -> None:
    found = become(
        "print(os.read(enforce.FILTER_FD, 100).hex())",
        filter="0102030405060708",
        passes_filter=True,
    )
    assert found == "0102030405060708"


def test_no_rights_can_be_won_again() -> None:
    assert become("print(enforce.libc.prctl(39, 0, 0, 0, 0))") == "1"


def test_signals_are_as_a_command_expects_them() -> None:
    code = (
        "print([signal.getsignal(each).name "
        "for each in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM)])"
    )
    assert become(code) == "['SIG_DFL', 'SIG_DFL', 'SIG_DFL']"
    assert become(code, ignores_termination=True) == "['SIG_DFL', 'SIG_DFL', 'SIG_IGN']"


def test_what_the_linker_reads_is_kept_from_the_command() -> None:
    environment = {b"LD_PRELOAD": b"x", b"DYLD_X": b"x", b"PATH": b"/bin", b"OLD_PATH": b"/bin"}
    assert set(enforce.drop_linker_variables(environment)) == {b"PATH", b"OLD_PATH"}  # type: ignore[arg-type]


def test_a_program_reads_nothing_of_what_the_linker_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_OF_OURS", "x")
    command = [sys.executable, "-I", "-S", enforce.__file__, "{}", "env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "PATH=" in done.stdout
    assert "LD_OF_OURS" not in done.stdout


@LANDLOCK
@ROOT
def test_no_devices_are_made_where_all_else_may_be(tmp_path: Path) -> None:
    code = f"""
import stat
for kind in (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK):
    try:
        os.mknod(f"{tmp_path}/{{kind}}", 0o600 | kind, os.makedev(1, 3))
        print("made")
    except PermissionError:
        print("refused")
sys.stdout.flush()
os._exit(0)  # what is measured could not be written any more
"""
    given = rules(write=[str(tmp_path)])
    assert become(code, landlock=given, lists=True).split() == ["made", "refused", "refused"]


@pytest.mark.parametrize(
    ("specification", "says"),
    [
        ('{"cgroups": ["/nowhere/cgroup.procs"]}', "No such file or directory: '/nowhere"),
        ('{"filter": "x"}', "non-hexadecimal"),
        ('{"filter": "ffffffffffffffff"}', "seccomp"),
        ("nonsense", "Expecting value"),
    ],
)
def test_what_can_not_be_put_into_force_runs_nothing(
    specification: str, says: str, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    command = [sys.executable, "-I", "-S", enforce.__file__, specification, "touch", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == enforce.FAILED
    assert done.stdout.startswith("the sandbox could not be set up: ")
    assert says in done.stdout
    assert not made.exists()


def test_a_command_that_is_not_there_is_told_as_a_shell_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    command = [sys.executable, enforce.__file__, "{}", "no-such-program-here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stdout == "no-such-program-here: No such file or directory\n"


def test_failures_in_this_process_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same once more where it can be measured, with an end that can be caught."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", end)
    written: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda _, text: written.append(text))
    with pytest.raises(SystemExit):
        enforce.main("nonsense", "true")
    monkeypatch.setattr(enforce, "put_into_force", lambda _: None)
    monkeypatch.setattr(enforce, "restore_signals", lambda **_: None)
    with pytest.raises(SystemExit):
        enforce.main("{}", "no-such-program-here")
    assert codes == [enforce.FAILED, enforce.COMMAND_NOT_FOUND]
    assert written[1] == b"no-such-program-here: No such file or directory\n"


def test_a_limit_that_this_process_has_is_put_back_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lowered: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lowered.__setitem__)
    enforce.set_limits({"RLIMIT_CPU": 3, "RLIMIT_AS": 9})
    assert lowered == {resource.RLIMIT_CPU: (3, 4), resource.RLIMIT_AS: (9, 9)}


def test_signals_of_this_process_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", set_to.__setitem__)
    enforce.restore_signals(ignores_termination=True)
    assert set_to[signal.SIGTERM] == signal.SIG_IGN
    assert set_to[signal.SIGXFSZ] == set_to[signal.SIGPIPE] == signal.SIG_DFL
