from greenroom.observability.diagnosis import diagnose as diagnose
from greenroom.observability.spans import SpanStatus as SpanStatus
from greenroom.observability.trace import Trace as Trace
