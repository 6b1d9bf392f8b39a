"""Which terminal there is: the live one, or the plain one. It loads as little as it can."""

import os
import sys
from collections.abc import Mapping

from greenroom.cli.terminal import TerminalOpener, open_plain_terminal


def terminal_opener(env: Mapping[str, str] | None = None) -> TerminalOpener:
    """Choose how to use the terminal of standard input and output: live where it can be."""
    env = os.environ if env is None else env
    is_real = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_real or env.get("TERM", "") in ("", "dumb"):
        return open_plain_terminal
    from greenroom.cli.live_terminal import open_prompt_terminal

    return open_prompt_terminal
