"""Confinements: one command is held to a policy from before it starts until it has ended."""

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TypeAlias

import msgspec
import trio
from msgspec.structs import replace

from greenroom.core import ToolError, Workspace
from greenroom.core._internal import SandboxReport, serde
from greenroom.sandbox import enforce
from greenroom.sandbox.cgroup import Cgroup
from greenroom.sandbox.policy import Sandbox
from greenroom.sandbox.process import Cleanup, Confinement, no_cleanup, our_python
from greenroom.sandbox.report import Mechanisms, check_required, report_in_place
from greenroom.sandbox.resolved_policy import PolicyPaths, User
from greenroom.sandbox.seccomp import ADDRESS_FAMILIES, USUAL_FAMILIES, seccomp_filter
from greenroom.sandbox.temporary_files import Placeholders, TemporaryFolder
from greenroom.sandbox.wrappers import TEMPORARY, bubblewrap_command, seatbelt_profile
from greenroom.threads._internal import FileThreads

in_thread = FileThreads("sandbox", 8).run
"""Runs a function that reads or writes the disk for a confinement."""

_CLEANUP_GRACE = 3.0
_MEGABYTE = 1 << 20
_BUBBLEWRAP_PROCESSES = 2
"""One waits outside, and one reaps children inside."""

_FOR_ANOTHER_USER = (sys.prefix, sys.base_prefix, sys.executable, enforce.__file__)
"""Must be readable inside to become another user."""

_Wrapping: TypeAlias = tuple[list[str], dict[str, object]]

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@contextmanager
def translate_setup_errors() -> Iterator[None]:
    """Turn an `OSError` into a `ToolError` that says what it was about."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"the sandbox could not be set up: {error}") from error


@asynccontextmanager
async def open_confinement(
    sandbox: Sandbox,
    mechanisms: Mechanisms,
    report: SandboxReport,
    workspace: Workspace,
    *,
    user: User | None = None,
    readable: Sequence[str] = (),
    ignores_termination: bool = False,
    cleanup: Cleanup = no_cleanup,
) -> AsyncIterator[Confinement]:
    """Set up everything that holds a command to a policy, and remove it at the end.

    Args:
        sandbox: the policy.
        mechanisms: what enforces it on this machine.
        report: which parts of it are held.
        workspace: where the command works.
        user: the user who runs the command, or None for ourselves.
        readable: files and folders that the command must be able to read, whatever is hidden.
        ignores_termination: whether the processes around the command ignore SIGTERM.
        cleanup: opens the scope for the clean-up, as `AgentContext.cleanup` does.

    Raises:
        ToolError: it can't be set up.
    """
    with_user = tuple(readable) if user is None else (*readable, *_FOR_ANOTHER_USER)
    maker = _Maker(sandbox, mechanisms, report, workspace, user, with_user, ignores_termination)
    try:
        yield await in_thread(maker.make)
    finally:
        with cleanup(_CLEANUP_GRACE) as scope:
            with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
                # If a folder takes longer to remove, its removal goes on.
                await trio.to_thread.run_sync(maker.cleanup_stack.close, abandon_on_cancel=True)


class _Maker(msgspec.Struct):
    """Makes one confinement; `cleanup_stack` removes what it put on disk."""

    sandbox: Sandbox
    mechanisms: Mechanisms
    report: SandboxReport
    workspace: Workspace
    user: User | None
    readable: tuple[str, ...]
    ignores_termination: bool
    cleanup_stack: ExitStack = msgspec.field(default_factory=ExitStack)
    environment: dict[str, str] = msgspec.field(default_factory=dict)

    def make(self) -> Confinement:
        is_bubblewrap = self.mechanisms.tier == "bubblewrap"
        with translate_setup_errors():
            paths = PolicyPaths.of(self.sandbox, self.workspace, self.readable)
            self.report = report_in_place(self.report, self.sandbox, paths)
            check_required(self.sandbox, self.report)
            temporary = TemporaryFolder.make()
            self.cleanup_stack.callback(temporary.remove)
            cgroup = self._make_cgroup()
            around, specification = self._wrap(paths, temporary.path)
            if self.user and not is_bubblewrap:  # bubblewrap has a folder of its own
                temporary.give(self.user.uid, self.user.gid)
        specification.update(self._describe_limits(cgroup))
        text = serde.dumps(specification).decode()
        prefix = [*our_python("-I", "-S", enforce.__file__, text), *around]
        if self.user:
            folder = paths.cwd if is_bubblewrap else ""
            ids = (str(self.user.uid), str(self.user.gid))
            prefix += our_python("-I", "-S", enforce.__file__, "--become", *ids, folder)
        return Confinement(tuple(prefix), self.environment, self.report, is_bubblewrap)

    def _make_cgroup(self) -> Cgroup:
        limits, inside = self.sandbox.limits, self.mechanisms.tier == "bubblewrap"
        cgroup = Cgroup.make(
            self.mechanisms.cgroups,
            memory_megabytes=limits.memory_megabytes,
            processes=limits.processes and limits.processes + _BUBBLEWRAP_PROCESSES * inside,
        )
        self.cleanup_stack.callback(cgroup.remove)
        return cgroup

    def _describe_limits(self, cgroup: Cgroup) -> dict[str, object]:
        asked, counted = self.sandbox.limits, dict(self.mechanisms.cgroups.folders)
        limits = {
            "RLIMIT_CPU": asked.cpu_seconds,
            "RLIMIT_FSIZE": asked.file_megabytes and asked.file_megabytes * _MEGABYTE,
        }
        if "memory" not in counted:
            limits["RLIMIT_AS"] = asked.memory_megabytes and asked.memory_megabytes * _MEGABYTE
        # Without a control group, all other processes of the user count as well.
        counts_all = "processes" in self.report.enforced and "pids" not in counted
        return {
            "user": [self.user.uid, self.user.gid] if self.user else [],
            "cgroups": cgroup.members,
            "limits": {name: value for name, value in limits.items() if value},
            "more_processes": asked.processes or 0 if counts_all else 0,
            "ignores_termination": self.ignores_termination,
        }

    def _wrap(self, paths: PolicyPaths, temporary: str) -> _Wrapping:
        """Return the words between `enforce` and the command, and `enforce`'s specification."""
        match self.mechanisms.tier:
            case "bubblewrap":
                return self._wrap_in_bubblewrap(paths, temporary)
            case "landlock":
                return self._wrap_in_landlock(paths, temporary)
            case "seatbelt":
                profile = seatbelt_profile(paths, temporary, network=self._has_network)
                self._set_temporary(temporary)
                return [self.mechanisms.program, "-p", profile], {}
            case "limits":
                self._set_temporary(temporary)
                return [], {"filter": self._make_filter(())}

    @property
    def _has_network(self) -> bool:
        return self.sandbox.network == "all"

    def _set_temporary(self, folder: str) -> None:
        self.environment = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), folder)
        if self.user:
            self.environment.update(self.user.environment(folder))

    def _make_filter(self, families: tuple[int, ...], *, guards_processes: bool = False) -> str:
        """Return the filter in hexadecimal; without network, it allows only these families."""
        if not self.mechanisms.has_filter:
            return ""
        allowed = USUAL_FAMILIES if self._has_network else families
        return (seccomp_filter(allowed, guards_processes=guards_processes) or b"").hex()

    def _wrap_in_bubblewrap(self, paths: PolicyPaths, temporary: str) -> _Wrapping:
        unreadable = os.path.join(temporary, "unreadable")
        os.close(os.open(unreadable, os.O_CREAT | os.O_EXCL, 0))
        self.cleanup_stack.callback(Placeholders.hold(paths.protected).release)
        # If we may not make one, the command may not either.
        protected = tuple(filter(os.path.exists, paths.protected))
        self._set_temporary(TEMPORARY)
        command = bubblewrap_command(
            self.mechanisms.program,
            replace(paths, protected=protected),
            unreadable=unreadable,
            network=self._has_network,
            has_filter=self.mechanisms.has_filter,
            becomes_user=self.user is not None,
        )
        # A network namespace has a loopback of its own, which reaches nothing outside.
        calls = self._make_filter(ADDRESS_FAMILIES)
        return command, {"passes_filter": True, "filter": calls}

    def _wrap_in_landlock(self, paths: PolicyPaths, temporary: str) -> _Wrapping:
        self._set_temporary(temporary)
        rules = {
            "read": ["/", *paths.writable, *paths.readable],
            "write": [*paths.writable, temporary],
            "devices": [f"/dev/{name}" for name in _DEVICES],
            "hidden": ["/dev", *paths.hidden],
        }
        return [], {
            "landlock": rules,
            "lists": not paths.hidden,
            "scopes": self.mechanisms.scopes,
            "drops_capabilities": True,
            # Landlock keeps signals inside, and nothing else that a process can do to another one.
            "filter": self._make_filter((), guards_processes=self.mechanisms.scopes),
        }
