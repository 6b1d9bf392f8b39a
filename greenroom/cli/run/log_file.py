"""The log of a run, written to a file; the terminal never shows it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import TextIO

from greenroom.core import ConfigurationError, clock, serde

_BYTES = 5_000_000  # of one file; with the three older ones a log takes 20 MB at the most
_OLDER = 3


@contextmanager
def log_to_file(path: str) -> Iterator[None]:
    """Write everything that Greenroom logs within the block to this file: one JSON object a line.

    The file is readable by its owner alone; at 5 MB it is renamed, and three older ones are kept.

    Raises:
        ConfigurationError: the file can't be written.
    """
    handler = _open(path)
    logger = logging.getLogger("greenroom")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()


def _open(path: str) -> logging.Handler:
    try:
        handler = _PrivateFile(path, maxBytes=_BYTES, backupCount=_OLDER, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"the log {path} can't be written: {reason}", hint="name another file with --log"
        ) from error
    handler.setFormatter(_JsonLines())
    return handler


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIO:  # type: ignore[override]  # the stub's wrapper is a TextIO
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": clock.timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return serde.dumps(entry).decode()
