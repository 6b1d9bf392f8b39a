"""Traces, metrics, logs, records and bills of what agents do: one stream, many readers.

`Tracer` is an instrument that turns hooks into spans (`spans`), with what was said in the form of
OpenTelemetry's conventions (`content`, `semconv`). Sinks take them: `TraceFile` writes them beside
each session and `read_trace` reads them back; `Metrics` counts them; `JsonLog` logs them.

Other instruments stand alone: `Recorder` writes requests and replies as files, `Ledger` adds up
what was paid, `InvariantCheck` checks the runtime's promises, and `Audit`, which is a gate as well,
writes who let which call run. `Redactor` takes secrets out of whatever leaves. `line_files` has the
writer that several of them share.
"""

from greenroom.observability.audit import Audit, AuditError, AuditReport, verify_audit
from greenroom.observability.invariants import InvariantCheck
from greenroom.observability.json_log import JsonLog, configure_logging
from greenroom.observability.ledger import Ledger
from greenroom.observability.metrics import Metrics
from greenroom.observability.recorder import Recorder
from greenroom.observability.redactor import Redactor
from greenroom.observability.spans import Span, SpanSink, current_traceparent, span
from greenroom.observability.trace import read_trace
from greenroom.observability.trace_file import TraceFile
from greenroom.observability.tracer import Tracer

__all__ = [
    "Audit",
    "AuditError",
    "AuditReport",
    "InvariantCheck",
    "JsonLog",
    "Ledger",
    "Metrics",
    "Recorder",
    "Redactor",
    "Span",
    "SpanSink",
    "TraceFile",
    "Tracer",
    "configure_logging",
    "current_traceparent",
    "read_trace",
    "span",
    "verify_audit",
]
