"""How each kind of chunk looks, as golden text."""

import re
from typing import get_args

import pytest

from greenroom.cli.markdown_view import render_markdown
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.cli.render_chunk import render_chunk, render_user
from greenroom.core import (
    AgentState,
    Custom,
    Done,
    Error,
    Exited,
    Lagged,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    RuleDecision,
    StateChange,
    StopReason,
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
    ToolStatus,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.core._internal import EndStatus, PermissionPart, SandboxReport

ASK, ALLOW, DENY = RuleDecision.ASK, RuleDecision.ALLOW, RuleDecision.DENY
EVIL = "a\x1b[31mb\r\u202ec [bold]d[/bold]"
SAFE = "a\\u{1b}[31mb\\u{d}\\u{202e}c [bold]d[/bold]"
LEGIBLE = "a␛[31mb␍�c [bold]d[/bold]"
PROSE = (TextDelta, TextComplete, ThinkingDelta, ThinkingComplete, ToolProgress, ToolEnd)

REQUEST = PermissionRequest(
    "p-1",
    "Bash",
    "Run a command",
    details="git status && rm -rf build",
    parts=(
        PermissionPart("git status", ALLOW, "the rule 'git' allows this"),
        PermissionPart("rm -rf build", ASK, "no rule is about this"),
    ),
    reason="rm -rf build: no rule is about this",
    remembers=("allow Bash(rm -rf build)",),
    forbids=("deny Bash(rm -rf build)",),
    lineage=("coder", "helper"),
    cwd="/work",
)

GOLDEN = [
    (TurnStart("i-1"), None),
    (TurnStart("i-1", "plan"), "a message from plan"),
    (TextDelta("hel"), "hel"),
    (TextComplete("# Title\n\nSome *text*."), "Title\n\nSome text."),
    (ThinkingDelta("hmm"), "hmm"),
    (ThinkingComplete("hmm, well\n"), "hmm, well"),
    (ToolStart("t", "Bash", {"command": "ls"}, ToolInfo("Run a command", "ls")), "● Bash  ls"),
    (ToolStart("t", "AskPerson", {"question": "Which?"}), "● AskPerson"),  # it stands above
    (ToolStart("t", "SubmitPlan", {"plan": "# Plan\n\n1. Go"}), "● SubmitPlan"),
    (
        ToolStart("t", "Bash", {}, ToolInfo("Run", "rm\u00a0-rf\u2800x\ue000")),
        "● Bash  rm\\u{a0}-rf\\u{2800}x\\u{e000}",
    ),
    (ToolStart("t", "Bash", {"command": "rm\u00a0-rf\n x"}), "● Bash  rm\\u{a0}-rf x"),
    (ToolStart("t", "Mine", {"a": 1}), '● Mine  {"a":1}'),
    (ToolStart("t", "Edit", {"old_string": "a", "file_path": "a.py"}), "● Edit  a.py"),
    (
        ToolStart("t", "Write", {}, ToolInfo("Write", "1\n2\n3\n4\n5\n6\n7\n8")),
        "● Write  Write\n  1\n  2\n  3\n  4\n  5\n  6\n  … 2 lines more",
    ),
    (ToolProgress("t", "1\n2\n3\n4\n5\n6\n7\n"), "  5\n  6\n  7"),
    (ToolEnd("t", ToolResult.ok("one\ntwo")), "  one\n  two"),
    (ToolEnd("t", ToolResult.ok("")), "  (no output)"),
    (ToolEnd("t", ToolResult.error("it broke"), is_error=True), "  it broke"),
    (
        ToolEnd("t", ToolResult.error("not so", ToolStatus.DENIED), is_error=True),
        "  denied: not so",
    ),
    (
        ToolEnd("t", ToolResult.ok("edited a\n--- a", diff="--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y  ")),
        "  edited a\n  --- a\n  +++ a\n  @@ -1 +1 @@\n  -x\n  +y··",
    ),
    (
        REQUEST,
        """\
? coder > helper asks: Run a command (Bash)
  │ git status && rm -rf build
  allowed git status  (the rule 'git' allows this)
  asks    rm -rf build  (no rule is about this)
  in /work
  remembered as: allow Bash(rm -rf build)
  never stores: deny Bash(rm -rf build)
  always and never count in every project: ~/.config/greenroom/permissions.json
  [y] once  [s] session  [p] project  [a] always  [n] no  [v] never  [w] no, and why\
""",
    ),
    (
        PermissionRequest(
            "p-1",
            "Bash",
            "Run a command",
            sandbox=SandboxReport(
                "workspace-write", "none", "landlock", missing=("disk",), lacking=("protected",)
            ),
        ),
        """\
? the agent asks: Run a command (Bash)
  no narrow rule fits, so a yes can't be remembered
  sandbox: workspace-write, network none (landlock); NOT HELD: protected
  [y] once  [n] no  [w] no, and why""",
    ),
    (PermissionResponse("p-1", "Bash", ALLOW, "user"), "  Bash allowed by user"),
    (
        PermissionResponse("p-1", "Bash", DENY, "user", "not now", "always"),
        "  Bash denied by user, remembered for always: not now",
    ),
    (
        PermissionResponse("p-1", "Bash", DENY, cancelled=True),
        "  the question about Bash was withdrawn",
    ),
    (SubAgentSpawned("s-1", "helper", "look around"), "◆ look around starts"),
    (SubAgentOutput("s-1", SubAgentOutput("s-2", TextDelta("deep"))), "deep"),
    (
        SubAgentComplete("s-1", EndStatus.COMPLETED, "all done"),
        "◆ the subagent has ended: completed",
    ),
    (
        SubAgentComplete("s-1", EndStatus.CRASHED, "KeyError"),
        "◆ the subagent has ended: crashed: KeyError",
    ),
    (StateChange(AgentState.executing_tool("Bash")), "executing tool: Bash"),
    (UsageReport(Usage(1, 2), Usage(1000, 234)), "1,234 tokens"),
    (
        UsageReport(Usage(1, 2, cache_read_tokens=99), Usage(1000, 234)),
        "1,234 tokens · cache 99 %",
    ),
    (
        UsageReport(Usage(1, 2, cache_read_tokens=0, cache_write_tokens=2000), Usage(1000, 234)),
        "1,234 tokens · cache miss",
    ),
    (Lagged(12), "… 12 updates came too fast to be shown"),
    (
        Error("the model is down", "ModelError", "try later"),
        "error: the model is down\n  → try later",
    ),
    (Error("oops"), "error: oops"),
    (Done("i-1"), None),
    (Done("i-1", TurnStatus.INTERRUPTED), "interrupted"),
    (
        Done("i-1", stop_reason=StopReason.MAX_TOKENS),
        "the reply was cut off: it reached the limit of tokens",
    ),
    (Restarted(2, "ValueError: x", 1.5), "the agent starts again in 1.5 s: ValueError: x"),
    (Restarted(2), "the agent starts again now"),
    (Exited(EndStatus.COMPLETED), "the agent has ended: completed"),
    (Custom("plan.step", {"id": "a"}, "step a is done"), "step a is done"),
    (Custom("made.up", text=" two\nlines\t of it\n"), "two lines of it"),
    (Custom("plan.step", {"id": "a"}), None),
    (Custom("plan.step", {"id": "a"}, " \n"), None),
    (Exited(EndStatus.CRASHED, "ValueError: x"), "the agent has ended: crashed: ValueError: x"),
]


def seen(chunk, colors=None, scheme=None):
    shown = render_chunk(chunk, scheme or ColorScheme())
    return None if shown is None else Painter(colors).paint([shown], width=100)


@pytest.mark.parametrize(("chunk", "text"), GOLDEN, ids=lambda value: type(value).__name__)
def test_every_kind_of_chunk_looks_as_it_should(chunk, text):
    found = seen(chunk)
    assert (found if found is None else found.strip("\n")) == text


def test_every_kind_of_chunk_is_among_them():
    assert {type(chunk) for chunk, _ in GOLDEN} == set(get_args(OutputChunk))


@pytest.mark.parametrize(
    "chunk",
    [
        TextDelta(EVIL),
        TextComplete(EVIL),
        ThinkingDelta(EVIL),
        ThinkingComplete(EVIL),
        ToolStart("t", EVIL, {}, ToolInfo("x")),
        ToolStart("t", "Bash", {}, ToolInfo("x", EVIL)),
        ToolProgress("t", EVIL),
        ToolEnd("t", ToolResult.ok(EVIL)),
        ToolEnd("t", ToolResult.ok("x", diff=f"+{EVIL}")),
        PermissionRequest("p", "Bash", "Run", details=EVIL),
        PermissionRequest("p", "Bash", EVIL, diff=EVIL, reason=EVIL, lineage=(EVIL,), cwd=EVIL),
        PermissionRequest("p", EVIL, "x", parts=(PermissionPart(EVIL, ASK, EVIL),)),
        PermissionResponse("p", EVIL, DENY, message=EVIL),
        SubAgentSpawned("s", "x", EVIL),
        SubAgentComplete("s", EndStatus.CRASHED, EVIL),
        Error(EVIL, hint=EVIL),
        Exited(EndStatus.CRASHED, EVIL),
        StateChange(AgentState.executing_tool(EVIL)),
        Custom(EVIL, {"x": EVIL}, EVIL),
    ],
    ids=lambda chunk: type(chunk).__name__,
)
def test_nothing_that_a_model_or_a_tool_says_is_obeyed_by_the_terminal(chunk):
    text = seen(chunk)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    if isinstance(chunk, TextComplete):  # to Markdown, a carriage return is the end of a line
        text = text.replace("b\n", "b␍")
    shown = text.replace("\n    ", " ").replace("\n", " ")
    assert SAFE in shown or (LEGIBLE in shown and isinstance(chunk, PROSE))


def test_a_prompt_shows_the_whole_command_however_long_it_is():
    command = "echo " + "x" * 500 + "; rm -rf /"
    text = seen(PermissionRequest("p", "Bash", "Run a command", details=command))
    assert command.replace(" ", "") in "".join(text.replace("│", "").split())


def test_a_prompt_warns_of_characters_that_hide():
    text = seen(PermissionRequest("p", "Bash", "Run", details="ls \u200b"))
    assert "characters that would hide" in text


def test_a_prompt_without_a_narrow_rule_offers_nothing_to_remember():
    text = seen(PermissionRequest("p", "Bash", "Run", details="x", reason="it is dynamic"))
    assert "a yes can't be remembered" in text
    assert "asked because: it is dynamic" in text
    assert "[y] once  [n] no  [w] no, and why" in text


def test_a_prompt_shows_a_diff_in_colour():
    text = seen(PermissionRequest("p", "Edit", "Edit", diff="-old\n+new"), "standard")
    assert "\x1b[31m-old" in text
    assert "\x1b[32m+new" in text


def test_a_todo_list_is_shown_as_a_list():
    from greenroom.cli.render_chunk import render_result

    todos = [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "in_progress"},
        {"content": "three", "status": "pending"},
        "nonsense",
    ]
    start = ToolStart("t", "Todo", {"todos": todos})
    shown = render_result(start, ToolEnd("t", ToolResult.ok("ok")), ColorScheme())
    assert Painter(None).paint([shown], 40) == "  ☑ one\n  ▶ two\n  ☐ three\n"


def test_a_scheme_of_ones_own_changes_the_colours():
    assert "\x1b[32m" in seen(Error("x"), "standard", ColorScheme(error="green"))
    assert "\x1b[31m" in seen(Error("x"), "standard")


def test_without_colours_there_is_no_code_at_all():
    assert all("\x1b" not in (seen(chunk) or "") for chunk, _ in GOLDEN)


def test_a_link_shows_where_it_leads():
    click = TextComplete("[click](https://evil.test/)")
    assert seen(click) == "click (https://evil.test/)\n"
    assert re.search(r"\x1b]8;[^;]*;https://evil.test/\x1b", seen(click, "truecolor"))
    assert "(https" not in seen(click, "truecolor")


@pytest.mark.parametrize("words", ["https://good.test", "good.com/x", "me@good.test", " "])
def test_a_link_whose_words_could_be_an_address_shows_the_real_one(words):
    text = seen(TextComplete(f"[{words}](https://evil.test/)"), "truecolor")
    assert "https://evil.test/" in re.sub(r"\x1b]8;[^\x1b]*\x1b", "", text)


def test_a_link_to_what_its_words_say_says_it_once():
    same = TextComplete("[https://a.test/x](https://a.test/x) [me@a.test](mailto:me@a.test)")
    assert seen(same) == "https://a.test/x me@a.test\n"


def test_what_a_person_says_in_several_lines_begins_in_one_column():
    shown = render_user("one\n  two\nthree " + "word " * 12, ColorScheme())
    assert Painter(None).paint([shown], 40).splitlines() == [
        "> one",
        "    two",
        "  three word word word word word word",
        "  word word word word word word",
    ]


def test_headings_failures_and_outputs_have_their_styles():
    def paint(shown):
        return Painter("standard").paint([shown], 60)

    scheme = ColorScheme(heading="bold", error="red", output="dim")
    assert paint(render_markdown("# Head\n", scheme)).startswith("\x1b[1mHead")
    failed = render_chunk(ToolEnd("a", ToolResult.error("no\nway"), is_error=True), scheme)
    assert "\x1b[31mno" in paint(failed)
    assert "\x1b[31mway" in paint(failed)
    done = render_chunk(ToolEnd("a", ToolResult.ok("yes")), scheme)
    assert "\x1b[2myes" in paint(done)
