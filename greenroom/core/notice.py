"""Warnings that must be seen, also in a program that never set up logging.

A library attaches a `NullHandler` to its logger, so that it writes nothing where the program does not
ask for it. That would leave somebody who waits for ever, or whose event loop stands still, without a
word. So these few go to standard error where no handler takes them.
"""

import logging
import sys

__all__ = ["notice"]


def notice(logger: logging.Logger, text: str) -> None:
    """Log a warning; where nothing handles the log, write it to standard error."""
    logger.warning("%s", text)
    if not _is_handled(logger) and sys.stderr is not None:
        sys.stderr.write(f"greenroom: {text}\n")
        sys.stderr.flush()


def _is_handled(logger: logging.Logger) -> bool:
    each: logging.Logger | None = logger
    while each is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in each.handlers):
            return True
        each = each.parent if each.propagate else None
    return False
