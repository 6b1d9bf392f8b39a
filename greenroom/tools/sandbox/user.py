"""The user that a command runs as, where we are root and it need not be."""

import os
import pwd
import sys
from dataclasses import dataclass

from greenroom.core import Workspace
from greenroom.tools.sandbox.policy import Sandbox

_NOBODY = 65534


@dataclass(frozen=True)
class User:
    """Another user than root.

    Attributes:
        uid: its id.
        gid: that of its group, the only one.
    """

    uid: int
    gid: int

    @classmethod
    def of(cls, sandbox: Sandbox, workspace: Workspace, *, limits_processes: bool) -> "User | None":
        """Choose who runs a command in our place. Reads the disk: call it in a thread.

        That is who owns the workspace, so that what is made there is his, and what is his can be
        changed; where root does, and nothing has to be written, nobody.

        Args:
            sandbox: the policy.
            workspace: where the command works.
            limits_processes: whether root could not be held to a limit that is asked for.

        Returns:
            None where we are not root, or root has to run it.

        Raises:
            OSError: the workspace is gone.
        """
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            return None
        owner = os.stat(workspace.root)
        if owner.st_uid:
            return cls(owner.st_uid, _group(owner))
        return cls(_NOBODY, _NOBODY) if limits_processes and sandbox.mode == "read-only" else None

    def environment(self, temporary: str) -> dict[str, str]:
        """Return the variables that say who it is; without a home of its own it has a temporary one."""
        try:
            entry = pwd.getpwuid(self.uid)
        except KeyError:  # as in a container, where the owner is a user of the system outside
            name, home = str(self.uid), temporary
        else:
            name, home = entry.pw_name, entry.pw_dir
        return {"HOME": home if os.path.isdir(home) else temporary, "USER": name, "LOGNAME": name}


def _group(owner: os.stat_result) -> int:
    """Find the group of who owns something: not that of the thing, which may be anybody's."""
    try:
        return pwd.getpwuid(owner.st_uid).pw_gid
    except KeyError:
        # Of a user that is not known here; the group of root may have rights that he has not.
        return owner.st_gid or _NOBODY
