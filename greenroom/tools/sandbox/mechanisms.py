"""What a machine may have to hold commands with; whether it works is found by trying."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from greenroom.core import SandboxPart, SandboxTier, Workspace
from greenroom.tools.sandbox import confine
from greenroom.tools.sandbox.cgroup import CgroupPlaces
from greenroom.tools.sandbox.ground import Ground
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.seatbelt import SANDBOX_EXEC
from greenroom.tools.sandbox.seccomp import seccomp_filter
from greenroom.tools.sandbox.user import User

_SCOPES_VERSION = 6
"""The version of Landlock that keeps abstract Unix sockets and signals inside."""


@dataclass(frozen=True)
class TrialAs:
    """What is tried as another user.

    Attributes:
        user: who runs the command.
        read: what he must be allowed to read.
        write: what he must be allowed to write.
    """

    user: User
    read: tuple[str, ...]
    write: tuple[str, ...]

    @classmethod
    def of(
        cls,
        sandbox: Sandbox,
        workspace: Workspace,
        shown: Sequence[str],
        *,
        limits_processes: bool,
    ) -> "TrialAs | None":
        """Choose a user, and what he must reach there; None where we run commands ourselves."""
        user = User.of(sandbox, workspace, limits_processes=limits_processes)
        if user is None:
            return None
        ground = Ground.of(sandbox, workspace, shown)
        read = (os.path.realpath(workspace.root), *ground.shown)
        return cls(user, tuple(filter(os.path.exists, read)), ground.writable)


@dataclass(frozen=True)
class Mechanisms:
    """One way to hold commands.

    Attributes:
        tier: its name.
        program: where bubblewrap or `sandbox-exec` is.
        filtered: whether there is a filter of system calls for this processor.
        scopes: whether Landlock keeps abstract Unix sockets and signals inside.
        cgroups: where control groups can be made.
        held: the parts that were held when it was tried.
        why: why the tiers above could not be used, by their names.
        tried_as: what was held, or why it did not work, when another user than root was tried.
    """

    tier: SandboxTier
    program: str = ""
    filtered: bool = False
    scopes: bool = False
    cgroups: CgroupPlaces = field(default_factory=CgroupPlaces)
    held: frozenset[SandboxPart] = frozenset()
    why: dict[str, str] = field(default_factory=dict)
    tried_as: dict[TrialAs, frozenset[SandboxPart] | str] = field(default_factory=dict)


def candidates() -> Iterator[Mechanisms]:
    """Name the ways that this machine may offer, the best first. Reads the disk."""
    if sys.platform == "darwin" and os.path.exists(SANDBOX_EXEC):
        yield Mechanisms("seatbelt", SANDBOX_EXEC)
    if not sys.platform.startswith("linux"):
        yield Mechanisms("limits")
        return
    filtered = seccomp_filter(()) is not None
    cgroups = CgroupPlaces.find()
    version = confine.landlock_version()
    scopes = version >= _SCOPES_VERSION
    bubblewrap = shutil.which("bwrap")
    absent: dict[str, str] = {}
    if bubblewrap:
        yield Mechanisms("bubblewrap", bubblewrap, filtered, scopes, cgroups)
    else:
        absent["bubblewrap"] = "the program bwrap is not installed"
    if version:
        yield Mechanisms("landlock", "", filtered, scopes, cgroups, why=absent)
    else:
        absent["landlock"] = "this kernel does not offer it"
    yield Mechanisms("limits", "", filtered, False, cgroups, why=absent)
