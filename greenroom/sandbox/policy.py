"""The policy of a sandbox: what it should hold, whether or not this machine can enforce it."""

import os
from typing import Literal, TypeAlias, get_args

from msgspec.structs import force_setattr

from greenroom.core import ConfigurationError
from greenroom.core._internal import SandboxPart, Wire

SandboxMode: TypeAlias = Literal["workspace-write", "read-only"]
"""What may be written: the workspace and a private temporary folder, or only that folder."""

SandboxNetwork: TypeAlias = Literal["none", "all"]
"""What may be reached: nothing, or everything."""

_LIMITS: dict[str, SandboxPart] = {
    "cpu_seconds": "cpu",
    "memory_megabytes": "memory",
    "file_megabytes": "file_size",
    "processes": "processes",
}


class ProcessLimits(Wire, frozen=True):
    """How much a sandboxed command, or a call of a tool, may use; None means no limit.

    The report of the sandbox says what enforces each limit, and so whether it applies to all
    processes of the command together or to each of them. The `limits` of a tool with
    `isolation="process"` count from the call of the function, and apply to the process that it runs
    in; a process that the function starts may use as much again. A call that exceeds one is
    stopped, and the model learns which one. They have no `file_megabytes` and `processes`, for
    which a sandbox is needed.

    Attributes:
        cpu_seconds: seconds of processor time for each process; the system checks at full seconds,
            so it may be up to one more.
        memory_megabytes: megabytes (2**20 bytes) of memory; of a tool's process, of address space
            beyond that at the call, which macOS does not enforce.
        file_megabytes: megabytes that one file may grow to.
        processes: processes and threads at one time.

    Example:
        >>> ProcessLimits(memory_megabytes=512, processes=100).processes
        100
    """

    cpu_seconds: int | None = None
    memory_megabytes: int | None = None
    file_megabytes: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            ConfigurationError: a limit is not a whole number, or is less than 1.
        """
        for name in _LIMITS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigurationError(
                    f"{name} is {value!r}", hint="give a whole number, 1 or more"
                )


class Sandbox(Wire, frozen=True):
    """What commands are held to: a value that can be stored, sent and compared.

    Everything can be read, except for what is hidden. A private temporary folder, `$TMPDIR`, may
    always be written, and is removed with the command. In the mode `workspace-write` the workspace
    may be written as well, with exceptions, since what these hold would later run outside of the
    sandbox: `.git`, `.greenroom`, `.hg`, `.svn`, `.vscode` and `.idea`, even if they don't exist
    yet, and in a home folder the shell's start-up files. Name one in `writable` to open it.

    How much of this holds depends on the machine; `examine_sandbox` tells. What does not hold is
    reported to the model with every result, and to the person who is asked; `require` makes it an
    error.

    Attributes:
        mode: what may be written.
        network: what may be reached.
        writable: further existing files and folders that may be written, relative to the workspace.
        deny_read: files and folders that can't be read, relative to the workspace, `~` expanded.
        limits: how much may be used.
        require: the parts that must be held; otherwise nothing runs.

    Example:
        >>> sandbox = Sandbox(deny_read=["~/.ssh"], require={"files", "network"})
        >>> sandbox.deny_read, sandbox.network
        (('~/.ssh',), 'none')
    """

    mode: SandboxMode = "workspace-write"
    network: SandboxNetwork = "none"
    writable: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    limits: ProcessLimits = ProcessLimits()
    require: frozenset[SandboxPart] = frozenset()

    def __post_init__(self) -> None:
        """Convert the paths and parts to tuples and sets, and check all fields.

        Raises:
            ConfigurationError: the mode, network or a part is unknown, a path is empty, or
                `writable` is given in the mode `read-only`.
        """
        _check("mode", self.mode, get_args(SandboxMode))
        _check("network", self.network, get_args(SandboxNetwork))
        force_setattr(self, "writable", _check_paths("writable", self.writable))
        force_setattr(self, "deny_read", _check_paths("deny_read", self.deny_read))
        force_setattr(self, "require", frozenset(self.require))
        for part in self.require:
            _check("require", part, get_args(SandboxPart))
        if self.writable and self.mode == "read-only":
            raise ConfigurationError(
                "a read-only sandbox has nothing writable", hint="use the mode workspace-write"
            )

    @property
    def requested_parts(self) -> frozenset[SandboxPart]:
        """The parts that this policy asks for."""
        parts: set[SandboxPart] = {"files", "attributes", "services", "signals", "syscalls"}
        if self.mode == "workspace-write":
            parts.add("protected")
        if self.deny_read:
            parts.add("hidden")
        if self.network == "none":
            parts.add("network")
        limits = {part for name, part in _LIMITS.items() if getattr(self.limits, name) is not None}
        return frozenset(parts | limits | self.require)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigurationError(
            f"{name}: unknown value {value!r}", hint=f"one of {', '.join(known)}"
        )


def _check_paths(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, tuple | list | set):
        raise ConfigurationError(f"{name} is {given!r}", hint="give a list of paths")
    paths = tuple(str(os.fspath(each)) for each in given)
    if any(not path or "\0" in path for path in paths):
        raise ConfigurationError(f"{name} contains an invalid path: {paths!r}")
    return paths
