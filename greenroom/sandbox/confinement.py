"""A confinement: what one command is held to, from before it starts until it has ended."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import trio

from greenroom.core import SandboxReport, ToolError, Workspace, serde
from greenroom.sandbox import enforce
from greenroom.sandbox.cgroup import Cgroup
from greenroom.sandbox.policy import Sandbox
from greenroom.sandbox.process import Cleanup, no_cleanup, our_python
from greenroom.sandbox.report import Mechanisms, check_required, in_place
from greenroom.sandbox.resolved_policy import Ground, User
from greenroom.sandbox.seccomp import ADDRESS_FAMILIES, USUAL_FAMILIES, seccomp_filter
from greenroom.sandbox.temporary import Placeholders, TemporaryFolder
from greenroom.sandbox.wrappers import TEMPORARY, bubblewrap_command, seatbelt_profile
from greenroom.threads import FileThreads

in_thread = FileThreads("sandbox", 8).run
"""Does what a confinement needs on the disk."""

_CLEANUP_GRACE = 3.0
_MEGABYTE = 1 << 20
_SIGNALLED = 128
_BUBBLEWRAP_PROCESSES = 2
"""One that waits outside, one that collects the dead inside."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class Unconfined:
    """Holds a command to nothing, where no sandbox is wanted."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.report: SandboxReport | None = None
        self.environment: dict[str, str] = {}
        self.prefix: list[str] = []

    async def __aenter__(self) -> Self:
        """Make nothing."""
        return self

    def exit_code(self, code: int | None) -> int | None:
        """Return the exit code of the command."""
        return code

    async def __aexit__(self, *_: object) -> None:
        """Remove nothing."""


class Confinement:
    """Holds one command to a policy; an async context manager, open for as long as it runs.

    Attributes:
        report: what is held, and by what.
        environment: variables that the command needs on top of its own.
        prefix: what to put before the command.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        mechanisms: Mechanisms,
        report: SandboxReport,
        workspace: Workspace,
        *,
        user: User | None = None,
        shown: Sequence[str] = (),
        ignores_termination: bool = False,
        cleanup: Cleanup = no_cleanup,
    ) -> None:
        """Hold nothing yet.

        Args:
            sandbox: the policy.
            mechanisms: by what it is held here.
            report: what of it is held.
            workspace: where the command works.
            user: who runs the command, if not we.
            shown: files and folders that it must be able to read, whatever is hidden.
            ignores_termination: SIGTERM is for the command, not for what stands around it.
            cleanup: opens the scope for the clean-up, as `AgentContext.cleanup` does.
        """
        self._sandbox = sandbox
        self._mechanisms = mechanisms
        self._workspace = workspace
        self._user = user
        self._shown = shown
        self._ignores_termination = ignores_termination
        self._cleanup = cleanup
        self._held = ExitStack()
        self.report = report
        self.environment: dict[str, str] = {}
        self.prefix: list[str] = []

    async def __aenter__(self) -> Self:
        """Make what it needs.

        Raises:
            ToolError: it can't be made.
        """
        try:
            await in_thread(self._prepare)
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove what was made."""
        await self._release()

    def exit_code(self, code: int | None) -> int | None:
        """Return the exit code of the command, negative where a signal killed it.

        Bubblewrap tells of a signal as a shell does, with 128 and its number.
        """
        by_shell = self._mechanisms.tier == "bubblewrap" and code is not None and code > _SIGNALLED
        return _SIGNALLED - code if by_shell and code is not None else code

    async def _release(self) -> None:
        with self._cleanup(_CLEANUP_GRACE) as scope:
            with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
                # A folder that takes longer to remove goes on being removed.
                await trio.to_thread.run_sync(self._held.close, abandon_on_cancel=True)

    def _prepare(self) -> None:
        try:
            ground = Ground.of(self._sandbox, self._workspace, (*self._shown, *self._needed))
            self.report = in_place(self.report, self._sandbox, ground)
            check_required(self._sandbox, self.report)
            temporary = TemporaryFolder.make()
            self._held.callback(temporary.remove)
            cgroup = self._cgroup()
            around, specification = self._around(ground, temporary.path)
            if self._user and self._mechanisms.tier != "bubblewrap":  # which has one of its own
                temporary.give(self._user.uid, self._user.gid)
        except OSError as error:
            raise ToolError(f"the sandbox could not be set up: {error}") from error
        specification.update(self._limits(cgroup))
        text = serde.dumps(specification).decode()
        self.prefix = [*our_python("-I", "-S", enforce.__file__, text), *around]
        if self._user:
            self.prefix += self._becoming(self._user, ground)

    def _cgroup(self) -> Cgroup:
        limits, inside = self._sandbox.limits, self._mechanisms.tier == "bubblewrap"
        cgroup = Cgroup.make(
            self._mechanisms.cgroups,
            memory_megabytes=limits.memory_megabytes,
            processes=limits.processes and limits.processes + _BUBBLEWRAP_PROCESSES * inside,
        )
        self._held.callback(cgroup.remove)
        return cgroup

    def _limits(self, cgroup: Cgroup) -> dict[str, object]:
        asked, counted = self._sandbox.limits, dict(self._mechanisms.cgroups.folders)
        limits = {
            "RLIMIT_CPU": asked.cpu_seconds,
            "RLIMIT_FSIZE": asked.file_megabytes and asked.file_megabytes * _MEGABYTE,
        }
        if "memory" not in counted:
            limits["RLIMIT_AS"] = asked.memory_megabytes and asked.memory_megabytes * _MEGABYTE
        return {
            "user": [self._user.uid, self._user.gid] if self._user else [],
            "cgroups": cgroup.members,
            "limits": {name: value for name, value in limits.items() if value},
            "more_processes": asked.processes or 0 if self._counts_processes else 0,
            "ignores_termination": self._ignores_termination,
        }

    @property
    def _counts_processes(self) -> bool:
        """Whether processes are limited, and with all others of the user."""
        together = "pids" in dict(self._mechanisms.cgroups.folders)
        return "processes" in self.report.enforced and not together

    def _around(self, ground: Ground, temporary: str) -> tuple[list[str], dict[str, object]]:
        """Return what stands between our program and the command, and what our program does."""
        match self._mechanisms.tier:
            case "bubblewrap":
                return self._bubblewrap(ground, temporary)
            case "landlock":
                return self._landlock(ground, temporary)
            case "seatbelt":
                profile = seatbelt_profile(ground, temporary, network=self._has_network)
                self._set_temporary(temporary)
                return [self._mechanisms.program, "-p", profile], {}
            case "limits":
                self._set_temporary(temporary)
                return [], {"filter": self._filter(())}

    @property
    def _needed(self) -> tuple[str, ...]:
        """What has to be read inside to become another user."""
        ours = (sys.prefix, sys.base_prefix, sys.executable, enforce.__file__)
        return ours if self._user else ()

    def _becoming(self, user: User, ground: Ground) -> list[str]:
        folder = ground.cwd if self._mechanisms.tier == "bubblewrap" else ""
        return our_python(
            "-I", "-S", enforce.__file__, "--become", str(user.uid), str(user.gid), folder
        )

    @property
    def _has_network(self) -> bool:
        return self._sandbox.network == "all"

    def _set_temporary(self, folder: str) -> None:
        self.environment = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), folder)
        if self._user:
            self.environment.update(self._user.environment(folder))

    def _filter(self, families: tuple[int, ...]) -> str:
        """Return the filter as digits; without the network, sockets are of these families alone."""
        if not self._mechanisms.filtered:
            return ""
        return (seccomp_filter(USUAL_FAMILIES if self._has_network else families) or b"").hex()

    def _bubblewrap(self, ground: Ground, temporary: str) -> tuple[list[str], dict[str, object]]:
        unreadable = os.path.join(temporary, "unreadable")
        os.close(os.open(unreadable, os.O_CREAT | os.O_EXCL, 0))
        self._held.callback(Placeholders.hold(ground.protected).release)
        # Where none could be made nothing can, for want of the right.
        protected = tuple(filter(os.path.exists, ground.protected))
        self._set_temporary(TEMPORARY)
        command = bubblewrap_command(
            self._mechanisms.program,
            replace(ground, protected=protected),
            unreadable=unreadable,
            network=self._has_network,
            filtered=self._mechanisms.filtered,
            becomes_user=self._user is not None,
        )
        # The network of its own has a loopback, which reaches nothing outside.
        filtered = self._filter(ADDRESS_FAMILIES)
        return command, {"passes_filter": True, "filter": filtered}

    def _landlock(self, ground: Ground, temporary: str) -> tuple[list[str], dict[str, object]]:
        self._set_temporary(temporary)
        rules = {
            "read": ["/", *ground.writable, *ground.shown],
            "write": [*ground.writable, temporary],
            "devices": [f"/dev/{name}" for name in _DEVICES],
            "hidden": ["/dev", *ground.hidden],
        }
        return [], {
            "landlock": rules,
            "lists": not ground.hidden,
            "scopes": self._mechanisms.scopes,
            "drops_capabilities": True,
            "filter": self._filter(()),
        }
