"""Metrics: counters and histograms of spans, in the text format that Prometheus reads."""

import logging
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from greenroom.core import AgentContext, ConfigurationError
from greenroom.core._internal import is_async, log_error
from greenroom.observability import semconv as names
from greenroom.observability.spans import NO_SCOPE, Span, SpanKind, SpanStatus
from greenroom.observability.window_use import share_of_window

logger = logging.getLogger("greenroom.observability")

MAX_SERIES = 2_000
"""Series of one metric; what would be more counts under the labels "_other"."""

OTHER = "_other"
_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

T = TypeVar("T")
Labels: TypeAlias = tuple[tuple[str, str], ...]
_Key: TypeAlias = tuple[str, Labels]  # the metric, and the labels of one series


@dataclass
class _Histogram:
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        self.buckets[bisect_left(_SECONDS, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.buckets)


_HELP = {
    "greenroom_turns_total": "Turns that have ended, by agent and status.",
    "greenroom_turn_seconds": "How long turns took, by agent.",
    "greenroom_turn_wait_seconds": "How long inputs waited in the mailbox, by agent.",
    "greenroom_model_calls_total": "Model calls that have ended, by model and status.",
    "greenroom_model_seconds": "How long model calls took, by model.",
    "greenroom_tokens_total": "Tokens of model calls, by model and kind.",
    "greenroom_cost_total": "Cost of model calls in the currency of the prices, by model.",
    "greenroom_window_ratio": "The share of the window that the last request took, by model.",
    "greenroom_tool_calls_total": "Calls of tools that have ended, by tool and status.",
    "greenroom_tool_seconds": "How long calls of tools took, by tool.",
    "greenroom_tool_errors_total": "Calls of tools that failed, by tool and class of error.",
    "greenroom_permissions_total": "Questions that were answered, by tool and decision.",
    "greenroom_subtask_wait_seconds": "How long subtasks waited for an agent that is free.",
    "greenroom_subtasks_waiting": "Subtasks that wait now for an agent that is free.",
    "greenroom_steps_total": "Steps of plans and workflows that have ended, by kind and status.",
    "greenroom_events_total": "What else agents have reported, by its kind.",
    "greenroom_spans_open": "Spans that are open, by kind.",
}
_GAUGES = {"greenroom_spans_open", "greenroom_subtasks_waiting", "greenroom_window_ratio"}


@dataclass(frozen=True)
class ToolHealth:
    """How a tool does: its calls, how many failed, and the seconds that one takes on average."""

    calls: int
    failed: int
    seconds: float

    @property
    def failure_rate(self) -> float:
        """The share of calls that failed, from 0 to 1."""
        return self.failed / self.calls if self.calls else 0.0


class Metrics:
    """A sink that counts spans, and writes the figures as Prometheus reads them.

    The model that was requested, the agent's name and the tool's are labels; session ids never are.
    Spans of the user's own are left out. A tool that does not exist counts as "_other", and so does
    each label beyond 2,000 of a metric.

    Example:
        >>> metrics = Metrics()
        >>> turn = Span("turn", "invoke_agent Ann", "s-1", ("Ann",), "t", "1", start=1)
        >>> metrics.begin(turn, None)
        >>> metrics.text().splitlines()[-1]
        'greenroom_spans_open{kind="turn"} 1'
        >>> metrics.value("greenroom_spans_open", kind="turn")
        1.0
    """

    def __init__(self) -> None:
        self._counters: dict[_Key, float] = {}
        self._histograms: dict[_Key, _Histogram] = {}
        self._series: dict[str, int] = {}
        self._alerts: dict[
            str, tuple[Callable[[Metrics], bool], Callable[[str, Metrics], object]]
        ] = {}
        self._raised: set[str] = set()
        self._waiting: set[str] = set()  # the spans of subtasks that no agent works for yet

    def alert(
        self,
        name: str,
        when: Callable[["Metrics"], bool],
        call: Callable[[str, "Metrics"], object],
    ) -> None:
        """Call a function with a name and these metrics as soon as a condition holds.

        The condition is tried after each turn. It has to be false once before the function is
        called again. What either raises is logged.

        Raises:
            ConfigurationError: there is an alert of this name already, or a function is async.
        """
        if name in self._alerts:
            raise ConfigurationError(f"there is an alert {name!r} already", hint="name each once")
        if any(map(is_async, (when, call))):
            raise ConfigurationError(
                f"the alert {name!r} has an async function, which nobody would wait for",
                hint="hand it over to a task of yours: `send_nowait` of a memory channel",
            )
        self._alerts[name] = when, call

    def value(self, metric: str, **labels: str) -> float:
        """Add up the series of a metric that have these labels; of a histogram, their counts."""
        wanted = set(labels.items())
        found = [
            v for (name, own), v in self._counters.items() if name == metric and wanted <= {*own}
        ]
        found += [
            each.count
            for (name, own), each in self._histograms.items()
            if name == metric and wanted <= {*own}
        ]
        return float(sum(found))

    def health(self) -> dict[str, ToolHealth]:
        """Say how each tool does; "_other" stands for those that a model has invented.

        Example:
            >>> Metrics().health()
            {}
        """
        metric = "greenroom_tool_seconds"
        tools = {key[1][0][1]: each for key, each in self._histograms.items() if key[0] == metric}
        errors = "greenroom_tool_errors_total"
        return {
            tool: ToolHealth(
                each.count, int(self.value(errors, tool=tool)), each.total / each.count
            )
            for tool, each in tools.items()
        }

    def text(self) -> str:
        """Write all figures in Prometheus' text format, version 0.0.4.

        See https://prometheus.io/docs/instrumenting/exposition_formats/.
        """
        lines: list[str] = []
        for metric, help_ in _HELP.items():
            counters = {k[1]: v for k, v in self._counters.items() if k[0] == metric}
            histograms = {k[1]: v for k, v in self._histograms.items() if k[0] == metric}
            if not counters and not histograms:
                continue
            kind = "histogram" if histograms else "gauge" if metric in _GAUGES else "counter"
            lines += [f"# HELP {metric} {help_}", f"# TYPE {metric} {kind}"]
            lines += [f"{metric}{_write(k)} {_number(v)}" for k, v in sorted(counters.items())]
            for labels, each in sorted(histograms.items()):
                lines += _write_histogram(metric, labels, each)
        return "\n".join(lines) + "\n" if lines else ""

    # What a Tracer calls

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Count an open span."""
        if span.kind == SpanKind.SPAN:
            return  # a thread may begin it
        self._count("greenroom_spans_open", 1, kind=span.kind)
        if span.kind == SpanKind.PLAN_STEP:
            self._waiting.add(span.span_id)
            self._set("greenroom_subtasks_waiting", len(self._waiting))
        elif span.parent_id in self._waiting:
            self._end_wait(span.parent_id)

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """Count a span that has ended, and try the alerts after a turn."""
        if span.kind == SpanKind.SPAN:
            return
        self._count("greenroom_spans_open", -1, kind=span.kind)
        attributes, status = span.attributes, str(span.status)
        match span.kind:
            case SpanKind.TURN:
                name = str(attributes.get(names.AGENT_NAME))
                self._count("greenroom_turns_total", 1, agent=name, status=status)
                self._time("greenroom_turn_seconds", span.seconds, agent=name)
                waited = attributes.get(names.WAITED)
                if isinstance(waited, int | float):
                    self._time("greenroom_turn_wait_seconds", waited, agent=name)
            case SpanKind.MODEL:
                model = str(attributes.get(names.REQUEST_MODEL))
                self._count("greenroom_model_calls_total", 1, model=model, status=status)
                self._time("greenroom_model_seconds", span.seconds, model=model)
                self._count_usage(span, model)
                if (share := share_of_window(span)) is not None:
                    self._set("greenroom_window_ratio", share, model=model)
            case SpanKind.TOOL:
                is_unknown = attributes.get(names.ERROR_TYPE) == "UnknownToolError"
                tool = OTHER if is_unknown else str(attributes.get(names.TOOL_NAME))
                self._count("greenroom_tool_calls_total", 1, tool=tool, status=status)
                self._time("greenroom_tool_seconds", span.seconds, tool=tool)
                if span.status == SpanStatus.ERROR:
                    error = str(attributes.get(names.ERROR_TYPE, "ToolError"))
                    self._count("greenroom_tool_errors_total", 1, tool=tool, error=error)
            case SpanKind.PLAN_STEP | SpanKind.WORKFLOW_STEP:
                self._end_wait(span.span_id)
                self._count("greenroom_steps_total", 1, kind=span.kind, status=status)
            case _:
                pass
        for event in span.events:
            if event.name == "permission":
                tool, decision = (str(event.attributes[each]) for each in ("tool", "decision"))
                self._count("greenroom_permissions_total", 1, tool=tool, decision=decision)
            else:
                self._count("greenroom_events_total", 1, kind=event.name)
            waited = event.attributes.get("waited")
            if event.name == "team.assigned" and isinstance(waited, int | float):
                self._time("greenroom_subtask_wait_seconds", waited)
        if span.kind == SpanKind.TURN:
            self._try_alerts()

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Do nothing."""
        return NO_SCOPE

    def _end_wait(self, step: str) -> None:
        if step in self._waiting:
            self._waiting.discard(step)
            self._set("greenroom_subtasks_waiting", len(self._waiting))

    def _count_usage(self, span: Span, model: str) -> None:
        usage = span.usage
        if usage is None:
            return
        for kind in ("input", "output", "cache_read", "cache_write", "reasoning"):
            tokens = getattr(usage, f"{kind}_tokens")
            if tokens:
                self._count("greenroom_tokens_total", tokens, model=model, kind=kind)
        if usage.cost:
            self._count("greenroom_cost_total", usage.cost, model=model)

    def _count(self, metric: str, amount: float, **labels: str) -> None:
        key = metric, tuple(labels.items())
        if key not in self._counters:
            key = self._add(key, 0.0, self._counters)
        self._counters[key] += amount

    def _set(self, metric: str, value: float, **labels: str) -> None:
        self._count(metric, 0.0, **labels)
        key = metric, tuple(labels.items())
        if key in self._counters:  # what is beyond the bound of series has no last value
            self._counters[key] = value

    def _time(self, metric: str, seconds: float, **labels: str) -> None:
        key = metric, tuple(labels.items())
        if key not in self._histograms:
            key = self._add(key, _Histogram(), self._histograms)
        self._histograms[key].add(seconds)

    def _add(self, key: _Key, empty: T, known: dict[_Key, T]) -> _Key:
        """Add a series, and return its key; beyond the bound, that of all others."""
        metric, labels = key
        count = self._series.get(metric, 0)
        if count >= MAX_SERIES:
            key = metric, tuple((name, OTHER) for name, _ in labels)
        else:
            self._series[metric] = count + 1
        known.setdefault(key, empty)
        return key

    def _try_alerts(self) -> None:
        for name, (when, call) in self._alerts.items():
            try:
                holds = bool(when(self))
                if holds and name not in self._raised:
                    call(name, self)
            except Exception as error:  # noqa: BLE001 (an alert never stops an agent)
                log_error(logger, f"the alert {name!r} raised", error)
                continue
            (self._raised.add if holds else self._raised.discard)(name)


def _write(labels: Labels, *more: tuple[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in (*labels, *more))
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    """Write a number with all its digits: a counter that is rounded seems to stand still."""
    return repr(float(value)).removesuffix(".0")


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _write_histogram(metric: str, labels: Labels, histogram: _Histogram) -> list[str]:
    lines, below = [], 0
    for bound, count in zip((*map(str, _SECONDS), "+Inf"), histogram.buckets, strict=True):
        below += count
        lines.append(f"{metric}_bucket{_write(labels, ('le', bound))} {below}")
    written = _write(labels)
    return [
        *lines,
        f"{metric}_sum{written} {_number(histogram.total)}",
        f"{metric}_count{written} {below}",
    ]
