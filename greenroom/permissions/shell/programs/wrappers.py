"""Programs that run the program which their own words name."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word

__all__ = ["ELSEWHERE", "SHELLS", "WRAPPERS", "Wrapper", "inner_start"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the program that a wrapper runs.

    Attributes:
        values: its short options that take a value, and after a blank its long ones.
        flags: its short options without a value, and after a blank its long ones.
        operands: how many words stand before the program.
        transparent: the program is all that matters; allowing it allows the wrapped call.
        text: its words are joined and read as a command.
    """

    values: str = ""
    flags: str = ""
    operands: int = 0
    transparent: bool = False
    text: bool = False


SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash")
)

WRAPPERS: dict[str, Wrapper] = {
    "timeout": Wrapper(
        "ks --kill-after --signal", "v --foreground --preserve-status --verbose", 1, True
    ),
    "nice": Wrapper("n --adjustment", "0123456789", 0, True),
    "nohup": Wrapper(transparent=True),
    "stdbuf": Wrapper("ioe --input --output --error", "", 0, True),
    "command": Wrapper("", "p", 0, True),
    "ionice": Wrapper("cn --class --classdata", "t --ignore", 0, True),
    "setsid": Wrapper("", "cfw --ctty --fork --wait", 0, True),
    "env": Wrapper("uC --unset --chdir", "i0v --ignore-environment --null", 0),
    "time": Wrapper("fo --format --output", "apqvV --portability --append --verbose"),
    "sudo": Wrapper(
        "ugpCrtThDRUa --user --group --prompt --chdir --host --role --type --chroot",
        "AbEHiKklnPSsVv --askpass --background --login --non-interactive --preserve-env --shell",
    ),
    "doas": Wrapper("uC", "Lns"),
    "xargs": Wrapper(
        "IEnPLsda --max-args --max-procs --replace --delimiter --arg-file --max-lines --max-chars",
        "0rtxpo --null --no-run-if-empty --verbose --exit --interactive --open-tty",
    ),
    "exec": Wrapper("a", "cl"),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "watch": Wrapper("n --interval", "bcdegptx --beep --color --differences", text=True),
    "flock": Wrapper("wE --timeout --conflict-exit-code", "sxneuoF --shared --exclusive", 1),
    "strace": Wrapper("eopPsSuaIOEXbU", "cCdDffhiknqrtTvVwxyzZ"),
    "ltrace": Wrapper("eopsuaxlnAF", "cCfhiLrStTV"),
    "chroot": Wrapper(" --userspec --groups", " --skip-chdir", 1),
    "unshare": Wrapper("RwSGl", "imnpuUCTrcfh --fork --user --pid --net --mount --map-root-user"),
    "nsenter": Wrapper("tSGW --target", "amuinpCUTrwFZeh --all --mount --uts --ipc --net --pid"),
    "setpriv": Wrapper(" --reuid --regid --groups", "d --clear-groups --no-new-privs"),
    "taskset": Wrapper("", "acp", 1),
    "chrt": Wrapper("TPD", "bdfiormapv", 1),
    "parallel": Wrapper("jnNIaSP --jobs --max-args", "0kmXv --keep-order --dry-run", text=True),
    "sem": Wrapper("j --jobs --id", " --fg --wait", text=True),
    "gosu": Wrapper(operands=1),
    "su-exec": Wrapper(operands=1),
    "pkexec": Wrapper(" --user"),
    "runuser": Wrapper("ugG --user --group"),
    "setarch": Wrapper(operands=1),
    "prlimit": Wrapper("p"),
    "numactl": Wrapper("ipmNC"),
    "systemd-run": Wrapper("pMEudH --property --unit", "tPqGS --user --scope --pty --wait"),
    "fakeroot": Wrapper("lfis"),
    "faketime": Wrapper("f", "m", 1),
    "unbuffer": Wrapper(flags="p"),
    "xvfb-run": Wrapper("efnpsw", "al"),
    "dbus-run-session": Wrapper(),
    "proxychains": Wrapper("f", "q"),
    "proxychains4": Wrapper("f", "q"),
    "torsocks": Wrapper(),
    "catchsegv": Wrapper(),
    "valgrind": Wrapper(),
    "rlwrap": Wrapper("abcCDefHlmMOpPqsStTwz"),
    "entr": Wrapper(flags="acdnprsxz"),
    "caffeinate": Wrapper("tw", "dimsu"),
    "tini": Wrapper("ep", "gsvw"),
    "dumb-init": Wrapper("r", "cv"),
    "hyperfine": Wrapper("wrmMpsScn --warmup --runs", "iN", text=True),
    "bwrap": Wrapper(),
    "firejail": Wrapper(),
    "sg": Wrapper(operands=1, text=True),
    "ssh-agent": Wrapper("atEPO", "cDdks"),
    "start-stop-daemon": Wrapper("xanupc --exec --startas", "SKbmqv --start --background"),
}

# They run a program too, but in another environment, which their own rule has to speak for.
ELSEWHERE = frozenset(
    (
        "npx",
        "bunx",
        "uvx",
        "pipx",
        "uv",
        "poetry",
        "pipenv",
        "pdm",
        "rye",
        "hatch",
        "conda",
        "mamba",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "bundle",
        "fd",
        "fdfind",
        "nix-shell",
        "docker",
        "podman",
        "kubectl",
        "nix",
        "direnv",
        "mise",
        "asdf",
        "ssh",
        "mosh",
        "vagrant",
        "perf",
        "gdb",
        "screen",
        "tmux",
        "chpst",
        "softlimit",
        "cgexec",
        "lxc",
        "machinectl",
        "toolbox",
        "distrobox",
        "flatpak",
    )
)


def inner_start(argv: Sequence[Word], wrapper: Wrapper, begin: int = 0) -> int | None:
    """Find the word that begins the wrapped command; None if an option is not understood.

    Args:
        argv: the words.
        wrapper: the program that stands at `begin`.
        begin: where the wrapper's own words begin.
    """
    at = begin + 1
    while at < len(argv) and argv[at].text.startswith("-") and len(argv[at].text) > 1:
        if not argv[at].static:
            return None
        if argv[at].text == "--":
            at += 1
            break
        step = _step(argv[at].text, wrapper)
        if step is None:
            return None
        at += step
    start = at + wrapper.operands
    return start if all(word.static for word in argv[at:start]) else None


def _step(option: str, wrapper: Wrapper) -> int | None:
    """Say how many words an option takes; None if it is not a known one."""
    short_values, *long_values = wrapper.values.split(" ")
    short_flags, *long_flags = wrapper.flags.split(" ")
    if option.startswith("--"):
        name, _, value = option.partition("=")
        if name in long_values:
            return 1 if value else 2
        return 1 if name in long_flags else None
    for place, letter in enumerate(option[1:], 1):
        if letter in short_values:
            return 2 if place == len(option) - 1 else 1
        if letter not in short_flags:
            return None
    return 1
