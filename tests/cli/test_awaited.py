"""What an agent waits for, since when, and what has come of its reply."""

import pytest

from greenroom.cli.awaited import Awaited, fit_parts
from greenroom.cli.painter import ColorScheme
from greenroom.core import (
    AgentState,
    Custom,
    Done,
    Error,
    StateChange,
    TextComplete,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolResult,
    ToolStart,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
)

WORKS = (TurnStart("x"), StateChange(AgentState.processing()))
RETRY = Custom("model.retry", {"seconds": 4.0}, "busy;\nattempt 2 in 4.0 s")
NAME = "model"
MODEL = f"vendor:{NAME}"


class Watch:
    """A clock that a test turns, and what is awaited by it."""

    def __init__(self, *chunks):
        self.now = 100.0
        self.awaited = Awaited(lambda: self.now)
        self.feed(*chunks)

    def feed(self, *chunks):
        for chunk in chunks:
            self.awaited.feed(chunk)

    def after(self, seconds, columns=200):
        self.now += seconds
        return self.awaited.spinner(MODEL, columns, ColorScheme()).plain[2:]


def test_a_server_that_does_not_answer_is_waited_for_with_its_seconds():
    watch = Watch(*WORKS)
    assert watch.after(0) == f"waiting for {NAME}"
    assert watch.after(75) == f"waiting for {NAME} · 1 min 15 s"
    assert watch.awaited.turn_seconds == 75


def test_a_reply_is_written_and_a_server_that_stops_in_its_middle_is_waited_for_again():
    watch = Watch(*WORKS, ThinkingDelta("h" * 40))
    assert watch.after(2) == "thinking · 2 s · ↓ 10 tokens"
    watch.feed(TextDelta("h" * 40))
    assert watch.after(0) == "writing · ↓ 20 tokens"  # a frame is drawn soon after
    assert watch.after(1) == "writing · 1 s · ↓ 20 tokens"
    assert watch.after(2) == f"waiting for {NAME} · 3 s · ↓ 20 tokens"
    watch.feed(TextDelta("h"))
    assert watch.after(0) == "writing · 3 s · ↓ 20 tokens"


def test_tokens_that_are_reported_take_the_place_of_those_that_were_guessed():
    watch = Watch(*WORKS, TextDelta("h" * 400), UsageReport(Usage(5, 70)), TextComplete("h" * 400))
    assert watch.after(0) == f"waiting for {NAME} · ↓ 70 tokens"
    watch.feed(*WORKS)
    assert watch.after(0) == f"waiting for {NAME}"


def test_a_call_is_named_with_its_own_seconds():
    watch = Watch(*WORKS)
    watch.now += 5
    watch.feed(StateChange(AgentState.executing_tool("Bash")), ToolStart("a", "Bash", {}))
    assert watch.after(2) == "Bash · 2 s"
    watch.feed(*(ToolStart(name, name, {}) for name in ("Read", "Grep", "Glob", "Bash")))
    assert watch.after(2) == "Bash, Read, Grep, 1 more · 4 s"
    assert watch.awaited.call_seconds("Read") == 2
    for id_ in ("a", "Read", "Grep", "Glob", "Bash"):
        watch.feed(ToolEnd(id_, ToolResult.ok("")))
    assert watch.after(1) == f"waiting for {NAME} · 1 s"


@pytest.mark.parametrize(
    "next_one", [TextDelta("a"), ToolStart("a", "Bash", {}), Error("no"), TurnStart("x")]
)
def test_a_notice_of_a_retry_stands_until_something_else_happens(next_one):
    watch = Watch(*WORKS, RETRY)
    assert watch.after(3) == "busy; attempt 2 in 4.0 s · 3 s"
    watch.feed(StateChange(AgentState.processing("planning")))
    assert watch.after(0).startswith("busy; attempt 2 in 4.0 s")
    watch.feed(next_one)
    assert "busy" not in watch.after(0)


def test_a_phase_of_an_agent_is_named():
    watch = Watch(*WORKS, StateChange(AgentState.processing("planning")))
    assert watch.after(0) == "planning"


def test_nothing_is_awaited_once_the_turn_is_over():
    watch = Watch()
    assert watch.awaited.is_over
    watch.feed(*WORKS)
    assert not watch.awaited.is_over
    watch.feed(Done(TurnStatus.COMPLETED), StateChange(AgentState.idle()))
    assert watch.awaited.is_over


@pytest.mark.parametrize("columns", range(2, 120))
def test_parts_are_dropped_whole_from_the_right(columns):
    parts = ["working 1 min 5 s", MODEL, "mode plan", "context 12%", "1,234 tokens", "main"]
    line = fit_parts(parts, columns)
    assert len(line) <= columns
    shown = line.split(" · ")
    if columns >= len(parts[0]):
        assert shown == parts[: len(shown)]
        longer = " · ".join(parts[: len(shown) + 1])
        assert len(shown) == len(parts) or len(longer) > columns
    else:
        assert line.endswith("…")


def test_a_part_that_must_be_seen_outlasts_those_before_it():
    parts = ["working 5 s", MODEL, "BYPASS", "context 12%"]
    assert fit_parts(parts, 20, "BYPASS") == "working 5 s · BYPASS"
    assert fit_parts(parts, 39, "BYPASS") == "working 5 s · vendor:model · BYPASS"


def test_a_notice_too_long_for_the_row_is_cut_at_a_blank():
    watch = Watch(*WORKS, RETRY)
    assert watch.after(0, columns=20) == "busy; attempt 2…"
    assert watch.after(9, columns=22) == "busy; attempt… · 9 s"
