"""Diagnoses: what went wrong in a session, in words, from its conversation and its trace."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from statistics import median

from greenroom.core._internal import Wire, clip, serde
from greenroom.observability import semconv as names
from greenroom.observability.spans import Span, SpanKind
from greenroom.observability.trace import Trace
from greenroom.observability.window_use import share_of_window
from greenroom.session import AgentSession

SLOW = 30.0  # seconds of a call
SLOWER = 10  # times as long as most calls of the same tool
ENOUGH = 5  # calls of a tool that say how long most take
SAME = 4  # times that a call is repeated
FULL = 0.8  # of the window


class Level(StrEnum):
    """How much a diagnosis matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Diagnosis(Wire, frozen=True):
    """Something that went wrong.

    Attributes:
        kind: what, such as "loop" or "slow tool".
        level: how much it matters.
        message: what happened, and how often.
        text: the call, the error or the words that it is about.
        hint: what to do.
    """

    kind: str
    level: Level
    message: str
    text: str = ""
    hint: str = ""


_TOOL_ERRORS = {
    "UnknownToolError": (
        "invented tool",
        Level.WARNING,
        "the model called a tool that does not exist",
        "say in the instructions which tools there are, or give it this one",
    ),
    "InvalidInputError": (
        "invalid input",
        Level.WARNING,
        "the input of a call did not fit the tool's schema",
        "describe the parameters, with an example, or make the schema simpler",
    ),
    "PermissionError": (
        "denied",
        Level.NOTE,
        "a call was denied",
        "greenroom permissions explain says why, and which rule would allow it",
    ),
}
_EVENTS = {
    "model.retry": ("retry", Level.NOTE, "a model call was tried again", "see its limits"),
    "model.fallback": ("fallback", Level.WARNING, "another model answered", "see its errors"),
    "react.reformat": (
        "format error",
        Level.WARNING,
        "a reply was asked for in another form",
        "use a model with native tool calls, or a simpler form",
    ),
    "memory.failed": ("memory failed", Level.WARNING, "the memory failed", "see the log"),
    "guard.tripped": ("guard", Level.NOTE, "a guard refused an input or an output", "see it"),
}


def diagnose(session: AgentSession, trace: Trace | None = None) -> tuple[Diagnosis, ...]:
    """Say what went wrong in a session; nothing if all is well.

    Loops and calls without an answer are seen in the conversation alone. The rest takes a trace.

    Args:
        session: the session, loaded with `keep_open=True`, so that open calls are still open.
        trace: its trace, from `read_trace`.

    Example:
        >>> diagnose(AgentSession.new("agent"))
        ()
    """
    found = [*_find_loops(session), *_find_unanswered(session)]
    if trace is not None:
        spans = [each for each in trace.spans if each.session_id == session.session_id]
        found += [*_find_tool_errors(spans), *_find_slow_tools(spans), *_find_events(spans)]
        found += [*_find_pressure(spans), *_find_unpriced(spans)]
    return tuple(found)


def _find_loops(session: AgentSession) -> Iterator[Diagnosis]:
    counts: Counter[tuple[str, str]] = Counter()
    for message in session.history:
        if message.role == "user" and not message.tool_results:
            counts.clear()
        for call in message.tool_uses:
            key = call.name, serde.encode(call.input).decode()
            counts[key] += 1
            if counts[key] == SAME:
                yield Diagnosis(
                    "loop",
                    Level.ERROR,
                    f"the same call was made {SAME} times in a turn",
                    clip(f"{call.name} {key[1]}", 300),
                    "say in the tool's result what to do next, or limit the steps of a turn",
                )


def _find_unanswered(session: AgentSession) -> Iterator[Diagnosis]:
    answered = {each.tool_use_id for message in session.history for each in message.tool_results}
    for message in session.history:
        for call in message.tool_uses:
            if call.id not in answered:
                yield Diagnosis(
                    "never answered",
                    Level.WARNING,
                    "a call has no result: a question is open, or its process was killed",
                    f"{call.name} ({call.id})",
                    "go on with the session: the question is asked again",
                )


def _find_tool_errors(spans: Iterable[Span]) -> Iterator[Diagnosis]:
    counts: Counter[tuple[str, str]] = Counter()
    for each in spans:
        kind = str(each.attributes.get(names.ERROR_TYPE))
        if each.kind == SpanKind.TOOL and kind in _TOOL_ERRORS:
            counts[kind, str(each.attributes.get(names.TOOL_NAME))] += 1
    for (error, tool), count in counts.items():
        kind, level, message, hint = _TOOL_ERRORS[error]
        yield Diagnosis(kind, level, _count(message, count), tool, hint)


def _find_slow_tools(spans: Iterable[Span]) -> Iterator[Diagnosis]:
    tools: dict[str, list[Span]] = {}
    for each in spans:
        if each.kind == SpanKind.TOOL and not each.is_open:
            tools.setdefault(str(each.attributes.get(names.TOOL_NAME)), []).append(each)
    for tool, calls in tools.items():
        usual = median(each.seconds for each in calls)
        limit = min(SLOW, SLOWER * max(usual, 0.1)) if len(calls) >= ENOUGH else SLOW
        slow = [each.seconds for each in calls if each.seconds > limit]
        if slow:
            yield Diagnosis(
                "slow tool",
                Level.WARNING,
                f"{len(slow)} of {len(calls)} calls took up to {max(slow):.0f} s",
                tool,
                "give it a time-out, or run it in the background",
            )


def _find_events(spans: Iterable[Span]) -> Iterator[Diagnosis]:
    counts = Counter(event.name for each in spans for event in each.events if event.name in _EVENTS)
    for name, count in counts.items():
        kind, level, message, hint = _EVENTS[name]
        yield Diagnosis(kind, level, _count(message, count), "", hint)


def _find_pressure(spans: Iterable[Span]) -> Iterator[Diagnosis]:
    most, where = 0.0, ""
    for each in spans:
        share = share_of_window(each) or 0.0
        if share > most:
            most, where = share, str(each.attributes[names.REQUEST_MODEL])
    if most > FULL:
        yield Diagnosis(
            "context pressure",
            Level.WARNING,
            f"a request took {most:.0%} of the model's window",
            where,
            "compact the conversation, or give work to subagents",
        )


def _find_unpriced(spans: Iterable[Span]) -> Iterator[Diagnosis]:
    unpriced = {
        str(each.attributes.get(names.REQUEST_MODEL))
        for each in spans
        if each.usage is not None and each.kind == SpanKind.MODEL
        if each.usage.cost is None and (each.usage.output_tokens or 0) > 0
    }
    for model in sorted(unpriced):
        yield Diagnosis(
            "unpriced",
            Level.NOTE,
            "what the model costs is not known",
            model,
            "write its price into the settings",
        )


def _count(message: str, count: int) -> str:
    return message if count == 1 else f"{message}, {count} times"
