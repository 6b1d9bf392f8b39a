"""What a trace says that models answered, to be answered again: as steps of a `ScriptedProvider`.

`find_step` reads one reply; `Subagents` has those of the agents that a session's agent spawned.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    ContentBlock,
    GreenroomError,
    Message,
    ModelRequest,
    StopReason,
    TextBlock,
    ToolResultBlock,
)
from greenroom.core._internal import find_error, serde
from greenroom.observability import Span, semconv as names
from greenroom.observability._internal import read_message, was_asked_again, write_message
from greenroom.testing.models import Reply, Step


class Subagents:
    """The replies and results of the agents below a session's, except those that a tool ran.

    What a tool ran is answered with the tool's result. An agent that asks is taken for the one on
    record that has its names and was first asked the same, else for the next with its names.

    Args:
        spans: the spans of a session and of those below it, with content.
        session_id: the session.
    """

    def __init__(self, spans: Sequence[Span], session_id: str) -> None:
        self.spans = tuple(_list_below(spans, session_id))
        self._waiting: dict[str, deque[Span]] = {}
        for span in self.spans:
            if span.kind == "model" and not was_asked_again(span):
                self._waiting.setdefault(span.session_id, deque()).append(span)
        self._taken: dict[str, str] = {}  # ids on record, by those of today

    def answer(self, agent: AgentContext, request: ModelRequest) -> Step:
        """Return the next reply of an agent's model.

        Raises:
            GreenroomError: none is on record.
        """
        id_ = self._taken.get(agent.session_id) or self._find(agent, request)
        if not (id_ and self._waiting[id_]):
            raise GreenroomError(
                f"the record has no such request of {'/'.join(agent.lineage)}",
                hint="read_trace(…, tree=True) reads what subagents did",
            )
        self._taken[agent.session_id] = id_
        return find_step(self._waiting[id_].popleft(), deque())

    def _find(self, agent: AgentContext, request: ModelRequest) -> str:
        names_below = agent.lineage[1:]
        taken = set(self._taken.values())
        found = [
            (id_, waiting[0])
            for id_, waiting in self._waiting.items()
            if waiting and waiting[0].lineage[1:] == names_below and id_ not in taken
        ]
        asked = _plain([write_message(each)["parts"] for each in request.messages])
        same = (id_ for id_, span in found if _list_parts(span, names.INPUT_MESSAGES) == asked)
        return next(same, found[0][0] if found else "")


def _list_below(spans: Sequence[Span], session_id: str) -> Iterator[Span]:
    """List the spans of the agents below, except those that a tool ran."""
    by_id = {each.span_id: each for each in spans}
    in_tools: dict[str, bool] = {}
    for span in sorted(spans, key=lambda each: each.start):
        if span.session_id == session_id:
            continue
        if span.session_id not in in_tools:
            above = by_id.get(span.parent_id)
            in_tools[span.session_id] = above is not None and (
                above.kind == "tool" or in_tools.get(above.session_id, False)
            )
        if not in_tools[span.session_id] and span.kind in ("turn", "model", "tool"):
            yield span


def list_traced_results(spans: Iterable[Span]) -> Iterator[ToolResultBlock]:
    """List the results that tools had, as far as a trace tells them."""
    for span in spans:
        if span.kind == "tool" and names.TOOL_RESULT in span.attributes:
            text = TextBlock(str(span.attributes[names.TOOL_RESULT]))
            id_ = str(span.attributes[names.TOOL_CALL_ID])
            yield ToolResultBlock(id_, (text,), is_error=span.status == "error")


def list_traced_errors(spans: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """List the calls that failed: their ids, each with the class of its error."""
    for span in spans:
        if span.kind == "tool" and names.ERROR_TYPE in span.attributes:
            yield str(span.attributes[names.TOOL_CALL_ID]), str(span.attributes[names.ERROR_TYPE])


def _list_parts(span: Span, name: str) -> list[object]:
    """Return what was said in each of the messages of a span."""
    written = cast("Sequence[Mapping[str, object]]", _plain(span.attributes[name]))
    return [each["parts"] for each in written]


def find_step(span: Span, waiting: deque[Message]) -> Step:
    """Return how the model answers, and take the message from those that wait if it is there."""
    if span.status == "ok":
        (written,) = _list_parts(span, names.OUTPUT_MESSAGES)
        if waiting and _plain(write_message(waiting[0])["parts"]) == written:
            return waiting.popleft()
        return _rebuild(span)
    content: list[ContentBlock] = []  # what had come until then
    if waiting and waiting[0].stop_reason is StopReason.INTERRUPTED:
        content = list(waiting.popleft().content)
    if span.status == "error":
        return Reply(content, error=_rebuild_error(span.error))
    return Reply(content, hangs=True)


def _plain(value: object) -> object:
    return serde.loads(serde.encode(value))


def _rebuild(span: Span) -> Message:
    """Make a reply of what the trace says: one that was thrown away, or the notes of a summary."""
    (written,) = cast("Sequence[Mapping[str, object]]", span.attributes[names.OUTPUT_MESSAGES])
    read = read_message(written)
    reason = StopReason.TOOL_USE if read.tool_uses else StopReason.END_TURN
    if written.get("finish_reason") == "length":
        reason = StopReason.MAX_TOKENS
    return replace(read, stop_reason=reason, usage=span.usage)


def _rebuild_error(text: str) -> GreenroomError:
    """Make the error that a call ended with: its class decides what happens next."""
    name, _, message = text.partition(": ")
    kind = find_error(name) or GreenroomError
    try:
        return kind(message)
    except TypeError:  # one that takes more than a message
        return GreenroomError(text)
