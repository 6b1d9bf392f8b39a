"""Whether the terminal's background is light, as it says itself (OSC 11).

It is asked before the input line opens, since its answer would be typed into that.
"""

import os
import select
import sys
import termios
import time
import tty

from greenroom.core._internal import compile_later

_PATIENCE = 0.1  # seconds
_ASK = b"\x1b]11;?\x1b\\\x1b[c"  # for the background, and for what every terminal answers
_BACKGROUND = compile_later(
    rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_ATTRIBUTES = compile_later(rb"\x1b\[\?[0-9;]*c")


def has_light_background() -> bool:
    """Ask the terminal for its background, for at most 0.1 seconds, and return whether it is light.

    What a person types meanwhile is kept for the input line. Where there is nobody to ask, it is
    dark.
    """
    answer = _ask_terminal()
    return answer is not None and is_light(answer)


def is_light(answer: bytes) -> bool:
    r"""Return whether what a terminal says of its background (OSC 11) is a light colour.

    Example:
        >>> is_light(b"\x1b]11;rgb:ffff/ffff/dddd\x07"), is_light(b"\x1b]11;rgb:00/2b/36\x07")
        (True, False)
    """
    found = _BACKGROUND.search(answer)
    if found is None:
        return False
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5)


def _ask_terminal() -> bytes | None:
    """Ask for the background; return the answer, or None where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("NO_COLOR"):
        return None
    if os.environ.get("TERM", "") in ("", "dumb", "linux"):
        return None
    descriptor = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSANOW)
    except termios.error:
        return None
    try:
        os.write(sys.stdout.fileno(), _ASK)
        said = _read_answers(descriptor)
    except OSError:
        return None
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
    _keep_typed(_ATTRIBUTES.sub(b"", _BACKGROUND.sub(b"", said)))
    return said


def _read_answers(descriptor: int) -> bytes:
    """Read until the terminal has answered the second question, or is silent for too long."""
    said, deadline = b"", time.monotonic() + _PATIENCE
    while not _ATTRIBUTES.search(said) and (left := deadline - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            more = os.read(descriptor, 4_096)
            if not more:
                break
            said += more
    return said


def _keep_typed(typed: bytes) -> None:
    """Keep what a person typed for the input line."""
    if not typed:
        return
    from prompt_toolkit.input import create_input
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding import KeyPress

    keys = list[KeyPress]()
    Vt100Parser(keys.append).feed_and_flush(typed.decode("utf-8", "replace"))
    store_typeahead(create_input(sys.stdin), keys)
