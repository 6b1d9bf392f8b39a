from greenroom.observability.spans import SpanStatus as SpanStatus
