from greenroom.core.trace_context import current_traceparent as current_traceparent
from greenroom.observability.audit import (
    Audit as Audit,
    AuditReport as AuditReport,
    verify_audit as verify_audit,
)
from greenroom.observability.diagnosis import Diagnosis as Diagnosis, diagnose as diagnose
from greenroom.observability.invariants import InvariantCheck as InvariantCheck
from greenroom.observability.json_log import (
    JsonLog as JsonLog,
    configure_logging as configure_logging,
)
from greenroom.observability.ledger import Ledger as Ledger
from greenroom.observability.metrics import Metrics as Metrics
from greenroom.observability.otel import OpenTelemetry as OpenTelemetry
from greenroom.observability.prompts import Section as Section, prompt_sections as prompt_sections
from greenroom.observability.recorder import Recorder as Recorder
from greenroom.observability.redactor import Redactor as Redactor
from greenroom.observability.spans import Span as Span, SpanSink as SpanSink, span as span
from greenroom.observability.trace import Trace as Trace, read_trace as read_trace
from greenroom.observability.trace_file import TraceFile as TraceFile
from greenroom.observability.tracer import Tracer as Tracer
