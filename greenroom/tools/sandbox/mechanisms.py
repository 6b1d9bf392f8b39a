"""What a machine may have to hold commands with; whether it works is found by trying."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from greenroom.core import SandboxPart, SandboxTier
from greenroom.tools.sandbox import confine
from greenroom.tools.sandbox.cgroup import CgroupPlaces
from greenroom.tools.sandbox.seatbelt import SANDBOX_EXEC
from greenroom.tools.sandbox.seccomp import seccomp_filter

__all__ = ["Mechanisms", "candidates"]

_SCOPES_VERSION = 6
"""The version of Landlock that keeps abstract Unix sockets and signals inside."""


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
    """

    tier: SandboxTier
    program: str = ""
    filtered: bool = False
    scopes: bool = False
    cgroups: CgroupPlaces = field(default_factory=CgroupPlaces)
    held: frozenset[SandboxPart] = frozenset()
    why: dict[str, str] = field(default_factory=dict)


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
