"""What is printed for good and what is live, chunk by chunk."""

import pytest

from greenroom.cli.agent_view import AgentView
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.core import (
    AgentState,
    Custom,
    Done,
    Error,
    Exited,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    RuleDecision,
    StateChange,
    SubAgentComplete,
    SubAgentOutput,
    SubAgentSpawned,
    TextComplete,
    TextDelta,
    ThinkingComplete,
    ThinkingDelta,
    ToolEnd,
    ToolInfo,
    ToolProgress,
    ToolResult,
    ToolStart,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.core._internal import EndStatus


class Seen:
    """A view whose output is text."""

    def __init__(self, redraws=True):
        self.now = 0
        self.view = AgentView(ColorScheme(), redraws=redraws, clock=lambda: self.now)

    def feed(self, *chunks, unfolds=False):
        shown = [part for chunk in chunks for part in self.view.feed(chunk)]
        return Painter(None).paint(shown, 60, unfolds=unfolds)

    @property
    def live(self):
        return Painter(None).paint(self.view.live(), 60)


def test_a_finished_block_is_printed_once_and_the_rest_is_live():
    seen = Seen()
    assert seen.feed(TextDelta("one\n\ntwo\n")) == "one\n\n"
    assert seen.live == "two\n"
    assert seen.feed(TextComplete("one\n\ntwo\n")) == "two\n\n"
    assert seen.live == ""


def test_a_thought_is_live_until_it_is_complete():
    seen = Seen()
    assert seen.feed(ThinkingDelta("let me ")) == ""
    assert seen.live == "let me\n"
    assert seen.feed(ThinkingDelta("see"), ThinkingComplete("let me see")) == "let me see\n"
    assert seen.live == ""


def test_a_reply_that_begins_anew_leaves_what_was_said_and_says_so_and_the_wait_is_a_line():
    seen = Seen(redraws=False)
    seen.feed(TextDelta("half a"))
    shown = seen.feed(
        Custom("reply.restarted", {}, "it begins anew"),
        Custom("model.retry", {"seconds": 1.0}, "busy; attempt 2 of 4 in 1.0 s"),
        TextDelta("a whole"),
    )
    assert shown == "half a\n\nit begins anew\nbusy; attempt 2 of 4 in 1.0 s\n"
    assert seen.live == "a whole\n"


def test_where_frames_are_drawn_a_retry_is_told_of_while_it_lasts():
    seen = Seen()
    assert seen.feed(Custom("model.retry", {"seconds": 1.0}, "busy; attempt 2 of 4")) == ""
    assert seen.view.awaited.describe("x") == "busy; attempt 2 of 4"
    seen.feed(TextDelta("a"))
    assert seen.view.awaited.describe("x") == "writing"


def test_a_call_that_waits_for_an_answer_does_not_look_as_if_it_ran():
    seen = Seen()
    seen.feed(
        ToolStart("a", "Bash", {}, ToolInfo("Run", "make")),
        PermissionRequest("p", "Bash", "Run", tool_use_id="a"),
    )
    assert seen.live == "○ Bash  make  waits for an answer\n"
    seen.feed(PermissionResponse("p", "Bash", RuleDecision.ALLOW))
    assert seen.live == "● Bash  make\n"


def test_of_long_output_head_and_tail_are_shown_and_all_of_it_where_it_is_unfolded():
    start = ToolStart("a", "Bash", {}, ToolInfo("Run", "make"))
    end = ToolEnd("a", ToolResult.ok("".join(f"line {number}\n" for number in range(1, 101))))
    shown = Seen().feed(start, end).splitlines()
    assert shown[1:6] == [
        *(f"  line {number}" for number in range(1, 5)),
        "  … 88 more rows: Ctrl-O",
    ]
    assert shown[6:] == [*(f"  line {number}" for number in range(93, 101)), ""]
    assert Seen().feed(start, end, unfolds=True).count("line") == 100


def test_of_the_diff_of_a_long_new_file_head_and_tail_are_shown():
    diff = "\n".join(["--- /dev/null", "+++ b/a", "@@ -0,0 +1,400 @@", *["+row"] * 400])
    start = ToolStart("a", "Write", {}, ToolInfo("Write", "a"))
    end = ToolEnd("a", ToolResult.ok("Created a", diff=diff))
    shown = Seen().feed(start, end).splitlines()
    assert shown[1:7] == [
        *("  Created a", "  --- /dev/null", "  +++ b/a", "  @@ -0,0 +1,400 @@", "  +row"),
        "  … 391 more rows: Ctrl-O",
    ]
    assert shown[7:] == ["  +row"] * 8 + [""]
    assert Seen().feed(start, end, unfolds=True).count("+row") == 400


def test_a_diff_that_a_screen_has_room_for_is_shown_whole_and_in_its_colours():
    diff = "\n".join(["--- a/a", "+++ b/a", *["-old", "+new  "] * 15])
    parts = AgentView(ColorScheme()).feed(ToolEnd("a", ToolResult.ok("Done", diff=diff)))
    painted = Painter("standard").paint(parts, 60)
    assert painted.count("\x1b[31m-old") == painted.count("\x1b[32m+new··") == 15


def test_a_long_line_of_output_is_folded_by_its_rows():
    end = ToolEnd("a", ToolResult.ok("x" * 58 * 20))
    shown = Seen().feed(end).splitlines()
    assert [len(row) for row in shown] == [*[60] * 4, 23, *[60] * 8, 0]
    assert "… 8 more rows" in shown[4]


def test_a_todo_list_stays_in_sight_until_it_is_done():
    seen = Seen()

    def todo(*states):
        todos = [{"content": f"step {at}", "status": state} for at, state in enumerate(states)]
        return ToolStart("t", "Todo", {"todos": todos}), ToolEnd("t", ToolResult.ok("ok"))

    assert seen.feed(*todo("completed", "in_progress", "pending")) == ""
    assert seen.live == "☑ step 0\n▶ step 1\n☐ step 2\n"
    seen.view.shows_todos = False
    assert seen.live == ""
    seen.view.shows_todos = True
    seen.feed(*todo(*["completed"] * 9, "in_progress", *["pending"] * 20))
    assert len(seen.live.splitlines()) == 12
    assert "▶ step 9" in seen.live
    assert "… and 19 more" in seen.live
    assert "☑ step 1\n" in seen.feed(*todo("completed", "completed"))
    assert seen.live == ""


def test_what_an_interrupt_cuts_off_is_printed_as_far_as_it_came():
    seen = Seen()
    seen.feed(ThinkingDelta("hm"), TextDelta("half a sen"))
    text = seen.feed(Done("i", TurnStatus.INTERRUPTED))
    assert text == "hm\nhalf a sen\n\ninterrupted\n"


def test_two_tools_at_once_are_told_apart():
    seen = Seen()
    seen.feed(
        ToolStart("a", "Bash", {}, ToolInfo("Run", "first")),
        ToolStart("b", "Bash", {}, ToolInfo("Run", "second")),
        ToolProgress("a", "from the first\n"),
        ToolProgress("nobody's", "lost"),
    )
    assert seen.live == "● Bash  first\n  from the first\n● Bash  second\n"
    seen.now = 61
    assert seen.live == "● Bash  first  1 min 1 s\n  from the first\n● Bash  second  1 min 1 s\n"
    assert seen.feed(ToolEnd("b", ToolResult.ok("done"))) == "● Bash  second\n  done\n\n"
    assert seen.live == "● Bash  first\n  from the first\n"


def test_the_end_of_a_tool_whose_start_was_missed_is_shown_all_the_same():
    assert Seen().feed(ToolEnd("x", ToolResult.ok("done"))) == "  done\n\n"


def test_of_much_progress_only_the_end_is_kept():
    seen = Seen()
    seen.feed(ToolStart("a", "Bash", {}, ToolInfo("Run", "yes")))
    for number in range(10_000):
        seen.feed(ToolProgress("a", f"line {number}\n"))
    assert "line 9999" in seen.live
    assert seen.live.count("\n") == 4
    assert len(seen.view._calls["a"][1]) <= 4_000


def test_a_subagent_is_one_line_and_all_that_it_said_where_it_is_unfolded():
    seen = Seen()
    shown = seen.feed(
        SubAgentSpawned("s-1", "helper", "look", "t-1"),
        SubAgentOutput("s-1", StateChange(AgentState.processing())),
        SubAgentOutput("s-1", ToolStart("a", "Bash", {}, ToolInfo("Run", "ls"))),
        SubAgentOutput("s-1", ToolEnd("a", ToolResult.ok("made"))),
        SubAgentOutput("s-1", TextComplete("found it")),
        SubAgentOutput("s-1", UsageReport(Usage(1, 2), Usage(1_000, 234))),
    )
    assert shown == ""
    seen.now = 75
    did = "1 min 15 s · 1 call · 1,234 tokens\n"
    assert seen.live == f"◆ look  working · {did}"
    end = seen.view.feed(SubAgentComplete("s-1", EndStatus.COMPLETED, "found it"))
    assert Painter(None).paint(end, 60) == f"◆ look  {did}\n"
    assert Painter(None).paint(end, 60, unfolds=True).splitlines() == [
        "look │ ● Bash  ls",
        "look │   made",
        "look │",
        "look │ found it",
        "look │",
        f"◆ look  {did[:-1]}",
        "",
    ]


def test_a_subagent_that_fails_says_why_in_its_line():
    shown = Seen().feed(
        SubAgentSpawned("s-1", "helper", "outer", "t-1"),
        SubAgentOutput("s-1", Error("no space", "SessionStorageError")),
        SubAgentComplete("s-1", EndStatus.CRASHED, "SessionStorageError: no space"),
    )
    assert shown == "◆ outer  0 s  crashed: SessionStorageError: no space\n\n"


def test_members_and_theirs_are_nested_behind_their_names():
    seen = Seen()
    text = seen.feed(
        SubAgentSpawned("s-1", "helper", "outer"),
        SubAgentOutput("s-1", SubAgentSpawned("s-2", "helper", "inner")),
        SubAgentOutput("s-1", SubAgentOutput("s-2", TextDelta("deep\n\nmore\n"))),
    )
    assert text.splitlines() == [
        "outer │ ◆ outer starts",
        "outer │ inner │ ◆ inner starts",
        "outer │ inner │ deep",
        "outer │ inner │",
    ]
    assert seen.live == "outer │ inner │ more\n"


def test_what_the_members_of_a_team_say_begins_in_one_column():
    text = Seen().feed(
        SubAgentSpawned("s-1", "helper", "reviewer"),
        SubAgentSpawned("s-2", "helper", "世"),
        SubAgentOutput("s-2", TextComplete("hello")),
        SubAgentOutput("s-1", TextComplete("hello")),
    )
    assert text.splitlines() == [
        "reviewer │ ◆ reviewer starts",
        "世       │ ◆ 世 starts",
        "世       │ hello",
        "世       │",
        "reviewer │ hello",
        "reviewer │",
    ]


def test_a_detached_subagent_is_told_of_once_and_not_waited_for():
    seen = Seen()
    text = seen.feed(SubAgentSpawned("s-1", "helper", "outer", detached=True))
    assert text.splitlines() == ["◆ outer starts on its own"]
    assert seen.view._children == {}


def test_the_end_of_a_subagent_is_told_once():
    seen = Seen()
    text = seen.feed(
        SubAgentSpawned("s-1", "helper", "outer"),
        SubAgentOutput("s-1", Exited(EndStatus.COMPLETED)),
        SubAgentComplete("s-1", EndStatus.COMPLETED, "all done"),
    )
    assert text.count("ended") == 1
    assert seen.view.live() == []


# Errors of core, and of packages that define their own.
@pytest.mark.parametrize("kind", ["SessionStorageError", "ModelTimeoutError", "SupervisionError"])
def test_an_error_that_ends_a_subagent_or_an_agent_is_told_once_and_is_no_crash(kind):
    seen = Seen()
    reason = f"{kind}: the disk is full (free some)"
    text = seen.feed(
        SubAgentSpawned("s-1", "helper", "outer"),
        SubAgentOutput("s-1", Error("the disk is full", kind, "free some")),
        SubAgentOutput("s-1", Exited(EndStatus.CRASHED, reason)),
        SubAgentComplete("s-1", EndStatus.CRASHED, reason),
        Error("the disk is full", kind, "free some"),
        Exited(EndStatus.CRASHED, reason),
    )
    assert text.count("the disk is full") == 2
    assert text.endswith("the agent has ended\n")


def test_a_restart_is_told_after_the_error_and_ends_what_was_open():
    text = Seen().feed(
        TextDelta("half a sen"),
        Error("x", "KeyError"),
        Restarted(2, "KeyError: x", 0.4),
    )
    assert text.splitlines() == [
        "half a sen",
        "",
        "error: x",
        "the agent starts again in 0.4 s: KeyError: x",
    ]


def test_a_bug_that_ends_an_agent_is_called_a_crash():
    text = Seen().feed(Error("x", "KeyError"), Exited(EndStatus.CRASHED, "KeyError: x"))
    assert "the agent has ended: crashed: KeyError: x" in text


def test_text_that_a_subagent_had_not_finished_is_kept_at_the_end():
    seen = Seen()
    seen.feed(SubAgentOutput("s-1", TextDelta("half a")), TextDelta("and mine"))
    shown = Painter(None).paint(seen.view.finish(), 60)
    assert shown.splitlines() == ["and mine", "", "s-1 │ half a", "s-1 │"]


def test_a_subagent_whose_start_was_missed_goes_by_its_session():
    text = Seen().feed(SubAgentOutput("s-0123456789abcdef", TextComplete("hello")))
    assert text.startswith("s-0123456789abc… │ hello")
