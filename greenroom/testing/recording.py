"""A recording: all of a session that running it again takes, as one value and as a text.

It is made of the conversation (inputs, replies, results), of what persons decided, and of the spans
of the trace, which say what the model was asked, in which turn, and how each call and turn ended.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from greenroom.core import ConfigurationError, Message, RuleDecision
from greenroom.core._internal import (
    AUTOMATIC_DECIDERS,
    InvalidJSONError,
    PermissionRecord,
    Wire,
    serde,
)
from greenroom.observability import Redactor, Span, Trace, semconv as names
from greenroom.observability._internal import read_spans, was_asked_again, write_spans
from greenroom.session import AgentSession
from greenroom.testing.models import Step
from greenroom.testing.traced_replies import Subagents, find_step, list_traced_errors

_STOPPED = ("interrupted", "open", "waiting")


class Decided(Wire, frozen=True):
    """What was decided about a call: an answer to give again, should somebody be asked.

    Attributes:
        tool_use_id: the call.
        decision: the outcome.
        message: what the model was told, in words.
        by: who decided; what no person did is done by "record".
    """

    tool_use_id: str
    decision: RuleDecision
    message: str = ""
    by: str = "user"


class Head(Wire, frozen=True):
    """The first line of a recording.

    Attributes:
        session_id: the session.
        agent_type: the type of its agent.
        before: the messages that the conversation began with, before what was traced.
        messages: all that were added since, in order, also those that were left behind later.
        decisions: what was decided about calls.
        errors: the ids of calls that failed, each with the class of its error.
    """

    session_id: str
    agent_type: str
    before: tuple[Message, ...] = ()
    messages: tuple[Message, ...] = ()
    decisions: tuple[Decided, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RecordedCall:
    """A call of the model: what it was asked, and how it answers when it is asked again."""

    span: Span
    step: Step


@dataclass(frozen=True)
class RecordedTurn:
    """A turn: what it began with, its calls of the model, and whether it came to its end."""

    input: Message
    calls: tuple[RecordedCall, ...]
    status: str

    @property
    def was_stopped(self) -> bool:
        """Whether somebody ended it before its time."""
        return self.status in _STOPPED

    @property
    def is_last(self) -> bool:
        """Whether what came after it came in another process, or under other conditions."""
        return self.status in ("open", "waiting")


@dataclass(frozen=True)
class Recording:
    """A session with its trace, to be run again.

    Attributes:
        head: the session.
        spans: its turns and calls of models, in order.
        below: those of the agents that it spawned, and their calls of tools.
    """

    head: Head
    spans: tuple[Span, ...]
    below: tuple[Span, ...] = ()

    @classmethod
    async def of(cls, session: AgentSession, trace: Trace) -> "Recording":
        """Collect it.

        Raises:
            ConfigurationError: the trace has no content, or lacks lines.
            SessionError: the session can't be read.
        """
        id_ = session.session_id
        spans = [each for each in trace.spans if each.session_id == id_]
        check_content(spans, trace, id_)
        unique: dict[str, Message] = {}
        before: tuple[Message, ...] = ()
        first = next((_input_id(each) for each in spans if each.kind == "turn"), "")
        for branch in await session.read_branches():
            history = branch.history
            at = [place for place, each in enumerate(history) if first and each.id == first]
            before = history[: at[0]] if at and not before else before
            unique.update((each.id, each) for each in history if each.id not in unique)
        known = {each.id for each in before}
        decided = [
            _read_decision(each)
            for each in await session.read_decisions()
            if each.by != "withdrawn"  # a question that nobody answered
        ]
        head = Head(
            id_,
            session.agent_type,
            before,
            tuple(each for id_, each in unique.items() if id_ not in known),
            tuple(decided),
            tuple(list_traced_errors(spans)),
        )
        below = Subagents(trace.spans, id_).spans
        _check_below(spans, below)
        kept = tuple(each for each in spans if each.kind in ("turn", "model"))
        return cls(head, kept, below)

    @classmethod
    def from_text(cls, text: str) -> "Recording":
        """Read what `to_text` has written.

        Raises:
            ConfigurationError: it is not such a text.
        """
        first, *rest = [line for line in text.splitlines() if line.strip()] or [""]
        try:
            head = serde.decode(first.encode(), Head)
            lines = [serde.loads(line.encode()) for line in rest]
        except InvalidJSONError as error:
            raise ConfigurationError(
                f"this is not the record of a session: {error.message}",
                hint="make it anew with greenroom export-test",
            ) from error
        spans, _ = read_spans(cast("Iterable[Mapping[str, object]]", lines))
        own = tuple(each for each in spans if each.session_id == head.session_id)
        return cls(head, own, tuple(each for each in spans if each.session_id != head.session_id))

    def to_text(self) -> str:
        """Write it as lines of JSON, without secrets."""
        redact = Redactor()
        head = serde.convert(redact(msgspec.to_builtins(self.head)), Head)
        lines = [serde.encode(head).decode()]
        lines += [serde.encode(each).decode() for each in write_spans((*self.spans, *self.below))]
        return "\n".join(lines)

    def list_turns(self) -> list[RecordedTurn]:
        """Return the turns, each with its calls, in order.

        A turn whose input is not in the conversation is left out, with its calls: it asked nothing,
        or it was of another kind.
        """
        inputs = {each.id: each for each in self.head.messages}
        waiting = deque(each for each in self.head.messages if each.role == "assistant")
        found: list[tuple[Span, list[RecordedCall]]] = []
        for span in self.spans:
            if span.kind == "turn":
                found.append((span, []))
            elif found and not was_asked_again(span):
                found[-1][1].append(RecordedCall(span, find_step(span, waiting)))
        return [
            RecordedTurn(inputs[id_], tuple(calls), str(span.status))
            for span, calls in found
            if (id_ := _input_id(span)) in inputs
        ]


def check_content(spans: Sequence[Span], trace: Trace, session_id: str) -> None:
    """Check that a trace is whole, and has what the models of a session and its agents were asked.

    Raises:
        ConfigurationError: it lacks lines, or content.
    """
    models = [each for each in spans if each.kind == "model"]
    if not models:
        below = {each.session_id: None for each in trace.spans if each.kind == "model"}
        raise ConfigurationError(
            f"the trace of {session_id} has no request to a model",
            hint=f"those below it have: {', '.join(below)}" if below else "",
        )
    # All of them: a session may go on in a process that records less.
    others = (each for each in Subagents(trace.spans, session_id).spans if each.kind == "model")
    without = (each for each in (*models, *others) if names.INPUT_MESSAGES not in each.attributes)
    if found := next(without, None):
        raise ConfigurationError(
            f"the trace of {found.session_id} does not say what its model was asked",
            hint='record it with Tracer(…, content="redacted")',
        )
    if trace.missing:
        raise ConfigurationError(
            f"{trace.missing} lines of the trace of {session_id} were dropped",
            hint="record a shorter session, or pass TraceFile a larger keep",
        )


def _check_below(spans: Sequence[Span], below: Sequence[Span]) -> None:
    """Refuse turns of subagents that ended before their time, while the one above went on.

    Raises:
        ConfigurationError: there is one.
    """
    stopped = [each for each in spans if each.kind == "turn" and _was_stopped(each)]
    for span in below:
        is_within = any(each.start <= span.start <= (each.end or span.start) for each in stopped)
        if span.kind == "turn" and _was_stopped(span) and not is_within:
            raise ConfigurationError(
                f"a turn of {'/'.join(span.lineage)} was cut off, which can't be done again",
                hint="judge that subagent's own session, or record one without it",
            )


def _was_stopped(turn: Span) -> bool:
    return str(turn.status) in _STOPPED


def _read_decision(record: PermissionRecord) -> Decided:
    if record.by in AUTOMATIC_DECIDERS:
        why = record.message or record.by
        return Decided(record.tool_use_id, record.decision, why, "record")
    return Decided(record.tool_use_id, record.decision, record.message, record.by)


def list_traced_decisions(spans: Iterable[Span]) -> Iterator[Decided]:
    """List what was decided about calls that somebody was asked about."""
    for span in spans:
        for event in span.events if span.kind == "tool" else ():
            if event.name == "permission":
                by = str(event.attributes.get("by", "record"))
                yield Decided(
                    str(span.attributes[names.TOOL_CALL_ID]),
                    RuleDecision(str(event.attributes["decision"])),
                    by="record" if by in AUTOMATIC_DECIDERS else by,
                )


def _input_id(span: Span) -> str:
    return str(span.attributes.get(names.INPUT_ID, ""))
