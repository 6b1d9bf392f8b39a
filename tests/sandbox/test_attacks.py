"""What a sandbox is for, tried in every tier: it is contained, or the tier says that it is not."""

import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom.core import Workspace
from greenroom.core._internal import SandboxPart
from greenroom.sandbox.cgroup import CgroupPlaces
from greenroom.tools import Bash, ProcessLimits, Sandbox
from tests.sandbox.held import Held, marked

# The real one: a private /tmp may hide an environment that lies there.
PYTHON = f"{os.path.realpath(sys.executable)} -I -S"


async def contained(held: Held, part: SandboxPart, was_held: bool, sandbox: Sandbox | None = None):
    """Compare what has happened with what the report says."""
    assert was_held == (not await held.is_missing(part, sandbox))


WRITES = {
    "a new file": "echo x > {outside}/new",
    "an existing file": "echo x > {outside}/file",
    "an appended line": "echo x >> {outside}/file",
    "a truncated file": "truncate -s 0 {outside}/file",
    "a removed file": "rm {outside}/file",
    "a folder": "mkdir {outside}/folder",
    "a symbolic link": "ln -s /etc/passwd {outside}/link",
    "a hard link": "echo x > f; ln f {outside}/link",
    "through a symbolic link": "ln -s {outside} way; echo x > way/new",
    "through a link of a file": "ln -s {outside}/file way; echo x > way",
    "a rename out": "echo x > f; mv f {outside}/f",
    "a rename of what is outside": "mv {outside}/file {outside}/other",
    "a fetch from outside": "mv {outside}/file here",
    "a pipe": "mkfifo {outside}/pipe",
    "through the root of a process": "echo x > /proc/self/root{outside}/new",
    "up from here": "echo x > $(realpath --relative-to=. {outside})/new",
}


def listing(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text() if path.is_file() and not path.is_symlink() else "-"
        for path in folder.iterdir()
    }


async def test_nothing_is_written_outside(held: Held) -> None:
    folders = {}
    command = ""
    for number, (way, attack) in enumerate(WRITES.items()):
        folders[way] = held.outside / str(number)
        folders[way].mkdir()
        (folders[way] / "file").write_text("kept")
        command += f"(mkdir {number}; cd {number}; {attack.format(outside=folders[way])})\n"
    await held.run(command)
    written = [way for way, folder in folders.items() if listing(folder) != {"file": "kept"}]
    assert written == ([*WRITES] if await held.is_missing("files") else [])


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
async def test_the_temporary_folder_is_private_and_gone_at_the_end(held: Held, mode: str) -> None:
    sandbox = Sandbox(mode)  # type: ignore[arg-type]
    result = await held.run(
        "echo x > $TMPDIR/f && cat $TMPDIR/f && mktemp && pwd -P > /dev/null", sandbox
    )
    assert result.text.splitlines()[0] == "x"
    assert result.metadata["exit_code"] == 0
    name = result.text.splitlines()[1]
    assert not os.path.exists(name)
    if held.tier != "bubblewrap":
        assert not os.path.exists(os.path.dirname(name))


async def test_the_workspace_can_be_written_and_renamed_in(held: Held) -> None:
    await held.run("mkdir a b; echo x > a/f; mv a/f b/g; ln -s g b/l; chmod +x b/g; rm -r a; cd b")
    assert (held.root / "b" / "g").read_text() == "x\n"
    assert os.access(held.root / "b" / "g", os.X_OK)
    assert not (held.root / "a").exists()
    assert held.context.workspace.cwd == held.root / "b"


async def test_nothing_is_written_in_the_mode_read_only(held: Held) -> None:
    sandbox = Sandbox("read-only")
    (held.root / "file").write_text("kept")
    result = await held.run("cat file; echo x > new; echo x > file; rm file", sandbox)
    assert result.text.startswith("kept")
    was_held = listing(held.root) == {"file": "kept"}
    await contained(held, "files", was_held, sandbox)


async def test_more_folders_can_be_made_writable(held: Held) -> None:
    sandbox = Sandbox(writable=(str(held.outside),))
    await held.run(f"echo x > {held.outside}/new; echo x > {held.outside}/file", sandbox)
    assert listing(held.outside) == {"new": "x\n", "file": "x\n"}


@pytest.mark.parametrize("change", ["chmod 600", "touch -d 2001-01-01"])
async def test_modes_and_times_outside_stay(held: Held, change: str) -> None:
    file = held.outside / "file"
    file.chmod(0o644)
    before = file.stat()
    await held.run(f"{change} {file}")
    after = file.stat()
    was_held = (before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime)
    await contained(held, "attributes", was_held)


PROTECTED = {
    "hooks that don't exist": (None, "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"),
    "hooks in a repository": (".git/config", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"),
    "the configuration": (".git/config", "echo x > .git/config"),
    "another repository in its place": (
        ".git/config",
        "mv .git old; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    ),
    "another folder that git reads": (".git/config", "mkdir x; echo ../x > .git/commondir"),
    "rules that don't exist": (None, "mkdir .greenroom; echo x > .greenroom/permissions.json"),
    "rules": (".greenroom/permissions.json", "echo x > .greenroom/permissions.json"),
    "a link in place of rules": (None, "mkdir x; ln -s x .greenroom"),
    "settings of another agent": (".claude/settings.json", "echo x > .claude/settings.json"),
    "tasks of an editor": (None, "mkdir .vscode; echo x > .vscode/tasks.json"),
}


@pytest.mark.parametrize("what", PROTECTED)
async def test_what_makes_programs_run_later_stays_as_it_is(held: Held, what: str) -> None:
    existing, command = PROTECTED[what]
    if existing:
        (held.root / existing).parent.mkdir()
        (held.root / existing).write_text("kept")
    before = {path.name: listing(path) for path in held.root.iterdir()}
    await held.run(command)
    after = {path.name: listing(path) for path in held.root.iterdir() if path.name.startswith(".")}
    await contained(held, "protected", after == before)


NESTED = {
    "hooks": "echo x > {repository}/.git/hooks/pre-commit",
    "the repository": "mv {repository}/.git aside; mkdir -p {repository}/.git/hooks",
    "the folder of the repository": "mv {repository} aside; mkdir -p {repository}/.git/hooks",
    "a folder above": "mv sub aside; mkdir -p {repository}/.git/hooks",
    "its removal": "rm -rf {repository}; mkdir -p {repository}/.git/hooks",
}


@pytest.mark.parametrize("repository", ["sub", "sub/more"])
async def test_nested_repositories_stay_as_they_are(held: Held, repository: str) -> None:
    kept = held.root / repository / ".git" / "hooks" / "kept"
    kept.parent.mkdir(parents=True)
    kept.touch()
    identity = kept.stat().st_ino
    for attack in NESTED.values():
        await held.run(attack.format(repository=repository))
    was_held = kept.exists() and kept.stat().st_ino == identity
    await contained(held, "protected", was_held and len(list(kept.parent.iterdir())) == 1)


async def test_around_nested_repositories_all_else_can_be_done(held: Held) -> None:
    (held.root / "sub" / ".git").mkdir(parents=True)
    await held.run("mkdir sub/a; echo x > sub/a/f; mv sub/a/f f; mv f sub/g; rm -r sub/a")
    assert listing(held.root / "sub") == {".git": "-", "g": "x\n"}


async def test_a_nested_repository_can_be_opened_and_one_made_here_is_open(held: Held) -> None:
    (held.root / "sub" / ".git").mkdir(parents=True)
    await held.run("echo x > sub/.git/config", Sandbox(writable=("sub/.git",)))
    assert listing(held.root / "sub" / ".git") == {"config": "x\n"}
    await held.run("mkdir -p made/.git")
    await held.run("echo x > made/.git/config")
    assert listing(held.root / "made" / ".git") == {"config": "x\n"}


async def test_start_up_files_of_a_home_folder_stay_as_they_are(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(held.root))
    (held.root / ".profile").write_text("kept")
    await held.run("echo x > .bashrc; echo x > .profile; mv .profile p; echo x > .zshrc")
    await contained(held, "protected", listing(held.root) == {".profile": "kept"})


async def test_files_that_programs_start_with_stay_as_they_are_and_links_may_stand_beside_them(
    held: Held,
) -> None:
    (held.root / ".envrc").write_text("kept")
    (held.root / "AGENTS.md").write_text("kept")
    (held.root / "CLAUDE.md").symlink_to("AGENTS.md")
    result = await held.run("echo x > .envrc; mv .envrc a; echo x > CLAUDE.md; echo y > made.md")
    kept = {".envrc": "kept", "AGENTS.md": "kept", "CLAUDE.md": "-", "made.md": "y\n"}
    await contained(held, "protected", listing(held.root) == kept)
    if not await held.is_missing("protected"):
        assert "NOT HELD" not in result.text


async def test_a_protected_name_can_be_opened(held: Held) -> None:
    (held.root / ".git").mkdir()
    await held.run("echo x > .git/config", Sandbox(writable=(".git",)))
    assert listing(held.root / ".git") == {"config": "x\n"}


async def test_a_link_in_a_protected_place_is_said_not_to_be_held(held: Held) -> None:
    (held.root / "real").mkdir()
    (held.root / ".git").symlink_to("real")
    result = await held.run("true")
    assert "protected" in result.text.partition("NOT HELD")[2]


@pytest.mark.parametrize("move", ["mv secret moved", "ln secret moved"])
async def test_what_can_be_moved_is_not_read_under_its_new_name_or_that_is_said(
    held: Held, move: str
) -> None:
    (held.root / "secret").write_text("TOP SECRET")
    hiding = Sandbox(deny_read=("secret",))
    moving = await held.run(move, hiding)
    reading = await held.run("cat moved", hiding)
    told = "hidden" in moving.text.partition("NOT HELD")[2]
    assert told == (held.tier != "bubblewrap")
    assert told or "TOP SECRET" not in reading.text


async def test_where_the_repository_lies_elsewhere_stays_as_it_is(held: Held) -> None:
    """As in a worktree, where `.git` is a file that says so."""
    (held.root / ".git").write_text("kept")
    await held.run("echo gitdir: evil > .git; mv .git other; rm .git; mkdir .git")
    was_held = (held.root / ".git").is_file() and (held.root / ".git").read_text() == "kept"
    await contained(held, "protected", was_held)


GIT = "git -c user.name=me -c user.email=me@here -c init.defaultBranch=main"


async def test_repositories_can_be_read_and_written_where_they_are_opened(held: Held) -> None:
    opened = Sandbox(writable=(".git",))
    (held.root / ".git").mkdir()
    done = await held.run(f"{GIT} init && touch a && {GIT} add a && {GIT} commit -m one", opened)
    assert not done.is_error, done.text
    result = await held.run("echo x > a; git status --short; git log --format=%s; git diff --stat")
    assert result.text.startswith(" M a\none\n a | 1 +")


async def test_the_repository_above_the_workspace_is_still_found(held: Held) -> None:
    process = await trio.run_process(
        ["git", "init", str(held.outside)], capture_stdout=True, capture_stderr=True
    )
    assert process.returncode == 0
    below = held.outside / "below"
    below.mkdir()
    held.context.workspace = Workspace(below)
    result = await held.run("git rev-parse --show-toplevel")
    assert result.text.splitlines()[0] == str(below.parent)


READS = {
    "a file": "cat {hidden}/secret",
    "through a link": "ln -s {hidden}/secret way; cat way",
    "a copy": "cp {hidden}/secret here; cat here",
    "a rename": "mv {hidden}/secret here; cat here",
    "a hard link": "ln {hidden}/secret here; cat here",
    "through the root of a process": "cat /proc/self/root{hidden}/secret",
    "all names": "ls {hidden}; find {hidden}; cat {hidden}/*",
    "another way up": "cat $(realpath --relative-to=. {hidden})/secret",
}


@pytest.mark.parametrize("place", ["outside", "inside"])
@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_is_hidden_is_not_read(held: Held, what: str, place: str) -> None:
    folder = held.outside if place == "outside" else held.root
    denied = []
    command = f"cat {folder}/open\n"
    for number, attack in enumerate(READS.values()):
        hidden = folder / f"hidden-{number}"
        hidden.mkdir()
        (hidden / "secret").write_text(f"sesame {number}\n")
        denied.append(str(hidden if what == "folder" else hidden / "secret"))
        command += f"(mkdir {number}; cd {number}; {attack.format(hidden=hidden)})\n"
    (folder / "open").write_text("open\n")
    sandbox = Sandbox(deny_read=tuple(denied))
    result = await held.run(command, sandbox)
    assert result.text.startswith("open")
    read = [way for number, way in enumerate(READS) if f"sesame {number}\n" in result.text]
    assert read == ([*READS] if await held.is_missing("hidden", sandbox) else [])


async def test_a_workspace_in_a_hidden_folder_can_be_used(held: Held) -> None:
    (held.root.parent / "secret").write_text("sesame")
    sandbox = Sandbox(deny_read=("..",))
    result = await held.run("echo x > f; cat f; cat ../secret; ls ..", sandbox)
    assert result.text.startswith("x\n")
    await contained(held, "hidden", "sesame" not in result.text, sandbox)
    # Not even the way down to the workspace is shown.
    listed = (await held.run("ls ..", sandbox)).text.splitlines()
    await contained(held, "hidden", held.root.name not in listed, sandbox)


async def test_the_names_in_a_hidden_folder_are_not_listed(held: Held) -> None:
    hidden = held.outside / "hidden"
    (hidden / "below").mkdir(parents=True)
    (hidden / "below" / "name-of-a-secret").touch()
    sandbox = Sandbox(deny_read=(str(hidden),))
    result = await held.run(f"ls -R {hidden}; find {hidden}; ls {hidden}/below; true", sandbox)
    await contained(held, "hidden", "name-of-a-secret" not in result.text, sandbox)


CONNECT = """
import socket, sys
kind, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if "6" in kind else socket.AF_INET
address = "::1" if "6" in kind else "127.0.0.1"
client = socket.socket(family, socket.SOCK_DGRAM if "udp" in kind else socket.SOCK_STREAM)
client.settimeout(5)
if "udp" in kind:
    client.sendto(b"out", (address, port))
else:
    client.connect((address, port))
print("connected")
"""


@pytest.mark.parametrize("kind", ["tcp", "udp", "tcp6", "udp6"])
@pytest.mark.parametrize("network", ["none", "all"])
async def test_the_network_is_reached_only_where_it_is_open(
    held: Held, kind: str, network: str
) -> None:
    (held.root / "connect.py").write_text(CONNECT)
    family = socket.AF_INET6 if "6" in kind else socket.AF_INET
    type_ = socket.SOCK_DGRAM if "udp" in kind else socket.SOCK_STREAM
    with socket.socket(family, type_) as listener:
        listener.bind(("::1" if "6" in kind else "127.0.0.1", 0))
        listener.settimeout(0)
        if "tcp" in kind:
            listener.listen()
        port = listener.getsockname()[1]
        sandbox = Sandbox(network=network)  # type: ignore[arg-type]
        await held.run(f"{PYTHON} connect.py {kind} {port}", sandbox)
        try:
            listener.recv(10) if "udp" in kind else listener.accept()[0].close()
            reached = True
        except BlockingIOError:
            reached = False
    await contained(held, "network", not reached, sandbox)
    assert reached or network == "none"


async def test_sockets_of_odd_families_are_refused(held: Held) -> None:
    families = "40 17 38 31"  # machines outside, packets, ciphers, Bluetooth
    script = """
import socket, sys
for f in sys.argv[1:]:
    try:
        socket.socket(int(f), 3 if f == '17' else 1)
        print('opened')
    except OSError as e:
        print(e.errno)
"""
    (held.root / "odd.py").write_text(script)
    result = await held.run(f"{PYTHON} odd.py {families}", Sandbox(network="all"))
    await contained(held, "syscalls", "opened" not in result.text)


@pytest.mark.parametrize("place", ["outside", "inside", "abstract"])
@pytest.mark.parametrize("network", ["none", "all"])
async def test_no_program_outside_is_asked_over_a_unix_socket(
    held: Held, place: str, network: str, root: Path
) -> None:
    sandbox = Sandbox(network=network)  # type: ignore[arg-type]
    folder = {"outside": held.outside, "inside": root}.get(place)
    name = f"\0greenroom-{os.getpid()}" if folder is None else str(folder / "service")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        listener.settimeout(0)
        script = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({name!r})\n"
        (held.root / "ask.py").write_text(script)
        await held.run(f"{PYTHON} ask.py", sandbox)
        try:
            listener.accept()[0].close()
            reached = True
        except BlockingIOError:
            reached = False
    if network == "none":
        await contained(held, "services", not reached)
    else:  # by some ways or others
        assert await held.is_missing("services", sandbox)
        assert reached or place == "abstract"


async def test_the_loopback_of_a_network_of_its_own_can_be_used(held: Held) -> None:
    script = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    client = socket.create_connection(server.getsockname())
    server.accept()[0].sendall(b"inside")
    print(client.recv(10).decode())
ours, theirs = socket.socketpair()
"""
    (held.root / "both.py").write_text(script)
    report = await held.report()
    result = await held.run(f"{PYTHON} both.py")
    has_own = report.enforced.get("network") in (None, "network namespace")
    assert result.text.startswith("inside") == has_own


async def test_no_process_outside_is_signalled(held: Held) -> None:
    is_missing = await held.is_missing("signals")
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, ["sleep", "600"], check=False)
        victim = await nursery.start(start)
        await held.run(f"kill -USR1 {victim.pid}; true")
        if is_missing:
            assert await victim.wait() == -signal.SIGUSR1
        assert is_missing or victim.poll() is None
        nursery.cancel_scope.cancel()


async def test_root_has_no_rights_beyond_those_of_its_files(held: Held) -> None:
    result = await held.run("grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status; mknod disk b 8 0")
    rights = [line.split()[1] for line in result.text.splitlines() if line.startswith("Cap")]
    assert len(rights) == 3
    if (await held.report()).tier != "limits":
        assert set(rights[:2]) == {"0" * 16}
        assert not (held.root / "disk").exists()


async def test_devices_are_those_that_anybody_needs(held: Held) -> None:
    tier = (await held.report()).tier
    # Bubblewrap has terminals of its own; to others they would be those of the machine.
    opened = (await held.run("(exec 9<> /dev/null); (exec 8<> /dev/ptmx) && echo opened")).text
    assert ("opened" in opened.split("\n")[0]) == (tier != "landlock")
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    if disks and tier != "limits":
        assert (await held.run(f"head -c 1 {disks[0]}")).is_error


LOOKS = {
    "its environment": "tr '\\0' '\\n' < /proc/{pid}/environ | grep -c HOME",
    "its memory": "cat /proc/{pid}/maps | grep -c .",
    "its files": "ls -l /proc/{pid}/fd | grep -c -e '->'",
    "its root": "ls /proc/{pid}/root | grep -c .",
}


async def test_no_process_outside_is_looked_into(held: Held) -> None:
    command = "\n".join(f"{look} 2>&1" for look in LOOKS.values()).format(pid=os.getpid())
    result = await held.run(command)
    seen = [line for line in result.text.splitlines() if line.isdigit() and int(line)]
    assert len(seen) == (0 if (await held.report()).tier != "limits" else len(LOOKS))


async def test_shared_memory_is_private_or_refused_wherever_files_are_held(held: Held) -> None:
    path = Path(f"/dev/shm/greenroom-{os.getpid()}")
    result = await held.run(f"echo x > {path} && df --output=size -B1 /dev/shm | tail -1")
    is_shared = path.exists()
    path.unlink(missing_ok=True)
    assert is_shared == await held.is_missing("files")
    if (await held.report()).tier == "bubblewrap":
        assert result.text.split()[0] == str(1 << 30)


async def test_bubblewrap_shows_no_other_processes(held: Held) -> None:
    result = await held.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    ours = Path("/proc/self/cmdline").read_bytes().decode().split("\0")
    is_seen = " ".join(ours).strip() in result.text
    assert is_seen == ((await held.report()).tier != "bubblewrap")


async def test_settings_of_the_system_stay(held: Held) -> None:
    settings = (
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/kernel/core_pattern",
        "/proc/self/comm",
    )
    # Each is opened only: a test must not change the machine that it runs on.
    command = "\n".join(f"(exec 9>> {each}) && echo opened {each}" for each in settings)
    opened = [line for line in (await held.run(command)).text.splitlines() if "opened" in line]
    assert not opened or await held.is_missing("files")


CALLS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(result):
    print("refused" if result < 0 and ctypes.get_errno() in (1, 38) else "done")
tried(libc.ptrace(0, 0, None, None))
tried(libc.unshare(0x10000000))
tried(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
tried(libc.syscall(ctypes.c_long({keyctl}), 0, -3, 0))
tried(libc.syscall(ctypes.c_long(425), 1, ctypes.create_string_buffer(120)))
tried(libc.ioctl(0, 0x5412, b"x"))
"""


async def test_the_calls_that_sandboxes_are_broken_with_are_refused(held: Held) -> None:
    keyctl = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    (held.root / "calls.py").write_text(CALLS.replace("{keyctl}", str(keyctl)))
    result = await held.run(f"{PYTHON} calls.py")
    await contained(held, "syscalls", result.text.split("[")[0].split() == ["refused"] * 6)


BOMB = """
import os
started = 0
while started < 200:
    try:
        if os.fork() == 0:
            import time
            time.sleep(600)
            os._exit(0)
    except OSError:
        break
    started += 1
print("started", started)
"""


async def test_processes_without_end_are_bounded(held: Held) -> None:
    (held.root / "bomb.py").write_text(BOMB)
    sandbox = Sandbox(limits=ProcessLimits(processes=20))
    result = await held.run(f"{PYTHON} bomb.py", sandbox)
    started = int(result.text.split()[1])
    folders = [folder for _, folder in CgroupPlaces.find().folders]
    assert not [each for folder in folders for each in folder.glob(f"greenroom-{os.getpid()}-*")]
    await contained(held, "processes", started <= 20, sandbox)
    assert started in (*range(10, 21), 200)


async def test_memory_is_bounded(held: Held) -> None:
    sandbox = Sandbox(limits=ProcessLimits(memory_megabytes=100))
    command = f"{PYTHON} -c 'print(len(bytearray(300 * 2**20)))'"
    result = await held.run(command, sandbox)
    await contained(held, "memory", result.is_error, sandbox)
    assert "100 MB of memory" in result.text


async def test_the_size_of_a_file_is_bounded(held: Held) -> None:
    sandbox = Sandbox(limits=ProcessLimits(file_megabytes=1))
    await held.run("head -c 3000000 /dev/zero > long", sandbox)
    size = (held.root / "long").stat().st_size
    await contained(held, "file_size", size <= 1 << 20, sandbox)


async def test_processor_time_is_bounded(held: Held) -> None:
    sandbox = Sandbox(limits=ProcessLimits(cpu_seconds=1))
    result = await held.run("while :; do :; done", sandbox)
    assert result.metadata["exit_code"] in (-signal.SIGXCPU, 128 + signal.SIGXCPU)
    await contained(held, "cpu", True, sandbox)


async def test_all_files_together_are_bounded_in_the_mode_read_only_alone(held: Held) -> None:
    sandbox = Sandbox("read-only")
    result = await held.run("df --output=size -B1 $TMPDIR | tail -1", sandbox)
    size = int(result.text.split()[0])
    await contained(held, "disk", size == 1 << 30, sandbox)
    assert await held.is_missing("disk", Sandbox())


async def test_a_daemon_does_not_stay(held: Held) -> None:
    mark = f"600.{int.from_bytes(os.urandom(6), 'big')}"
    await held.run(f"(setsid sleep {mark} &); nohup sleep {mark} > /dev/null 2>&1 & sleep 0.1")
    assert not list(marked(mark))


@pytest.mark.parametrize("end", ["a cancel", "the time-out"])
async def test_the_end_of_the_call_ends_all_of_it(
    held: Held, end: str, monkeypatch: pytest.MonkeyPatch, outside: Path
) -> None:
    mark = f"600.{int.from_bytes(os.urandom(6), 'big')}"
    place = outside / "place"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    begun = trio.Event()
    monkeypatch.setattr(
        held.context, "on_progress", lambda _, text: begun.set() if "begun" in text else None
    )
    context = held.context.with_tool_use_id("t")
    command = f"setsid sleep {mark} & (trap '' TERM; sleep {mark}; true) & echo begun; wait"

    async def run() -> None:
        timeout = 600_000 if end == "a cancel" else 1_500
        tool = Bash(sandbox=Sandbox())
        await tool.execute({"command": command, "timeout": timeout}, context)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await begun.wait()
            assert len(marked(mark)) >= 2
            if end == "a cancel":
                nursery.cancel_scope.cancel()
    assert not marked(mark)
    assert not list(held.root.iterdir())
    assert not list(place.iterdir())
