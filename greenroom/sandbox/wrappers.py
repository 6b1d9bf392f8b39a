"""The programs that hold the command behind them: bubblewrap on Linux, Seatbelt on macOS."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from greenroom.sandbox.enforce import FILTER_FD
from greenroom.sandbox.resolved_policy import PolicyPaths, is_below

TEMPORARY = "/tmp"  # noqa: S108  (a private one inside)

_BYTES = 1 << 30
"""What a private folder holds at the most; it lies in memory."""

_BECOMING = ("CAP_SETGID", "CAP_SETUID")
"""The rights of root to become another user; with that they are gone."""

_Mount: TypeAlias = tuple[str, list[str]]
"""Where something is mounted, and the arguments that say what."""


def bubblewrap_command(
    program: str,
    paths: PolicyPaths,
    *,
    unreadable: str,
    network: bool = False,
    has_filter: bool = True,
    becomes_user: bool = False,
) -> list[str]:
    """Return what to put before a command.

    Args:
        program: where bubblewrap is.
        paths: what the command may do where; what is protected must exist by now.
        unreadable: an empty file that no one may read, to put in place of hidden files.
        network: whether the network is reached.
        has_filter: whether a filter of system calls comes by `FILTER_FD`.
        becomes_user: whether the command is root at first and becomes another user then.
    """
    readable = list(_list_visible(paths, network=network))
    mounts = [
        *_mount_system(),
        *(
            (path, ["--perms", "0755", "--dir", path])
            for path in _list_above((*paths.writable, *readable), paths)
        ),
        *((path, ["--bind", path, path]) for path in paths.writable),
        # What is mounted can't be moved.
        *((path, ["--bind", path, path]) for path in paths.pinned),
        *((path, ["--ro-bind", path, path]) for path in paths.protected),
        *((path, ["--ro-bind", path, path]) for path in readable),
        *((path, _hide(path, unreadable)) for path in paths.hidden),
    ]
    # What lies deeper is mounted later, so that the most specific wins; a tie goes to the last.
    mounts.sort(key=lambda mount: len(Path(mount[0]).parts))
    return [
        program,
        *_list_namespaces(network=network, has_users=becomes_user),
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *(word for name in _BECOMING if becomes_user for word in ("--cap-add", name)),
        *("--ro-bind", "/", "/"),
        *(argument for _, arguments in mounts for argument in arguments),
        # Not before, since what lies below has to be mounted somewhere.
        *(word for path in _list_sealed(paths) for word in ("--remount-ro", path)),
        # It may be closed to a root who has given up its rights.
        *("--chdir", "/" if becomes_user else paths.cwd),
        *(["--seccomp", str(FILTER_FD)] if has_filter else []),
        "--",
    ]


def _list_namespaces(*, network: bool, has_users: bool) -> list[str]:
    if not has_users:
        return ["--unshare-all", *(["--share-net"] if network else [])]
    # In a user namespace of its own there would be root alone.
    kinds = ("ipc", "pid", "uts", "cgroup-try", *(() if network else ("net",)))
    return [f"--unshare-{kind}" for kind in kinds]


def _mount_system() -> list[_Mount]:
    """What every command gets in place of what the system has there: nothing of it is shared."""
    size = ["--perms", "1777", "--size", str(_BYTES), "--tmpfs"]
    return [
        ("/dev", ["--dev", "/dev"]),
        ("/dev/shm", [*size, "/dev/shm"]),  # noqa: S108
        ("/proc", ["--proc", "/proc"]),
        # Programs listen there that would do for a command what it can't do itself.
        ("/run", ["--tmpfs", "/run"]),
        (TEMPORARY, [*size, TEMPORARY]),
    ]


def _hide(path: str, unreadable: str) -> list[str]:
    if os.path.isdir(path):
        return ["--perms", "0111", "--tmpfs", path]  # what lies below may be open again
    return ["--ro-bind", unreadable, path]


def _list_sealed(paths: PolicyPaths) -> Iterator[str]:
    """Name the folders in which nothing may be made, and the settings that root could change."""
    yield from ("/dev", "/proc", "/run")
    yield from filter(os.path.isdir, paths.hidden)


def _list_above(names: Iterable[str], paths: PolicyPaths) -> Iterator[str]:
    """Name the folders on the way to a path in what is empty inside.

    Bubblewrap would make them for its own user alone, and the command may be another's.
    """
    empty = _list_empty(paths)
    parents = dict.fromkeys(parent for path in names for parent in Path(path).parents)
    return (str(each) for each in parents if is_below(str(each), empty) and str(each) not in empty)


def _list_empty(paths: PolicyPaths) -> tuple[str, ...]:
    """Name the folders that hold nothing inside but what is mounted there."""
    return ("/run", "/dev/shm", TEMPORARY, *paths.hidden)  # noqa: S108


def _list_visible(paths: PolicyPaths, *, network: bool) -> Iterator[str]:
    """Name what must be seen although its folder is not; what may be written is seen anyway."""
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
    """Return the profile of a command: of several lines that fit, the last one counts.

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
    # What lies deeper comes later, so that the most specific counts.
    rules.sort(key=lambda rule: len(Path(rule[0]).parts))
    yield from (f"({what} (subpath {_quote(path)}))" for path, what in rules)
    yield "(deny signal)"
    yield "(allow signal (target same-sandbox))"
    # It starts programs that are held by nothing.
    yield '(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))'
    if not network:
        yield "(deny network*)"


def _quote(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
