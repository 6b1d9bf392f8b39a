"""What strace wrote down about a command: which of the calls have an effect, and on what."""

import codecs
import os
import re
from dataclasses import dataclass, field

OPENING = ("open", "openat", "openat2", "creat")
WRITING = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")
CHANGING = """
    mkdir mkdirat mknod mknodat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink
    symlinkat truncate chmod fchmod fchmodat chown fchown fchownat lchown utime utimes utimensat
    futimesat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
""".split()  # noqa: SIM905 - words
SENDING = ("connect", "sendto", "sendmsg", "sendmmsg")
ODD = """
    clock_settime settimeofday sethostname setdomainname mount umount2 reboot ptrace kill tkill
    init_module finit_module swapon acct quotactl
""".split()  # noqa: SIM905 - words
CALLS = ("execve", "execveat", *OPENING, *CHANGING, *SENDING, *ODD)
# What fails for want of a right or of a writable disk would not fail everywhere.
REFUSED = ("EROFS", "EPERM", "EACCES")

NOWHERE = ("/dev/null", "/dev/tty", "/dev/pts", "/dev/full", "/dev/std", "/dev/fd", "/proc/self/fd")
# What the loader, the C library, the shell and programs read to start.
SYSTEM = re.compile(
    r"/(?:usr|lib\w*|s?bin|dev|sys)/|/proc/(?!\d+/(?:environ|cwd|fd|root|mem))|(?:pipe|socket|anon)"
    r"|/etc/(?:ld\.so\.|passwd|group|nsswitch|localtime|locale|host\.conf|hosts|resolv|services"
    r"|protocols|gai|inputrc|magic|mime|terminfo|gitconfig|os-release|mtab|ssl/|timezone"
    r"|alternatives|java|pip\.conf|xdg/|wgetrc|ldap/)"
)

_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)(.*)", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NAME = re.compile(r"<(/[^>]*)>")


@dataclass
class Effects:
    """What a command did, each thing once, in order.

    Attributes:
        ran: the programs that were started, as their paths were given, and their words.
        read: the files that were opened, by their real paths; those of folders end in a slash.
        changed: calls that changed something on a disk, or would have.
        odd: other calls with an effect: on the network, the clock, other processes.
        ended: whether the first process has ended.
    """

    ran: dict[str, bool] = field(default_factory=dict)
    read: dict[str, bool] = field(default_factory=dict)
    changed: dict[str, bool] = field(default_factory=dict)
    odd: dict[str, bool] = field(default_factory=dict)
    ended: bool = False


def read_trace(text: str) -> Effects:
    """Read what `strace -f -y` has written about these calls."""
    effects, pending, first = Effects(), {}, text.partition(" ")[0]
    for line in text.split("\n"):
        number, _, rest = line.partition(" ")
        rest = rest.lstrip()
        if rest.startswith("+++"):
            effects.ended |= number == first
        elif rest.endswith("<unfinished ...>"):
            pending[number] = rest.removesuffix("<unfinished ...>")
        else:
            if rest.startswith("<..."):
                rest = pending.pop(number, "") + rest.partition("resumed>")[2]
            if call := _CALL.match(rest):
                _note(effects, *call.groups())
    effects.odd = {call: True for call in effects.odd if not _is_own_kill(call, text)}
    return effects


def _note(effects, name, arguments, number, rest):
    failed = number.startswith("-")
    if failed and not any(each in rest for each in REFUSED) and name not in SENDING:
        return
    if name.startswith("execve"):
        if not failed:
            words = arguments.partition("[")[2].rpartition("], 0x")[0]
            effects.ran[f"{_find_path(arguments)} {words}"] = True
    elif name in OPENING:
        _note_opening(effects, name, arguments, rest, failed)
    elif name in CHANGING:
        path = _find_path(arguments)
        if not path.startswith(NOWHERE):
            effects.changed[f"{name} {path}"] = True
    elif name not in SENDING or _is_sent_far(arguments):
        effects.odd[f"{name} {arguments[:100]}"] = True


def _note_opening(effects, name, arguments, rest, failed):
    found = _NAME.match(rest)
    path = _decode(found[1]) if found else _find_path(arguments)
    flags = _STRING.sub("", arguments)
    if path.startswith(NOWHERE) or "O_PATH" in flags:
        return
    if WRITING.search(flags) or name == "creat":
        effects.changed[f"{name} {path}"] = True
    if not (failed or "O_WRONLY" in flags or name == "creat" or SYSTEM.match(f"{path}/")):
        effects.read[f"{path}/" if "O_DIRECTORY" in flags else path] = True


def _is_sent_far(arguments):
    is_local = "AF_UNIX" in arguments and "sun_path" in arguments and "nscd" not in arguments
    return is_local or "AF_INET" in arguments


def _is_own_kill(call, text):
    found = re.match(r"t?kill (-?\d+), ", call)
    return found and (found[1] == "0" or re.search(rf"^{found[1]} ", text, re.MULTILINE))


def _find_path(arguments):
    """Return the first path of a call, which starts at the folder that the call names, if any."""
    found = _STRING.search(arguments)
    given = _decode(found[1]) if found else ""
    folder = _NAME.search(arguments[: found.start()] if found else arguments)
    return os.path.join(_decode(folder[1]), given).rstrip("/") if folder else given


def _decode(text):
    raw = codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0]
    return raw.decode("utf-8", "backslashreplace")
