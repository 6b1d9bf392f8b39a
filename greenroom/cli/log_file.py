"""The file of `--log`: readable by its owner alone, and renamed when it has grown."""

import logging
import os
from logging.handlers import RotatingFileHandler
from typing import TextIO

from greenroom.core import ConfigurationError
from greenroom.observability import JsonLog

_BYTES = 5_000_000  # of one file; with the three older ones a log takes at most 20 MB
_BACKUPS = 3


def open_log(path: str) -> logging.Handler:
    """Open the file that a run writes its log to, as lines of JSON.

    Raises:
        ConfigurationError: the file can't be written.
    """
    try:
        handler = _PrivateFile(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"the log {path} can't be written: {reason}", hint="name another file with --log"
        ) from error
    handler.setFormatter(JsonLog())
    return handler


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIO:  # type: ignore[override]  # the stub's wrapper is a TextIO
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")
