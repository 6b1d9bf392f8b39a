from greenroom.observability.audit import AuditError as AuditError
from greenroom.observability.content import (
    read_message as read_message,
    write_message as write_message,
)
from greenroom.observability.json_log import PrivateLogFile as PrivateLogFile
from greenroom.observability.prompts import (
    list_requests as list_requests,
    read_request as read_request,
    was_asked_again as was_asked_again,
)
from greenroom.observability.spans import SpanStatus as SpanStatus
from greenroom.observability.trace_file import read_spans as read_spans, write_spans as write_spans
