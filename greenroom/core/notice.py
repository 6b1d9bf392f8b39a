"""Warnings that must be seen, also in a program that never set up logging.

A library attaches a `NullHandler` to its logger, so that it writes nothing where the program does not
ask for it. A program that waits for ever, or whose event loop is blocked, would then say nothing. So
these few warnings go to standard error where no handler takes them.
"""

import contextlib
import logging
import sys


def notice(logger: logging.Logger, text: str) -> None:
    """Log a warning; where nothing handles the log, write it to standard error."""
    logger.warning("%s", text)
    if not _is_handled(logger):
        write_to_stderr(text)


def write_to_stderr(text: str) -> None:
    """Write a line to standard error, if there is one that still takes it."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # a broken pipe, a closed file
        sys.stderr.write(f"greenroom: {text}\n")
        sys.stderr.flush()


def _is_handled(logger: logging.Logger) -> bool:
    each: logging.Logger | None = logger
    while each is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in each.handlers):
            return True
        each = each.parent if each.propagate else None
    return False
