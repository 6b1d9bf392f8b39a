"""`greenroom` with a command of the input line that holds up the event loop: `held_up.py WORDS`."""

import sys
import time

from greenroom.cli import command_help, main

SECONDS = 0.5


async def show_nothing(context, words):
    time.sleep(SECONDS)  # noqa: ASYNC251 (what must not be)


if __name__ == "__main__":
    command_help.show_help = show_nothing
    sys.exit(main(sys.argv[1:]))
