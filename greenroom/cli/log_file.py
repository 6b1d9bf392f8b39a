"""The file of `--log`: readable by its owner alone, and renamed when it has grown."""

from greenroom.core import ConfigurationError
from greenroom.observability import JsonLog
from greenroom.observability._internal import PrivateLogFile

_BYTES = 5_000_000  # of one file; with the three older ones a log takes at most 20 MB
_BACKUPS = 3


def open_log(path: str) -> PrivateLogFile:
    """Open the file that a run writes its log to, as lines of JSON.

    Raises:
        ConfigurationError: the file can't be written.
    """
    try:
        handler = PrivateLogFile(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"the log {path} can't be written: {reason}", hint="name another file with --log"
        ) from error
    handler.setFormatter(JsonLog())
    return handler
