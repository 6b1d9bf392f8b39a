"""Whether git, asked to read, runs what a repository around a folder names in its own files.

What the user's own configuration names is the user's; what the repository's does may come from
whoever wrote the project. A key that is not known to be harmless counts as naming a program, and so
does what can't be read.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator

__all__ = ["why_git_may_run"]

MAX_CACHED = 64
MAX_CONFIG = 1 << 20
MAX_INDEX = 1 << 26

_HARMLESS = re.compile(
    r"core\.(?:abbrev|autocrlf|bare|bigfilethreshold|checkstat|commentchar|commitgraph|compression|eol"
    r"|filemode|ignorecase|logallrefupdates|longpaths|multipackindex|precomposeunicode|preloadindex"
    r"|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sparsecheckout"
    r"|sparsecheckoutcone|symlinks|trustctime|untrackedcache|whitespace)"
    r"|(?:advice|author|blame|checkout|color|column|commit|committer|fetch|gc|grep|gui|help|i18n|index"
    r"|init|maintenance|merge|pack|pull|push|rebase|rerere|stash|status|submodule|tag|transfer|user"
    r"|versionsort)\.[a-z0-9-]+"
    r"|(?:alias|branch|credential|http|url)\.(?:\*\.)?[a-z0-9-]+"
    r"|color\.\*\.[a-z0-9-]+"
    r"|remote\.\*\.(?:url|pushurl|fetch|push|tagopt|prune|mirror|gh-resolved|skipfetchall)"
    r"|remote\.pushdefault"
    r"|submodule\.\*\.(?:url|active|branch|fetchrecursesubmodules|ignore|path)"
    r"|diff\.(?:algorithm|autorefreshindex|colormoved|colormovedws|context|dirstat|ignoresubmodules"
    r"|indentheuristic|interhunkcontext|mnemonicprefix|noprefix|relative|renamelimit|renames|submodule"
    r"|suppressblankempty|tool|wserrorhighlight)"
    r"|diff\.\*\.(?:algorithm|binary|funcname|wordregex|xfuncname)"
    r"|log\.(?:abbrevcommit|date|decorate|diffmerges|excludedecoration|follow|graphcolors|showroot)"
    r"|lfs\.(?:\*\.)?(?:access|locksverify|repositoryformatversion|url)"
    r"|extensions\.(?:noop|preciousobjects|refstorage|relativeworktrees|worktreeconfig)"
)
_TOKEN = re.compile(
    r"[ \t\n]++|[#;][^\n]*+"
    r'|\[(?P<section>[A-Za-z0-9.-]++)(?P<sub>[ \t]++"(?:[^"\\\n]|\\[^\n])*+")?\]'
    r"|(?P<key>[A-Za-z][A-Za-z0-9-]*+)[ \t]*+"
    r'(?:=(?P<value>(?:[^\n"\\#;]|\\[ntb"\\\n]|"(?:[^"\\\n]|\\[ntb"\\\n])*+")*+)(?:[#;][^\n]*+)?)?'
    r"(?=\n|\Z)"
)
_OFF = frozenset({"false", "no", "off", "0"})
_GITLINK = b"\0\0\xe0\0"  # the mode of an entry of the index that is another repository
_NAME_BEHIND = 38  # bytes from there to the entry's name, with hashes of 20 bytes

_cached: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}


class _UnclearError(Exception):
    """Something that can't be told; the text says what."""


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
    except (_UnclearError, OSError, ValueError) as error:
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
            raise _UnclearError(f"{link} is not understood")
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
        yield f"git may run what is set in the submodule {submodule}"


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
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _UnclearError(f"{path} is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise _UnclearError(f"{path} is too large to look at")
    return data


def _keys(path: str) -> tuple[str, ...]:
    """Find the keys of a configuration that are not known to be harmless."""
    text = _read(path, MAX_CONFIG).decode("latin-1").replace("\r\n", "\n")
    found, section, at = dict[str, None](), "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or "\0" in token[0]:
            raise _UnclearError(f"{path} is not understood, line {text.count(chr(10), 0, at) + 1}")
        at = token.end()
        if name := token["section"]:
            first, dot, _ = name.lower().partition(".")
            section = f"{first}.*" if dot or token["sub"] else first
        elif token["key"]:
            key = f"{section}.{token['key'].lower()}"
            is_off = key == "core.fsmonitor" and (token["value"] or "").strip().lower() in _OFF
            if not (is_off or _HARMLESS.fullmatch(key)):
                found[key] = None
    return tuple(found)


def _submodules(path: str) -> tuple[str, ...]:
    """Find a submodule among the entries of an index, in which git looks for changes as well."""
    if any(name.startswith("sharedindex") for name in os.listdir(os.path.dirname(path))):
        raise _UnclearError(f"{path} is only a part of the index")
    data = _read(path, MAX_INDEX)
    if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return (f"in {path}",) if _GITLINK in data else ()
    at = data.find(_GITLINK)
    while at >= 0:
        flags, begin = int.from_bytes(data[at + 36 : at + 38]), at + _NAME_BEHIND
        begin += 2 if flags & 0x4000 else 0  # further flags come first
        name = data[begin : data.find(b"\0", begin)]
        if flags & 0xFFF == min(len(name), 0xFFF):
            return (os.fsdecode(name),)
        at = data.find(_GITLINK, at + 1)
    return ()
