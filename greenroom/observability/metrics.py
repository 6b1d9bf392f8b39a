"""Metrics: counters and histograms of spans, in the text format that Prometheus reads."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Container
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from greenroom.core import AgentContext, ConfigurationError
from greenroom.core._internal import log_error
from greenroom.observability import semconv as names
from greenroom.observability.spans import Span, SpanKind

logger = logging.getLogger("greenroom.observability")

MAX_SERIES = 2_000
"""Series of one metric; what would be more counts under the labels "_other"."""

OTHER = "_other"
_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

Labels: TypeAlias = tuple[tuple[str, str], ...]


class _Key(NamedTuple):
    metric: str
    labels: Labels


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
    "greenroom_tool_calls_total": "Calls of tools that have ended, by tool and status.",
    "greenroom_tool_seconds": "How long calls of tools took, by tool.",
    "greenroom_permissions_total": "Questions that were answered, by tool and decision.",
    "greenroom_steps_total": "Steps of plans and workflows that have ended, by kind and status.",
    "greenroom_events_total": "What else agents have reported, by its kind.",
    "greenroom_spans_open": "Spans that are open, by kind.",
}


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
            ConfigurationError: there is an alert of this name already.
        """
        if name in self._alerts:
            raise ConfigurationError(f"there is an alert {name!r} already", hint="name each once")
        self._alerts[name] = when, call

    def value(self, metric: str, **labels: str) -> float:
        """Add up the series of a metric that have these labels; of a histogram, their counts."""
        wanted = set(labels.items())
        found = [
            v for k, v in self._counters.items() if k.metric == metric and wanted <= {*k.labels}
        ]
        found += [
            each.count
            for key, each in self._histograms.items()
            if key.metric == metric and wanted <= {*key.labels}
        ]
        return float(sum(found))

    def text(self) -> str:
        """Write all figures in Prometheus' text format, version 0.0.4.

        See https://prometheus.io/docs/instrumenting/exposition_formats/.
        """
        lines: list[str] = []
        for metric, help_ in _HELP.items():
            counters = {k: v for k, v in self._counters.items() if k.metric == metric}
            histograms = {k: v for k, v in self._histograms.items() if k.metric == metric}
            if not counters and not histograms:
                continue
            is_gauge = metric == "greenroom_spans_open"
            kind = "histogram" if histograms else "gauge" if is_gauge else "counter"
            lines += [f"# HELP {metric} {help_}", f"# TYPE {metric} {kind}"]
            lines += [f"{metric}{_write(k.labels)} {v:g}" for k, v in sorted(counters.items())]
            for key, each in sorted(histograms.items()):
                lines += _write_histogram(key, each)
        return "\n".join(lines) + "\n" if lines else ""

    # What a Tracer calls

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Count an open span."""
        if span.kind != SpanKind.SPAN:  # which a thread may begin
            self._count("greenroom_spans_open", 1, kind=span.kind)

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
            case SpanKind.TOOL:
                is_unknown = attributes.get(names.ERROR_TYPE) == "UnknownToolError"
                tool = OTHER if is_unknown else str(attributes.get(names.TOOL_NAME))
                self._count("greenroom_tool_calls_total", 1, tool=tool, status=status)
                self._time("greenroom_tool_seconds", span.seconds, tool=tool)
            case SpanKind.PLAN_STEP | SpanKind.WORKFLOW_STEP:
                self._count("greenroom_steps_total", 1, kind=span.kind, status=status)
            case _:
                pass
        for event in span.events:
            if event.name == "permission":
                tool, decision = (str(event.attributes[each]) for each in ("tool", "decision"))
                self._count("greenroom_permissions_total", 1, tool=tool, decision=decision)
            else:
                self._count("greenroom_events_total", 1, kind=event.name)
        if span.kind == SpanKind.TURN:
            self._try_alerts()

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

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
        key = self._key(metric, labels, self._counters)
        self._counters[key] = self._counters.get(key, 0) + amount

    def _time(self, metric: str, seconds: float, **labels: str) -> None:
        key = self._key(metric, labels, self._histograms)
        if key not in self._histograms:
            self._histograms[key] = _Histogram()
        self._histograms[key].add(seconds)

    def _key(self, metric: str, labels: dict[str, str], known: Container[_Key]) -> _Key:
        key = _Key(metric, tuple(labels.items()))
        if key not in known:
            count = self._series.get(metric, 0)
            if count >= MAX_SERIES:
                return _Key(metric, tuple((name, OTHER) for name in labels))
            self._series[metric] = count + 1
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
    pairs = (f'{name}="{_escape(value)}"' for name, value in (*labels, *more))
    return f"{{{','.join(pairs)}}}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _write_histogram(key: _Key, histogram: _Histogram) -> list[str]:
    lines, below = [], 0
    for bound, count in zip((*map(str, _SECONDS), "+Inf"), histogram.buckets, strict=True):
        below += count
        lines.append(f"{key.metric}_bucket{_write(key.labels, ('le', bound))} {below}")
    labels = _write(key.labels)
    return [
        *lines,
        f"{key.metric}_sum{labels} {histogram.total:g}",
        f"{key.metric}_count{labels} {below}",
    ]
