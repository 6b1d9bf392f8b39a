"""Programs that run the program which their own words name."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word

__all__ = ["RUNNERS", "SHELLS", "WRAPPERS", "Wrapper", "inner_start"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the program that a wrapper runs.

    Attributes:
        values: its short options that take a value, and after a blank its long ones.
        flags: its short options without a value, and after a blank its long ones.
        operands: how many words stand before the program.
        transparent: the program is all that matters; allowing it allows the wrapped call.
        text: its words are joined and read as a command.
        fills: it adds words from its standard input, also in the place of `{}`.
    """

    values: str = ""
    flags: str = ""
    operands: int = 0
    transparent: bool = False
    text: bool = False
    fills: bool = False


SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash")
)

WRAPPERS: dict[str, Wrapper] = {
    "timeout": Wrapper(
        "ks --kill-after --signal", "v --foreground --preserve-status --verbose", 1, True
    ),
    "nice": Wrapper("n --adjustment", "0123456789", transparent=True),
    "nohup": Wrapper(transparent=True),
    "stdbuf": Wrapper("ioe --input --output --error", transparent=True),
    "command": Wrapper("", "p", transparent=True),
    "ionice": Wrapper("cn --class --classdata", "t --ignore", transparent=True),
    "setsid": Wrapper("", "cfw --ctty --fork --wait", transparent=True),
    # Not -i, -u and -C, which change what `$HOME` and paths mean.
    "env": Wrapper("", "0v --null"),
    "time": Wrapper("fo --format --output", "apqvV --portability --append --verbose"),
    "sudo": Wrapper(
        "ugpCrtThDRUa --user --group --prompt --chdir", "AbEHKknPSVv --non-interactive"
    ),
    "doas": Wrapper("uC", "Ln"),
    "xargs": Wrapper(
        "IEnPLsda --max-args --max-procs --replace --delimiter --arg-file --max-lines --max-chars",
        "0rtxpo --null --no-run-if-empty --verbose --exit --interactive --open-tty",
        fills=True,
    ),
    "exec": Wrapper("a", "cl"),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "watch": Wrapper("n --interval", "bcdegptx --beep --color --differences", text=True),
    "flock": Wrapper("wE --timeout --conflict-exit-code", "sxneuoF --shared --exclusive", 1),
    "strace": Wrapper("eopPsSuaIOEXbU", "cCdDffhiknqrtTvVwxyzZ"),
    "parallel": Wrapper("jnNIaSP --jobs --max-args", "0kmXv --keep-order", text=True, fills=True),
}


# They run what their words say too, somewhere else or later: their own rule has to speak for it.
_RUNNERS = """
    npx bunx uvx pipx uv poetry pipenv pdm rye hatch conda mamba npm pnpm yarn bun bundle fd fdfind
    nix nix-shell docker podman kubectl direnv mise asdf ssh mosh vagrant perf gdb screen tmux chpst
    softlimit cgexec lxc machinectl toolbox distrobox flatpak chroot unshare nsenter setpriv taskset
    chrt toybox ltrace runuser pkexec systemd-run entr unbuffer hyperfine sem gosu
"""
RUNNERS = frozenset(_RUNNERS.split())


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
