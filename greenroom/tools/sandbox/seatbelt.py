"""Seatbelt: what `sandbox-exec` of macOS is told, as text."""

from collections.abc import Iterator
from pathlib import Path

from greenroom.tools.sandbox.ground import Ground

SANDBOX_EXEC = "/usr/bin/sandbox-exec"


def seatbelt_profile(ground: Ground, temporary: str, *, network: bool) -> str:
    """Return the profile of a command: of several lines that fit, the last one counts.

    Example:
        >>> ground = Ground("/ws", ("/ws",), ("/ws/.git",), ("/ws/secret",), ())
        >>> print(seatbelt_profile(ground, "/private/tmp/x", network=False))
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
    return "\n".join(_lines(ground, temporary, network=network))


def _lines(ground: Ground, temporary: str, *, network: bool) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    yield "(deny file-write*)"
    devices = " ".join(f'(literal "/dev/{name}")' for name in ("null", "zero", "tty"))
    yield f"(allow file-write* {devices})"
    rules = [
        *((path, "allow file-read* file-write*") for path in (*ground.writable, temporary)),
        *((path, "allow file-read*") for path in ground.shown if ground.hidden),
        *((path, "deny file-write*") for path in ground.protected),
        *((path, "deny file-read* file-write*") for path in ground.hidden),
    ]
    # What lies deeper comes later, so that the most specific counts.
    rules.sort(key=lambda rule: len(Path(rule[0]).parts))
    yield from (f"({what} (subpath {_quoted(path)}))" for path, what in rules)
    yield "(deny signal)"
    yield "(allow signal (target same-sandbox))"
    # It starts programs that are held by nothing.
    yield '(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))'
    if not network:
        yield "(deny network*)"


def _quoted(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
