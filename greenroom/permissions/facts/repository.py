"""Whether git, asked to read, runs what a repository around a folder names in its own files.

What the user's own configuration names is the user's; what the repository's does may come from
whoever wrote the project. A key that is not known to be harmless counts as naming a program, and so
does what can't be read.
"""

import os
import re
from collections.abc import Callable, Iterator

from greenroom.permissions.facts.disk import read_beginning

MAX_CACHED = 64
MAX_CONFIG = 1 << 20
MAX_INDEX = 1 << 26

_SECTIONS = """
    advice alias author blame branch checkout color column commit core credential diff extensions fetch gc
    help http i18n index init lfs log maintenance merge pack pull push rebase remote rerere stash
    status submodule tag transfer url user
"""
_PROGRAMS = """
    alternaterefscommand askpass attributesfile clean cmd command driver editor external fsmonitor
    gitproxy helper hookspath objectformat pager partialclone partialclonefilter process promisor
    proxy receivepack showsignature smudge sshcommand textconv update uploadpack vcs worktree
"""
_HARMLESS = frozenset(_SECTIONS.split()), frozenset(_PROGRAMS.split())
_LINE = re.compile(
    r'[ \t]*(?:\[(?P<section>[A-Za-z0-9-]+)(?:\.[^\]\n"\\]*|[ \t]+"(?:[^"\\\n]|\\.)*")?\][ \t]*)?'
    r"(?:(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(?P<value>[^\n]*[^\\\n]|))?)?(?:[#;][^\n]*)?"
)
_OFF = frozenset({"false", "no", "off", "0"})
_GITLINK = b"\0\0\xe0\0"  # the mode of an entry of the index that is another repository

_cached: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}


def why_git_may_run(folder: str) -> str:
    """Say what of a repository around a folder may run; empty if nothing.

    Git takes the nearest repository; here all of them count, since which one git accepts depends on
    more than there is to see. Whether a submodule's configuration names a program is not looked at:
    it may. What was read is kept as long as the file stays the same.

    Args:
        folder: an absolute path without links.
    """
    try:
        folders = (each for place in _upward(folder) for each in _git_folders(place))
        return next((reason for each in folders for reason in _reasons(each)), "")
    except (OSError, ValueError) as error:
        return str(error)


def _upward(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _git_folders(folder: str) -> Iterator[str]:
    """Find the folders that git may take for the repository of this one."""
    link = os.path.join(folder, ".git")
    if os.path.isdir(link):
        yield link
    elif os.path.lexists(link):
        text = _read(link, 4096).decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not text.startswith("gitdir: "):
            raise ValueError(f"{link} is not understood")
        yield os.path.join(folder, text.removeprefix("gitdir: "))
    if os.path.lexists(os.path.join(folder, "HEAD")):
        yield folder  # it may be a bare repository


def _reasons(gitdir: str) -> Iterator[str]:
    """Go through what may run in a repository."""
    folders = [gitdir]
    if os.path.lexists(common := os.path.join(gitdir, "commondir")):
        folders.append(os.path.join(gitdir, os.fsdecode(_read(common, 4096)).rstrip("\r\n")))
    for each in folders:
        for name in ("config", "config.worktree"):
            for key in _kept(os.path.join(each, name), _keys):
                yield f"{os.path.join(each, name)} sets {key}, which may run a program"
        if os.path.lexists(hook := os.path.join(each, "hooks/post-index-change")):
            yield f"git may run {hook}"
    for submodule in _kept(os.path.join(gitdir, "index"), _submodules):
        yield f"git may run what is set in a submodule of {submodule}"


def _kept(path: str, find: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """Return what was found in a file, anew if it has changed; nothing if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    signature = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
    known = _cached.pop(path, None)
    if known is None or known[0] != signature:
        known = (signature, find(path))
    while len(_cached) >= MAX_CACHED:
        _cached.pop(next(iter(_cached)), None)
    _cached[path] = known
    return known[1]


def _read(path: str, most: int) -> bytes:
    """Read a regular file of a bounded size; a pipe in its place holds nothing up."""
    data = read_beginning(path, most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is too large to look at")
    return data


def _keys(path: str) -> tuple[str, ...]:
    """Find the keys of a configuration that are not known to be harmless."""
    found, section = dict[str, None](), ""
    sections, programs = _HARMLESS
    for line in _read(path, MAX_CONFIG).decode("latin-1").replace("\r\n", "\n").split("\n"):
        parts = _LINE.fullmatch(line)
        if parts is None or "\0" in line:
            raise ValueError(f"{path} is not understood: {line[:60]!r}")
        section = (parts["section"] or section).lower()
        key = (parts["key"] or "").lower()
        is_off = key == "fsmonitor" and (parts["value"] or "").strip().lower() in _OFF
        if key and not is_off and (section not in sections or key in programs):
            found[f"{section}.{key}"] = None
    return tuple(found)


def _submodules(path: str) -> tuple[str, ...]:
    """Tell whether the index may hold a submodule, in which git looks for changes as well."""
    beside = os.listdir(os.path.dirname(path))
    has_others = any(name.startswith("sharedindex") for name in beside) or "modules" in beside
    return (path,) if has_others or _GITLINK in _read(path, MAX_INDEX) else ()
