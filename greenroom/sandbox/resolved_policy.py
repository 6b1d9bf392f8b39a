"""A policy in one workspace: the real paths that it means there, and the user who runs commands."""

import os
import pwd
import stat
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from greenroom.core import ToolError, Workspace
from greenroom.core._internal import AGENT_FOLDERS, CONFIGURATION_FOLDERS, PROTECTED_FILES
from greenroom.sandbox.policy import Sandbox

_NAMES = frozenset({".git", ".hg", ".svn"})
_DEPTH = 2
_MAX_NAMES = 20_000
_MAX_FOUND = 100
"""Each is mounted for every command, with the folders above it."""


class NestedRepositories(msgspec.Struct, frozen=True):
    """The repositories below a folder, as this process first found them.

    Their hooks and settings run programs, just like those of the workspace. Repositories that
    commands make later are not protected.

    Attributes:
        names: the path of `.git` or the like in each.
        is_complete: whether all folders down to the depth limit were searched.
    """

    names: tuple[str, ...]
    is_complete: bool

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, folder: str) -> "NestedRepositories":
        """Search two folders deep, within limits. Reads the disk: call it in a thread."""
        found: list[str] = []
        looked, left = 0, deque([(folder, 0)])
        while left:
            place, depth = left.popleft()
            for name, is_folder in _list_names(place):
                looked += 1
                if looked > _MAX_NAMES or len(found) == _MAX_FOUND:
                    return cls(tuple(found), False)
                path = os.path.join(place, name)
                if name in _NAMES:
                    found += [path] if depth else []
                elif is_folder and depth < _DEPTH:
                    left.append((path, depth + 1))
        return cls(tuple(found), True)


def _list_names(folder: str) -> Iterator[tuple[str, bool]]:
    """List the names in a folder, each with whether it is a folder; none if it can't be read."""
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            yield each.name, each.is_dir(follow_symlinks=False)


_START_UP_FILES = frozenset(
    {".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".gitconfig", ".profile"}
    | {".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc"}
)
"""What shells and git read from a home folder and run."""


_MAX_HIDDEN = 5_000
"""Hidden files whose number of names is checked before each command."""


class PolicyPaths(msgspec.Struct, frozen=True):
    """Real paths, and what a command may do there.

    Attributes:
        cwd: where the command starts.
        writable: what may be written.
        protected: paths in there that must stay as they are; some may not exist.
        hidden: what must not be read; all of it exists.
        readable: what must be readable, wherever it is.
        unprotected: paths that should be protected but can't be, because of symbolic links.
        pinned: folders around protected paths, which must not be moved.
        is_searched: whether the search for nested repositories was complete.
        linked: hidden files with another name (a hard link) that is not hidden.
        is_traced: whether all hidden files were checked for such names.
    """

    cwd: str
    writable: tuple[str, ...]
    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    readable: tuple[str, ...]
    unprotected: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    is_searched: bool = True
    linked: tuple[str, ...] = ()
    is_traced: bool = True

    @classmethod
    def of(
        cls, sandbox: Sandbox, workspace: Workspace, readable: Sequence[str] = ()
    ) -> "PolicyPaths":
        """Resolve the paths of a policy. Reads the disk: call it in a thread.

        Raises:
            ToolError: a path that should be writable does not exist.
        """
        root = workspace.root
        writable = []
        if sandbox.mode == "workspace-write":
            writable = [os.path.realpath(root), *_resolve_existing(sandbox.writable, root)]
        nested = [NestedRepositories.of(folder) for folder in writable if os.path.isdir(folder)]
        repositories = (name for each in nested for name in each.names if os.path.lexists(name))
        named = list(dict.fromkeys((*_list_protected(writable), *repositories)))
        open_ = (each for each in named if not _is_linked(each))
        protected = tuple(each for each in open_ if each not in writable)
        denied = (os.path.realpath(_make_absolute(path, root)) for path in sandbox.deny_read)
        hidden = tuple(dict.fromkeys(each for each in denied if os.path.exists(each)))
        cwd = os.path.realpath(workspace.cwd)
        linked, is_traced = _find_linked(hidden, frozenset((*writable, *readable, cwd)))
        return cls(
            cwd=cwd,
            writable=tuple(dict.fromkeys(writable)),
            protected=protected,
            hidden=hidden,
            readable=tuple(readable),
            unprotected=tuple(each for each in named if _is_linked(each)),
            pinned=tuple(dict.fromkeys(_list_between(protected, writable))),
            is_searched=all(each.is_complete for each in nested),
            linked=linked,
            is_traced=is_traced,
        )


def _is_linked(name: str) -> bool:
    """Return whether a path is a link or leads through one; its writable folder is a real path.

    A command may have replaced a folder by a link after a repository was found in it.
    """
    # A link to itself is its own real path.
    return os.path.islink(name) or os.path.realpath(name) != name


def _find_linked(hidden: Sequence[str], open_: frozenset[str]) -> tuple[tuple[str, ...], bool]:
    """Find hidden files with names that are not hidden, and whether all files were checked."""
    names: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    seen, left = set[str](), list(hidden)
    while left and len(seen) < _MAX_HIDDEN:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        with suppress(OSError):  # it is gone or can't be read
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(path) as found:
                    below = islice(found, _MAX_HIDDEN)
                    left += [each.path for each in below if each.path not in open_]
            elif status.st_nlink > 1:
                names[status.st_dev, status.st_ino, status.st_nlink].append(path)
    linked = (paths[0] for (*_, count), paths in names.items() if len(paths) < count)
    return tuple(linked), not left


def _make_absolute(path: str, root: Path) -> str:
    return os.path.join(root, os.path.expanduser(path))


def _resolve_existing(paths: Sequence[str], root: Path) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(_make_absolute(path, root))
        if not os.path.exists(real):
            raise ToolError(
                f"the sandbox can't make {path} writable: it does not exist", hint="create it first"
            )
        yield real


def _list_protected(writable: Sequence[str]) -> Iterator[str]:
    for folder in filter(os.path.isdir, writable):
        names = CONFIGURATION_FOLDERS | (_START_UP_FILES if _is_home(folder) else frozenset())
        yield from (os.path.join(folder, name) for name in sorted(names))
        yield from _list_instructions(folder)


def _list_between(protected: Sequence[str], writable: Sequence[str]) -> Iterator[str]:
    """List the folders between the writable folders and the protected paths in them."""
    for path in protected:
        parent = os.path.dirname(path)
        while parent not in writable:
            yield parent
            parent = os.path.dirname(parent)


def _is_home(folder: str) -> bool:
    """Return whether a folder is our home, or that of its owner."""
    homes = [os.path.expanduser("~")]
    with suppress(KeyError):
        homes.append(pwd.getpwuid(os.stat(folder).st_uid).pw_dir)
    return folder in map(os.path.realpath, homes)


def _list_instructions(folder: str) -> Iterator[str]:
    """List the files that agents and programs start with; new ones may be made, but not changed."""
    known = AGENT_FOLDERS | PROTECTED_FILES
    found = (os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name in known)
    # Links such as that from CLAUDE.md to AGENTS.md are common, and can't be mounted over.
    return (path for path in found if not os.path.islink(path))


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is in one of these folders, or is one itself."""
    return any(Path(path).is_relative_to(folder) for folder in folders)


_NOBODY = 65534


class User(msgspec.Struct, frozen=True):
    """A user other than root.

    Attributes:
        uid: the user's id.
        gid: the id of the user's only group.
    """

    uid: int
    gid: int

    @classmethod
    def of(cls, sandbox: Sandbox, workspace: Workspace, *, limits_processes: bool) -> "User | None":
        """Choose who runs a command in our place. Reads the disk: call it in a thread.

        This is the owner of the workspace, who may change what is there and will own what is made
        there. If root owns it and nothing has to be written, it is the user `nobody`.

        Args:
            sandbox: the policy.
            workspace: where the command works.
            limits_processes: whether the policy limits processes, which does not work for root.

        Returns:
            None if we are not root, or if root has to run the command.

        Raises:
            OSError: the workspace is gone.
        """
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            return None
        owner = os.stat(workspace.root)
        if owner.st_uid:
            return cls(owner.st_uid, _find_group(owner))
        return cls(_NOBODY, _NOBODY) if limits_processes and sandbox.mode == "read-only" else None

    def environment(self, temporary: str) -> dict[str, str]:
        """Return the variables that name the user and a home, which may be the temporary folder."""
        try:
            entry = pwd.getpwuid(self.uid)
        except KeyError:  # as in a container, if the owner is a user of the system outside
            name, home = str(self.uid), temporary
        else:
            name, home = entry.pw_name, entry.pw_dir
        return {"HOME": home if os.path.isdir(home) else temporary, "USER": name, "LOGNAME": name}


def _find_group(owner: os.stat_result) -> int:
    """Find the group of an owner, which need not be the group of the thing that is owned."""
    try:
        return pwd.getpwuid(owner.st_uid).pw_gid
    except KeyError:
        # The user is unknown here; root's group may have rights that the user lacks.
        return owner.st_gid or _NOBODY


class UserProbe(msgspec.Struct, frozen=True):
    """A probe that runs as another user.

    Attributes:
        user: who runs the command.
        read: the paths that this user must be allowed to read.
        write: the paths that this user must be allowed to write.
    """

    user: User
    read: tuple[str, ...]
    write: tuple[str, ...]

    @classmethod
    def of(
        cls,
        sandbox: Sandbox,
        workspace: Workspace,
        readable: Sequence[str],
        *,
        limits_processes: bool,
    ) -> "UserProbe | None":
        """Choose the user and the paths to probe; None if commands run as ourselves."""
        user = User.of(sandbox, workspace, limits_processes=limits_processes)
        if user is None:
            return None
        paths = PolicyPaths.of(sandbox, workspace, readable)
        read = (os.path.realpath(workspace.root), *paths.readable)
        return cls(user, tuple(filter(os.path.exists, read)), paths.writable)
