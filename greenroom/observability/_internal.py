"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.observability.spans import SpanStatus as SpanStatus
