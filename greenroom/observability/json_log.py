"""Logs as JSON lines that know which agent, turn and call they belong to."""

import logging
import os
import sys
import traceback
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from greenroom.core import AgentContext
from greenroom.core._internal import conceal, serde
from greenroom.observability import semconv as names
from greenroom.observability.redactor import Redactor
from greenroom.observability.spans import NO_SCOPE, OpenSpan, Span, SpanKind, current

MAX_BYTES = 16 << 20  # of a log file
BACKUPS = 3
MAX_WAITING = 10_000  # lines that wait for the thread
_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_OUTCOME = {
    names.TOOL_CALL_ID: "call",
    names.VALIDATION_MS: "validation_ms",
    names.EXECUTION_MS: "execution_ms",
    names.ERROR_TYPE: "error_type",
}
_ATTEMPTS = ("model.retry", "model.fallback")


class JsonLog(logging.Formatter):
    """A formatter for `logging` that writes each record as a line of JSON, and a sink for spans.

    As a formatter it adds what the current span says: session, agent, turn, call, trace and span,
    and hides the values of its agent's credentials.
    Given to a `Tracer`, it also logs each span that ends, under "greenroom.spans": its status and
    seconds, of a call of a tool how long its validation and its execution took, and how often a
    model was asked.

    Args:
        logger: where spans are logged.
        redact: what takes secrets out of every line.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> handler = logging.StreamHandler(out)
        >>> handler.setFormatter(JsonLog())
        >>> log = logging.Logger("shop")
        >>> log.addHandler(handler)
        >>> log.warning("sold out", extra={"item": "tea"})
        >>> line = serde.loads(out.getvalue())
        >>> line["level"], line["logger"], line["message"], line["item"]
        ('WARNING', 'shop', 'sold out', 'tea')
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, redact: Redactor | None = None
    ) -> None:
        super().__init__()
        self._logger = logger or logging.getLogger("greenroom.spans")
        self._redact = redact or Redactor()

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as a line of JSON; values that JSON lacks become texts."""
        here = current.get()
        opened = here[1] if here else None
        facts: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **(_describe(opened) if opened else {}),
        }
        for name, value in record.__dict__.items():
            if name not in _PLAIN:
                facts[name] = value if isinstance(value, bool | int | float) else str(value)
        if record.exc_info:
            facts["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        if record.stack_info:
            facts["stack"] = record.stack_info
        if opened and opened.agent:
            facts = conceal(facts, opened.agent)
        return serde.encode(self._redact(facts)).decode()

    # What a Tracer calls

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Log nothing: the end says it all."""

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """Log the end of a span."""
        level = logging.ERROR if span.error else logging.INFO
        facts: dict[str, object] = {
            "span_kind": str(span.kind),
            "status": str(span.status),
            "seconds": round(span.seconds, 3),
            "session": span.session_id,
            "agent": "/".join(span.lineage),
            "trace": span.trace_id,
            "span": span.span_id,
            **{_OUTCOME[key]: span.attributes[key] for key in _OUTCOME if key in span.attributes},
        }
        if span.kind == SpanKind.MODEL:
            facts["attempts"] = 1 + sum(event.name in _ATTEMPTS for event in span.events)
        if span.error:
            facts["error"] = span.error
        self._logger.log(level, "%s", span.name, extra=facts)

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Do nothing: the current span is known."""
        return NO_SCOPE


def _describe(opened: OpenSpan) -> dict[str, object]:
    span = opened.span
    facts: dict[str, object] = {
        "session": span.session_id,
        "agent": "/".join(span.lineage),
        "turn": opened.agent.current_turn if opened.agent else 0,
        "trace": span.trace_id,
        "span": span.span_id,
    }
    if span.kind == SpanKind.TOOL:
        facts["call"] = span.attributes.get(names.TOOL_CALL_ID)
    return facts


class PrivateLogFile(RotatingFileHandler):
    """A file with rotation that only its user can read: a log quotes what went wrong.

    What the disk refuses is left out, and the program goes on.
    """

    refusal = ""
    """Why a line could not be written, if one could not."""

    def _open(self) -> TextIO:  # type: ignore[override]  # the stub's wrapper is a TextIO
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

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


class _FileHandler(QueueHandler):
    """Formats records where they are made, which knows the current span, and has them written."""

    def __init__(self, path: str | Path) -> None:
        self._waiting: SimpleQueue[logging.LogRecord] = SimpleQueue()  # bounded in `enqueue`
        super().__init__(self._waiting)
        self._dropped = 0
        self._has_told = False
        self._file = PrivateLogFile(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", delay=True
        )
        self._listener: QueueListener | None = QueueListener(self._waiting, self._file)
        self._listener.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a record whose message is the whole line."""
        made: logging.LogRecord = super().prepare(record)
        made.stack_info = None
        return made

    def enqueue(self, record: logging.LogRecord) -> None:
        """Hand a record to the thread, or drop it."""
        self._tell_refusal()
        if self._waiting.qsize() >= MAX_WAITING:
            self._dropped += 1
            return
        if self._dropped:
            self._waiting.put(_say_dropped(self._dropped))
            self._dropped = 0
        self._waiting.put(record)

    def close(self) -> None:
        """Write what waits, and close the file."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
            self._file.close()
            self._tell_refusal()
        super().close()

    def _tell_refusal(self) -> None:
        """Say once, where it can be seen, that lines are missing."""
        if self._file.refusal and not self._has_told and sys.stderr is not None:
            self._has_told = True
            path, why = self._file.baseFilename, self._file.refusal
            with suppress(OSError, ValueError):  # it is closed, or a pipe that nobody reads
                sys.stderr.write(f"greenroom: lines are missing from the log {path}: {why}\n")


def _say_dropped(count: int) -> logging.LogRecord:
    line = {"level": "WARNING", "logger": __name__, "message": "lines were dropped", "lines": count}
    return logging.makeLogRecord({"msg": serde.encode(line).decode()})


def configure_logging(
    path: str | Path | None = None,
    level: int | str = "INFO",
    *,
    stream: TextIO | None = None,
    redact: Redactor | None = None,
) -> logging.Handler:
    """Log what Greenroom says as JSON lines, to a file with rotation or to a stream.

    The file holds at most 16 MiB, and is made for its user alone (0600); three older ones are kept.
    A thread opens and writes it, so that no event loop waits for a disk: at most 10,000 lines wait
    for it, what comes then is dropped, and the next line says how many. To close the handler writes
    what waits, and so does the end of the program. Your own loggers join if you add the handler
    that is returned to them. Lines that the disk refuses are missing from the file, which one line
    on standard error says.

    Args:
        path: the file; None for the stream.
        level: what is logged at least, such as "DEBUG" or `logging.WARNING`.
        stream: where to write instead of a file; by default standard error.
        redact: what takes secrets out of every line.

    Returns:
        The handler, which is attached to the logger "greenroom" and replaces an earlier one.

    Raises:
        ValueError: the level is unknown.
    """
    logger = logging.getLogger("greenroom")
    logger.setLevel(level)  # first: an unknown one leaves the handler that was there
    handler = logging.StreamHandler(stream or sys.stderr) if path is None else _FileHandler(path)
    handler.setFormatter(JsonLog(redact=redact))
    for each in list(logger.handlers):
        if isinstance(each.formatter, JsonLog):
            logger.removeHandler(each)
            each.close()
    logger.addHandler(handler)
    return handler
