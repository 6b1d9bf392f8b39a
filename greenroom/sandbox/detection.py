"""Detection: try every way to confine commands on this machine, and use the best that works."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path

import trio
from msgspec.structs import replace

from greenroom.core import ToolError, Workspace
from greenroom.core._internal import SandboxPart, SandboxReport, serde
from greenroom.sandbox import enforce, probe
from greenroom.sandbox.cgroup import CgroupPlaces
from greenroom.sandbox.confinement import (
    in_thread,
    open_confinement,
    translate_setup_errors,
)
from greenroom.sandbox.policy import ProcessLimits, Sandbox
from greenroom.sandbox.process import (
    Cleanup,
    Confinement,
    Exit,
    clean_environment,
    no_cleanup,
    our_python,
    run_contained,
)
from greenroom.sandbox.report import (
    Mechanisms,
    check_required,
    report_as_root,
    report_as_user,
    report_in_place,
    report_on,
)
from greenroom.sandbox.resolved_policy import PolicyPaths, User, UserProbe
from greenroom.sandbox.seccomp import seccomp_filter
from greenroom.sandbox.temporary_files import remove_stale
from greenroom.sandbox.wrappers import SANDBOX_EXEC

# Theory of operation
#
# Versions do not tell what holds on a machine, since containers and kernels contradict them; so it
# is tried. `list_candidates` lists the ways to confine a command, the best first: bubblewrap,
# Landlock, limits only; Seatbelt on macOS. In each, `probe` runs as any command would, under a
# policy that asks for everything that one command can test. It attempts everything that should be
# refused: on a folder outside, a hidden file, a socket and a process of ours. It answers with the
# parts for which every attempt failed. What should work must work; otherwise the way is passed
# over, as it is if the probe takes more than 20 seconds or leaves a process. The report says why.
#
# There are three reports, and each can only take away from the one before:
#
#     report_on         this machine: the way that works, and the parts that it held. Found once in
#                       this process; a cancelled search starts again, and two tasks may both search
#     report_as_user,   this workspace, if we are root: whether its owner can run commands there.
#     report_as_root    Kept for each user and place, unless the load of the machine may have failed
#                       the probe. There is one probe at a time, since the limit that it tests
#                       counts all processes of a user
#     report_in_place   this call: symbolic links in protected places, hard links to hidden files
#
# So if a policy requires a part, nothing runs unless that part was seen to hold. Between the report
# of a call and its command, only another program can change what was looked at.
#
# A kill leaves the folder of a probe or a command behind. Those of commands are locked while their
# process lives, and the first detection of another process removes those without a lock.

_SCOPES_VERSION = 6
"""The version of Landlock that keeps abstract Unix sockets and signals inside."""


def list_candidates() -> Iterator[Mechanisms]:
    """List the ways that this machine may offer, the best first. Reads the disk."""
    if sys.platform == "darwin" and os.path.exists(SANDBOX_EXEC):
        yield Mechanisms("seatbelt", SANDBOX_EXEC)
    if not sys.platform.startswith("linux"):
        yield Mechanisms("limits")
        return
    has_filter = seccomp_filter(()) is not None
    cgroups = CgroupPlaces.find()
    version = enforce.landlock_version()
    scopes = version >= _SCOPES_VERSION
    bubblewrap = shutil.which("bwrap")
    absent: dict[str, str] = {}
    if bubblewrap:
        yield Mechanisms("bubblewrap", bubblewrap, has_filter, scopes, cgroups)
    else:
        absent["bubblewrap"] = "the program bwrap is not installed"
    if version:
        yield Mechanisms("landlock", "", has_filter, scopes, cgroups, why=absent)
    else:
        absent["landlock"] = "this kernel does not offer it"
    yield Mechanisms("limits", "", has_filter, False, cgroups, why=absent)


_PROBE_SECONDS = 20.0
_PROBE_PROCESSES = 10
_TOO_LONG = "the probe took longer than"
_MAX_REASON = 300
_MAX_KEPT = 100
"""Places for which it is remembered whether another user can run commands there."""

# Not in /tmp, which bubblewrap hides: in here its other means have to hold.
_PROBE_FOLDERS = ("/var/tmp", "/dev/shm")  # noqa: S108

_mechanisms: list[Mechanisms] = []
_probes: trio.lowlevel.RunVar[trio.Lock] = trio.lowlevel.RunVar("sandbox probes")


async def examine_sandbox(
    sandbox: Sandbox, workspace: Workspace | None = None, *, readable: Sequence[str] = ()
) -> SandboxReport:
    """Report which parts of a policy hold on this machine, or in a workspace on it.

    The first call in a process tries what there is, in a few short processes; later calls reuse the
    answer. If we are root, the first call for a workspace also tries whether another user can run
    commands there.

    Args:
        sandbox: the policy.
        workspace: where a command works.
        readable: files and folders that the command must be able to read.

    Raises:
        ToolError: the policy's paths can't be resolved in the workspace.

    Example:
        >>> import trio
        >>> report = trio.run(examine_sandbox, Sandbox("read-only"))
        >>> "cpu" in report.enforced
        True
    """
    if workspace is None:
        return report_on(sandbox, await _find_mechanisms())
    with translate_setup_errors():
        report, _ = await _choose_user(sandbox, workspace, readable)
        paths = await in_thread(lambda: PolicyPaths.of(sandbox, workspace))
    return report_in_place(report, sandbox, paths)


def confine(
    sandbox: Sandbox | None,
    workspace: Workspace,
    *,
    readable: Sequence[str] = (),
    ignores_termination: bool = False,
    cleanup: Cleanup = no_cleanup,
) -> AbstractAsyncContextManager[Confinement]:
    """Hold one command to a policy while the block is open; put the prefix before the command.

    Args:
        sandbox: the policy; None for no confinement.
        workspace: where the command works.
        readable: files and folders that the command must be able to read, whatever is hidden.
        ignores_termination: whether the processes around the command ignore SIGTERM.
        cleanup: opens the scope for the clean-up, as `AgentContext.cleanup` does.

    Raises:
        SandboxUnavailableError: the policy requires a part that is not held here.
        ToolError: the workspace is gone, or the disk refuses.
    """
    if sandbox is None:  # by far the usual case
        return nullcontext(Confinement())
    return _confine(sandbox, workspace, readable, ignores_termination, cleanup)


@asynccontextmanager
async def _confine(
    sandbox: Sandbox,
    workspace: Workspace,
    readable: Sequence[str],
    ignores_termination: bool,
    cleanup: Cleanup,
) -> AsyncIterator[Confinement]:
    with translate_setup_errors():
        report, user = await _choose_user(sandbox, workspace, readable)
    check_required(sandbox, report)
    async with open_confinement(
        sandbox,
        await _find_mechanisms(),
        report,
        workspace,
        user=user,
        readable=readable,
        ignores_termination=ignores_termination,
        cleanup=cleanup,
    ) as confinement:
        yield confinement


def list_python_files() -> tuple[str, ...]:
    """List the files of this Python, which our own processes need, wherever they are."""
    places = (sys.prefix, sys.base_prefix, sys.executable, *sys.path)
    return tuple(dict.fromkeys(each for each in places if os.path.isabs(each)))


async def _find_mechanisms() -> Mechanisms:
    if not _mechanisms:
        _mechanisms.append(await _detect())
    return _mechanisms[0]


async def _choose_user(
    sandbox: Sandbox, workspace: Workspace, readable: Sequence[str]
) -> tuple[SandboxReport, User | None]:
    """Choose who runs a command, None for ourselves, and report what is held then."""
    way = await _find_mechanisms()
    report = report_on(sandbox, way)
    is_lacking = "processes" in report.lacking and sandbox.limits.processes is not None
    asked = await in_thread(
        lambda: UserProbe.of(sandbox, workspace, readable, limits_processes=is_lacking)
    )
    if asked is None:
        return report, None
    held = await _try_as(way, asked)
    if isinstance(held, str):
        return report_as_root(report, asked.user, held), None
    less = _find_missing(way, held)
    if less:
        return report_as_root(report, asked.user, f"{', '.join(sorted(less))} not held"), None
    return report_as_user(report, sandbox, asked.user), asked.user


async def _try_as(way: Mechanisms, asked: UserProbe) -> frozenset[SandboxPart] | str:
    """Find what is held as another user; the answer is kept unless a later one may be better."""
    if asked in way.user_probes:
        return way.user_probes[asked]
    # One at a time: the limit that is tested counts all processes of the user together.
    async with _lock_probes():
        if asked in way.user_probes:
            return way.user_probes[asked]
        held = await _try_way(way, asked)
        if not _may_be_load(way, held):
            if len(way.user_probes) >= _MAX_KEPT:
                way.user_probes.clear()
            way.user_probes[asked] = held
        return held


def _lock_probes() -> trio.Lock:
    try:
        return _probes.get()
    except LookupError:
        lock = trio.Lock()
        _probes.set(lock)
        return lock


def _may_be_load(way: Mechanisms, held: frozenset[SandboxPart] | str) -> bool:
    """Return whether a probe may have failed because of the load of the machine."""
    if isinstance(held, str):
        return held.startswith(_TOO_LONG)
    return _find_missing(way, held) == {"processes"}


def _find_missing(way: Mechanisms, held: frozenset[SandboxPart]) -> set[SandboxPart]:
    """Name the parts that should be held as another user, but are not."""
    return {*way.held_parts, "processes"} - held


async def _detect() -> Mechanisms:
    """Try one way after another until one works."""
    why: dict[str, str] = {}
    # There may be much to remove, so a cancel does not wait for it.
    await trio.to_thread.run_sync(remove_stale, abandon_on_cancel=True)
    ways = await in_thread(lambda: list(list_candidates()))
    for way in ways:
        held = await _try_way(way)
        if isinstance(held, frozenset):
            return replace(way, held_parts=held, why={**way.why, **why})
        why[way.tier] = held
    return replace(ways[-1], why=why)


async def _try_way(way: Mechanisms, other: UserProbe | None = None) -> frozenset[SandboxPart] | str:
    """Run the probe in one way, as another user if one is given.

    Returns:
        The parts that were held, or why it did not work.
    """
    output: list[bytes] = []
    stack = ExitStack()
    try:
        ended = await _run_probe(way, other, stack, output)
    except (OSError, ToolError) as error:
        return str(error)
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(stack.close)
    if ended.timed_out:
        return f"{_TOO_LONG} {_PROBE_SECONDS:g} s"
    if ended.has_survivors:
        return "what the probe started could not be ended"
    text = b"".join(output).decode(errors="replace").strip()
    if ended.code != 0:
        return text[-_MAX_REASON:] or f"the probe ended with code {ended.code}"
    return _read_answer(text)


async def _run_probe(
    way: Mechanisms, other: UserProbe | None, stack: ExitStack, output: list[bytes]
) -> Exit:
    asked, sandbox, workspace = await in_thread(lambda: _prepare_probe(stack, other))
    report, readable = report_on(sandbox, way), [probe.__file__, *list_python_files()]
    user = other.user if other else None
    if other:
        report = report_as_user(report, sandbox, other.user)
        readable += other.read
    confinement = open_confinement(sandbox, way, report, workspace, user=user, readable=readable)
    async with confinement as held:
        questions = serde.dumps(asked).decode()
        command = ["--run"] if user else our_python("-I", "-S")
        return await run_contained(
            [*held.prefix, *command, probe.__file__, questions],
            cwd=workspace.root,
            # Another user's programs could read the whole one.
            environment={**clean_environment(os.environ), **held.environment},
            on_output=output.append,
            timeout=_PROBE_SECONDS,
        )


def _read_answer(text: str) -> frozenset[SandboxPart] | str:
    try:
        return frozenset(serde.decode(text.rpartition("\n")[2], tuple[SandboxPart, ...]))
    except serde.InvalidJSONError:
        return f"the probe gave no answer: {text[-_MAX_REASON:]}"


def _prepare_probe(
    stack: ExitStack, other: UserProbe | None
) -> tuple[dict[str, str], Sandbox, Workspace]:
    """Make the folders, files and sockets that a probe tries to reach."""
    usable = (each for each in _PROBE_FOLDERS if os.access(each, os.W_OK))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=next(usable, None))))
    inside, outside = folder / "inside", folder / "outside"
    for path in (inside / ".vscode", outside):
        path.mkdir(parents=True)
    for path in (outside / "file", outside / "kept", outside / "hidden"):
        path.write_text("kept")
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(outside / "socket"))
    listener.listen()
    asked = {
        "inside": str(inside),
        "outside": str(outside),
        "protected": str(inside / ".vscode"),
        "hidden": str(outside / "hidden"),
        "socket": str(outside / "socket"),
        "pid": str(os.getpid()),
        "net": _read_namespace("net"),
    }
    asked["pid_namespace"] = _read_namespace("pid")
    if other:
        asked["processes"] = str(_PROBE_PROCESSES)
        asked["read"], asked["write"] = "\0".join(other.read), "\0".join(other.write)
        _give(folder, other.user)
    return asked, probe_policy(asked["hidden"]), Workspace(inside)


def _give(folder: Path, user: User) -> None:
    """Give a user the folder of a probe, the deepest first."""
    # Until the folder itself is given away, only root can reach it, so nobody puts a link into it.
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


def probe_policy(hidden: str) -> Sandbox:
    """Return the policy for a probe: it asks for everything that one command can test."""
    limits = ProcessLimits(cpu_seconds=60, processes=_PROBE_PROCESSES)
    return Sandbox(deny_read=(hidden,), limits=limits)


def _read_namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return ""
