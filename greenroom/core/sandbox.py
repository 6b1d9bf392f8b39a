"""What a sandbox holds on this machine, and what it does not, as a value that travels."""

from typing import Literal, TypeAlias

from greenroom.core.wire import Wire

SandboxPart: TypeAlias = Literal[
    "files",
    "attributes",
    "protected",
    "hidden",
    "network",
    "services",
    "signals",
    "syscalls",
    "memory",
    "cpu",
    "file_size",
    "processes",
    "disk",
]
"""One thing that a sandbox can hold.

- files: nothing is created, written, renamed or removed outside of what may be written.
- attributes: nor are modes, owners and times changed there.
- protected: names in the workspace that make programs run elsewhere, such as `.git`, stay as they
  are, also those that don't exist.
- hidden: what must not be read is not.
- network: no address is reached.
- services: no program outside is asked over a Unix socket to do it instead.
- signals: no process outside is signalled.
- syscalls: the system calls that sandboxes are broken with are refused.
- memory, cpu, file_size, processes: the limits.
- disk: all that is written together is bounded.
"""

SandboxTier: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "limits"]
"""How commands are held: in namespaces, by Landlock, by macOS, or by limits alone."""


class SandboxReport(Wire, frozen=True):
    """What holds a command of one policy on this machine, found by trying it.

    Attributes:
        mode: the policy's mode, "workspace-write" or "read-only".
        network: the policy's network, "none" or "all".
        tier: how commands are held.
        enforced: by what each part is held.
        missing: the parts that nothing holds, whether the policy asks for them or not.
        lacking: those of them that the policy asks for.
        why: why each missing part is.
        user: the id of the user that runs the command, where that is not the one that asks for it.
        as_root: why root runs it although it should be that user.

    Example:
        >>> print(SandboxReport("read-only", "none", "limits", missing=("files",), lacking=("files",)))
        read-only, network none (limits); NOT HELD: files
    """

    mode: str
    network: str
    tier: SandboxTier
    enforced: dict[SandboxPart, str] = {}
    missing: tuple[SandboxPart, ...] = ()
    lacking: tuple[SandboxPart, ...] = ()
    why: dict[SandboxPart, str] = {}
    user: int | None = None
    as_root: str = ""

    def __str__(self) -> str:
        user = "" if self.user is None else f", as user {self.user}"
        user = f", as root: {self.as_root}" if self.as_root else user
        held = f"{self.mode}, network {self.network} ({self.tier}{user})"
        return f"{held}; NOT HELD: {', '.join(self.lacking)}" if self.lacking else held
