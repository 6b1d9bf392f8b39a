"""Traces, metrics, logs, records and bills of what agents do: one stream, many readers.

`Tracer` is an instrument that turns hooks into spans (`spans`), with what was said in the form of
OpenTelemetry's conventions (`content`, `semconv`). Sinks take them: `TraceFile` writes them beside
each session and `read_trace` reads them back; `Metrics` counts them; `JsonLog` logs them.

Other instruments stand alone: `Recorder` writes requests and replies as files, `Ledger` adds up
what was paid, `InvariantCheck` checks the runtime's promises, and `Audit`, which is a gate as well,
writes who let which call run. `Redactor` takes secrets out of whatever leaves. `line_files` has the
writer that several of them share.
"""

from greenroom.observability.audit import (
    Audit as Audit,
    AuditReport as AuditReport,
    verify_audit as verify_audit,
)
from greenroom.observability.invariants import InvariantCheck as InvariantCheck
from greenroom.observability.json_log import (
    JsonLog as JsonLog,
    configure_logging as configure_logging,
)
from greenroom.observability.ledger import Ledger as Ledger, LedgerKey as LedgerKey
from greenroom.observability.metrics import Metrics as Metrics
from greenroom.observability.recorder import Recorder as Recorder
from greenroom.observability.redactor import Redactor as Redactor
from greenroom.observability.spans import (
    Span as Span,
    SpanEvent as SpanEvent,
    SpanKind as SpanKind,
    SpanSink as SpanSink,
    SpanStatus as SpanStatus,
    current_traceparent as current_traceparent,
    span as span,
)
from greenroom.observability.trace import Trace as Trace, read_trace as read_trace
from greenroom.observability.trace_file import TraceFile as TraceFile
from greenroom.observability.tracer import ContentLevel as ContentLevel, Tracer as Tracer
