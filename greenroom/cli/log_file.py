"""The file of `--log`: readable by its owner alone, and renamed when it has grown."""

import logging
import sys

from greenroom.core import ConfigurationError
from greenroom.observability import JsonLog
from greenroom.observability._internal import PrivateLogFile

_BYTES = 5_000_000  # of one file; with the three older ones a log takes at most 20 MB
_BACKUPS = 3


def open_log(path: str) -> "LogFile":
    """Open the file that a run writes its log to, as lines of JSON.

    Raises:
        ConfigurationError: the file can't be written.
    """
    try:
        handler = LogFile(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"the log {path} can't be written: {reason}", hint="name another file with --log"
        ) from error
    handler.setFormatter(JsonLog())
    return handler


class LogFile(PrivateLogFile):
    """The file; what the disk refuses is left out, and the run goes on."""

    refusal = ""
    """Why a line could not be written, if one could not."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """Keep the reason; anything but an error of the system is reported as usual."""
        error = sys.exception()
        if isinstance(error, OSError):
            self.refusal = error.strerror or str(error)
        else:
            super().handleError(record)

    def close(self) -> None:
        """Close the file; what was not flushed may be lost."""
        try:
            super().close()
        except OSError as error:
            self.refusal = error.strerror or str(error)
