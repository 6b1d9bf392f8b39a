"""The folder that an agent works in, and where in it the agent stands."""

import os
from copy import copy
from pathlib import Path


class Workspace:
    """A root folder and a working directory that may move, as a shell's does.

    Relative paths of tool inputs start at `cwd`; relative patterns of permission rules are anchored
    at `root`, so that `cd` can't widen a rule.

    Example:
        >>> Workspace("/srv/project").absolute("src/a.py").as_posix()
        '/srv/project/src/a.py'
    """

    def __init__(self, root: str | Path, cwd: str | Path | None = None) -> None:
        """Take the root, by its absolute path; work begins there unless `cwd` says otherwise."""
        self.root = Path(os.path.abspath(root))
        self.cwd = self.root if cwd is None else Path(os.path.abspath(cwd))

    def copy(self) -> "Workspace":
        """Return one that begins at the same place and moves on its own; it costs next to nothing."""
        return copy(self)

    def absolute(self, path: str | Path) -> Path:
        """Make a path absolute from the working directory, `~` expanded, `..` removed as text.

        Symbolic links are not followed: that takes the disk, which this class never touches.
        """
        return Path(os.path.abspath(self.cwd / Path(path).expanduser()))
