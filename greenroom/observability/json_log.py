"""Logs as JSON lines that know which agent, turn and call they belong to."""

import logging
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from greenroom.core import AgentContext
from greenroom.core._internal import serde
from greenroom.observability import semconv as names
from greenroom.observability.redactor import Redactor
from greenroom.observability.spans import Span, SpanKind, current

MAX_BYTES = 16 << 20  # of a log file
BACKUPS = 3
_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLog(logging.Formatter):
    """A formatter for `logging` that writes each record as a line of JSON, and a sink for spans.

    As a formatter it adds what the current span says: session, agent, turn, call, trace and span.
    Given to a `Tracer`, it also logs each span that ends, under "greenroom.spans".

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
        facts: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_describe_current(),
        }
        for name, value in record.__dict__.items():
            if name not in _PLAIN:
                facts[name] = value if isinstance(value, bool | int | float) else str(value)
        if record.exc_info:
            facts["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return serde.encode(self._redact(facts)).decode()

    # What a Tracer calls

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Log nothing: the end says it all."""

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """Log the end of a span."""
        level = logging.ERROR if span.error else logging.INFO
        facts = {
            "span_kind": str(span.kind),
            "status": str(span.status),
            "seconds": round(span.seconds, 3),
            "session": span.session_id,
            "agent": "/".join(span.lineage),
            "trace": span.trace_id,
            "span": span.span_id,
        }
        if span.error:
            facts["error"] = span.error
        self._logger.log(level, "%s", span.name, extra=facts)

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Do nothing: the current span is known."""
        return nullcontext()


def _describe_current() -> dict[str, object]:
    here = current.get()
    if here is None:
        return {}
    span = here[1].span
    facts: dict[str, object] = {
        "session": span.session_id,
        "agent": "/".join(span.lineage),
        "turn": here[1].agent.current_turn if here[1].agent else 0,
        "trace": span.trace_id,
        "span": span.span_id,
    }
    if span.kind == SpanKind.TOOL:
        facts["call"] = span.attributes.get(names.TOOL_CALL_ID)
    return facts


def configure_logging(
    path: str | Path | None = None,
    level: int | str = "INFO",
    *,
    stream: TextIO | None = None,
    redact: Redactor | None = None,
) -> logging.Handler:
    """Log what Greenroom says as JSON lines, to a file with rotation or to a stream.

    The file holds at most 16 MiB; three older ones are kept. Writing is done in the thread that
    logs. Your own loggers join if you add the handler that is returned to them.

    Args:
        path: the file; None for the stream.
        level: what is logged at least, such as "DEBUG" or `logging.WARNING`.
        stream: where to write instead of a file; by default standard error.
        redact: what takes secrets out of every line.

    Returns:
        The handler, which is attached to the logger "greenroom" and replaces an earlier one.

    Raises:
        OSError: the file can't be opened.
        ValueError: the level is unknown.
    """
    handler: logging.Handler = (
        logging.StreamHandler(stream or sys.stderr)
        if path is None
        else RotatingFileHandler(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", delay=True
        )
    )
    handler.setFormatter(JsonLog(redact=redact))
    logger = logging.getLogger("greenroom")
    for each in list(logger.handlers):
        if isinstance(each.formatter, JsonLog):
            logger.removeHandler(each)
            each.close()
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler
