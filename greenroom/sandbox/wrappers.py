"""The programs that hold the command behind them: bubblewrap on Linux, Seatbelt on macOS."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from greenroom.sandbox.enforce import FILTER_FD
from greenroom.sandbox.resolved_policy import PolicyPaths, is_below

TEMPORARY = "/tmp"  # noqa: S108  (a private one inside)

_BYTES = 1 << 30
"""The size limit of a private folder, which is kept in memory."""

_BECOMING = ("CAP_SETGID", "CAP_SETUID")
"""Root's rights to become another user, which are gone once it has."""

_Mount: TypeAlias = tuple[str, list[str]]
"""A mount point, and bubblewrap's arguments for it."""


def bubblewrap_command(
    program: str,
    paths: PolicyPaths,
    *,
    unreadable: str,
    network: bool = False,
    has_filter: bool = True,
    becomes_user: bool = False,
) -> list[str]:
    """Return the words to put before a command.

    Args:
        program: the path of bubblewrap.
        paths: what the command may do where; protected paths must exist by now.
        unreadable: an empty file without permissions, to mount over hidden files.
        network: whether the command may reach the network.
        has_filter: whether a filter of system calls is passed in `FILTER_FD`.
        becomes_user: whether the command starts as root and becomes another user then.
    """
    readable = list(_list_visible(paths, network=network))
    mounts = [
        *_mount_system(),
        *(
            (path, ["--perms", "0755", "--dir", path])
            for path in _list_above((*paths.writable, *readable), paths)
        ),
        *((path, ["--bind", path, path]) for path in paths.writable),
        # A mount point can't be moved.
        *((path, ["--bind", path, path]) for path in paths.pinned),
        *((path, ["--ro-bind", path, path]) for path in paths.protected),
        *((path, ["--ro-bind", path, path]) for path in readable),
        *((path, _hide(path, unreadable)) for path in paths.hidden),
    ]
    # Deeper paths are mounted later, so the most specific mount wins; ties keep their order.
    mounts.sort(key=lambda mount: len(Path(mount[0]).parts))
    return [
        program,
        *_list_namespaces(network=network, has_users=becomes_user),
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *(word for name in _BECOMING if becomes_user for word in ("--cap-add", name)),
        *("--ro-bind", "/", "/"),
        *(argument for _, arguments in mounts for argument in arguments),
        # At the end, since mount points have to be made in these folders first.
        *(word for path in _list_sealed(paths) for word in ("--remount-ro", path)),
        # Root without its capabilities may not be allowed to enter the folder.
        *("--chdir", "/" if becomes_user else paths.cwd),
        *(["--seccomp", str(FILTER_FD)] if has_filter else []),
        "--",
    ]


def _list_namespaces(*, network: bool, has_users: bool) -> list[str]:
    if not has_users:
        return ["--unshare-all", *(["--share-net"] if network else [])]
    # A new user namespace would have no user other than root.
    kinds = ("ipc", "pid", "uts", "cgroup-try", *(() if network else ("net",)))
    return [f"--unshare-{kind}" for kind in kinds]


def _mount_system() -> list[_Mount]:
    """List the mounts that hide folders of the system which a command must not share."""
    size = ["--perms", "1777", "--size", str(_BYTES), "--tmpfs"]
    return [
        ("/dev", ["--dev", "/dev"]),
        ("/dev/shm", [*size, "/dev/shm"]),  # noqa: S108
        ("/proc", ["--proc", "/proc"]),
        # Programs that listen there could do for a command what it may not do itself.
        ("/run", ["--tmpfs", "/run"]),
        (TEMPORARY, [*size, TEMPORARY]),
    ]


def _hide(path: str, unreadable: str) -> list[str]:
    if os.path.isdir(path):
        return ["--perms", "0111", "--tmpfs", path]  # paths below may be readable again
    return ["--ro-bind", unreadable, path]


def _list_sealed(paths: PolicyPaths) -> Iterator[str]:
    """List the folders where nothing may be made, or whose settings root could change."""
    yield from ("/dev", "/proc", "/run")
    yield from filter(os.path.isdir, paths.hidden)


def _list_above(names: Iterable[str], paths: PolicyPaths) -> Iterator[str]:
    """List the folders on the way to paths in folders that are empty inside.

    Bubblewrap would make them accessible to its own user only, and the command may be another's.
    """
    empty = _list_empty(paths)
    parents = dict.fromkeys(parent for path in names for parent in Path(path).parents)
    return (str(each) for each in parents if is_below(str(each), empty) and str(each) not in empty)


def _list_empty(paths: PolicyPaths) -> tuple[str, ...]:
    """List the folders that hold nothing inside but mount points."""
    return ("/run", "/dev/shm", TEMPORARY, *paths.hidden)  # noqa: S108


def _list_visible(paths: PolicyPaths, *, network: bool) -> Iterator[str]:
    """List the paths that must be visible in hidden folders, other than the writable ones."""
    names = [*paths.readable, paths.cwd]
    if network:
        names.append(os.path.realpath("/etc/resolv.conf"))
    covered = _list_empty(paths)
    for path in map(os.path.realpath, names):
        if not is_below(path, covered) or is_below(path, paths.writable):
            continue
        if os.path.exists(path):
            yield path


SANDBOX_EXEC = "/usr/bin/sandbox-exec"


def seatbelt_profile(paths: PolicyPaths, temporary: str, *, network: bool) -> str:
    """Return the profile for a command; of several lines that match, the last one counts.

    Example:
        >>> paths = PolicyPaths("/ws", ("/ws",), ("/ws/.git",), ("/ws/secret",), ())
        >>> print(seatbelt_profile(paths, "/private/tmp/x", network=False))
        (version 1)
        (allow default)
        (deny file-write*)
        (allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
        (allow file-read* file-write* (subpath "/ws"))
        (deny file-write* (subpath "/ws/.git"))
        (deny file-read* file-write* (subpath "/ws/secret"))
        (allow file-read* file-write* (subpath "/private/tmp/x"))
        (deny signal)
        (allow signal (target same-sandbox))
        (deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))
        (deny network*)
    """
    return "\n".join(_list_rules(paths, temporary, network=network))


def _list_rules(paths: PolicyPaths, temporary: str, *, network: bool) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    yield "(deny file-write*)"
    devices = " ".join(f'(literal "/dev/{name}")' for name in ("null", "zero", "tty"))
    yield f"(allow file-write* {devices})"
    rules = [
        *((path, "allow file-read* file-write*") for path in (*paths.writable, temporary)),
        *((path, "allow file-read*") for path in paths.readable if paths.hidden),
        *((path, "deny file-write*") for path in paths.protected),
        *((path, "deny file-read* file-write*") for path in paths.hidden),
    ]
    # Deeper paths come later, so the most specific rule counts.
    rules.sort(key=lambda rule: len(Path(rule[0]).parts))
    yield from (f"({what} (subpath {_quote(path)}))" for path, what in rules)
    yield "(deny signal)"
    yield "(allow signal (target same-sandbox))"
    # This service starts programs outside of the sandbox.
    yield '(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))'
    if not network:
        yield "(deny network*)"


def _quote(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
