"""A question as short as its risk: the command first, at most five rows, and one line when done."""

import os

import msgspec
import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from greenroom.agents._internal import PLAN_OPTIONS
from greenroom.cli.diff_view import number_diff
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.cli.question_queue import QuestionQueue, QuestionState
from greenroom.cli.question_view import QuestionView, render_record
from greenroom.core import PermissionRequest, PermissionResponse, RuleDecision
from greenroom.core._internal import PermissionEffects, PermissionPart, SandboxReport
from greenroom.tools.builtin.edit import unified_diff

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY
NO_RULE = "no rule is about this"


def command(text="npm run build -- -w", **words):
    """A question about one command that stays in the workspace."""
    usual = {
        "parts": (PermissionPart(text, ASK, NO_RULE),),
        "lineage": ("coder",),
        "cwd": os.getcwd(),
        "input": {"command": text},
        "remembers": (f"allow Bash({text})",),
        "forbids": (f"deny Bash({text})",),
        "runs_as": "'npm' 'run'",
        "claim": "Build it",
    }
    return PermissionRequest("p-1", "Bash", "Run a command", details=text, **{**usual, **words})


def view(request, **words):
    return QuestionView(request, Painter(None), ColorScheme(), **words)


def shown(request, columns=80, *, state=None, **words):
    return view(request, **words).show(state or QuestionState()).whole(columns)


BUILD = command(prefixes=("allow Bash(npm run build:*)",))


def test_a_command_that_stays_in_the_workspace_takes_five_rows_of_eighty_columns():
    assert shown(BUILD).splitlines() == [
        "? npm run build -- -w",
        "  coder asks: Run a command (Bash) · no rule is about this",
        "  s, p, a keep: npm run build -- -w · Tab: npm run build:*",
        "  [y] once  [s] session  [p] project  [a] always  [n] no  [v] never",
        "  [w] no, and why  [e] edit  Ctrl-O: more",
    ]


@given(st.text(st.sampled_from("ab -/é漢"), min_size=1, max_size=70).filter(str.strip))
def test_a_command_of_one_row_never_takes_more_than_five(text):
    text = text.strip()
    long_rule = (f"allow Bash({text}{text})",)
    rows = shown(command(text, remembers=long_rule, prefixes=("allow Bash(a:*)",))).splitlines()
    assert len(rows) <= 5 + (cell_len(text) > 77)
    assert all(cell_len(row) <= 79 for row in rows)


def test_after_tab_the_row_shows_what_is_kept_now():
    rows = shown(BUILD, state=QuestionState(takes_prefix=True)).splitlines()
    assert rows[2] == "  s, p, a keep: npm run build:* · Tab: npm run build -- -w"


def test_the_row_names_the_letters_that_there_are():
    far = msgspec.structs.replace(BUILD, prefixes=(), host="far.test")
    rows = shown(far).splitlines()
    assert "  s keeps: npm run build -- -w" in rows
    assert "[p]" not in rows[-1]


def test_a_long_rule_is_cut_but_what_tab_would_keep_is_seen():
    text = "pytest " + "tests/a_long_name_of_a_test.py " * 4
    request = command(text, prefixes=("allow Bash(pytest:*)",))
    [row] = [row for row in shown(request).splitlines() if "keep" in row]
    assert len(row) <= 79
    assert row.endswith("… · Tab: pytest:*")


def test_effects_outside_warnings_and_gaps_of_a_sandbox_have_rows_of_their_own():
    report = SandboxReport("read-only", "none", "limits", missing=("files",), lacking=("files",))
    effects = PermissionEffects(writes=("/etc/x",), hosts=("c.test",), unchecked=("python",))
    text = shown(command(effects=effects, sandbox=report, warnings=("it hides",)))
    assert text.splitlines()[2:6] == [
        "  it hides",
        "  writes outside the workspace: /etc/x",
        "  contacts: c.test",
        "  sandbox: read-only, network none (limits); NOT HELD: files",
    ]
    assert "python" not in text


def test_of_several_parts_those_that_ask_are_named_with_the_reason():
    parts = (
        PermissionPart("git status", ALLOW, "the rule 'git' allows this", "git"),
        PermissionPart("make", ASK, NO_RULE),
        PermissionPart("npm ci", ASK, NO_RULE),
    )
    text = "git status && make && npm ci"
    assert "(Bash) · no rule is about this: make, npm ci" in shown(command(text, parts=parts))
    asks = PermissionPart("npm ci", ASK, "the rule 'x' asks", "x")
    text = shown(command(text, parts=(*parts[:2], asks)), 100)
    assert "(Bash) · the rule 'x' asks: npm ci" in text
    hidden = PermissionPart("it is not plain", ASK, "it is not plain")
    assert "not plain; no rule is about this: make" in shown(command(parts=(hidden, parts[1])), 100)


def test_another_folder_and_another_machine_are_named():
    assert "(Bash) · in /srv/shop · no rule" in shown(command(cwd="/srv/shop"))
    assert "on the machine build-7, in /srv" in shown(command(cwd="/srv", host="build-7"))


def test_the_long_form_has_the_rest_and_hides_it_again():
    long = shown(BUILD, state=QuestionState(is_long=True))
    for line in ("? coder asks: Run a command (Bash)", "read as:", "│ 'npm' 'run'", "Ctrl-O: less"):
        assert line in long
    assert "agent says: “Build it”" in long
    assert "agent says" not in shown(BUILD)
    assert "[o] more" in shown(BUILD, is_live=False)


def test_a_project_whose_answers_count_in_this_run_only_says_so():
    assert "[p] project (this run)" in shown(BUILD, warning="this project: counts in this run")
    assert "this project: counts" in shown(
        BUILD, warning="this project: counts", state=QuestionState(is_long=True)
    )


def test_of_several_lines_each_is_marked_as_the_command_s():
    rows = shown(command("make\n  coder asks: forged\n\n? y")).splitlines()
    assert rows[:4] == ["? make", "│   coder asks: forged", "│ ", "│ ? y"] or rows[2] == "│"


OLD = "".join(f"line {number}\n" for number in range(1, 31))
NEW = OLD.replace("line 9\n", "line nine  \n").replace("line 20\n", "")


def test_a_diff_has_the_numbers_of_its_lines():
    text = number_diff(unified_diff(OLD, NEW, "a.txt"), ColorScheme()).plain
    assert text.splitlines() == [
        *[f"{n:>2}   line {n}" for n in (6, 7, 8)],
        " 9 - line 9",
        " 9 + line nine··",
        *[f"{n:>2}   line {n}" for n in (10, 11, 12)],
        "   ⋮",
        *[f"{n:>2}   line {n}" for n in (17, 18, 19)],
        "20 - line 20",
        *[f"{n:>2}   line {n + 1}" for n in (20, 21, 22)],
    ]


def test_a_diff_of_signs_and_what_is_no_diff_are_shown_too():
    diff = unified_diff("-- a\n++ b\n@@ c", "-- a\n++ x\n@@ c\n", "f")
    assert [row[2:] for row in number_diff(diff, ColorScheme()).plain.splitlines()] == [
        "  -- a",
        "- ++ b",
        "+ ++ x",
        "  @@ c",
        "\\ The final newline was added",
    ]
    assert "too large" in number_diff("f: too large to compare", ColorScheme()).plain
    assert "\\u{202e}" in number_diff("--- f\n+++ f\n@@ -0,0 +1 @@\n+\u202e", ColorScheme()).plain


def edit(old=OLD, new=NEW, **words):
    return PermissionRequest(
        "p-1",
        "Edit",
        "Edit a file",
        details="a.txt",
        diff=unified_diff(old, new, "a.txt"),
        remembers=("allow Edit(a.txt)",),
        **words,
    )


def test_the_diff_of_a_file_in_the_workspace_stands_above_and_may_be_cut():
    text = view(edit()).show(QuestionState())
    assert "│  9 - line 9\n│  9 + line nine··\n" in text.content(80)
    assert text.paint(80).splitlines()[0] == "? a.txt"
    assert len((text.paint(80) + text.choices(80)).splitlines()) <= 5


def test_the_diff_of_a_file_outside_has_to_be_read():
    text = view(edit(effects=PermissionEffects(writes=("/etc/a.txt",)))).show(QuestionState())
    assert text.content(80) == ""
    assert "│  9 + line nine··" in text.paint(80)


def test_what_is_read_stays_the_same_function_while_choices_change():
    asked = view(BUILD)
    first = asked.show(QuestionState())
    after_tab = asked.show(QuestionState(takes_prefix=True))
    assert after_tab.paint is first.paint
    assert after_tab.choices is not first.choices
    assert asked.show(QuestionState()) is first
    long, other = (asked.show(QuestionState(is_long=True, takes_prefix=p)) for p in (False, True))
    assert len({first.paint, long.paint, other.paint}) == 3


def queue_of(request, **words):
    queue = QuestionQueue(**words)
    queue.follow([request])
    return queue


def test_a_mark_is_seen_without_colours_too():
    queue = queue_of(BUILD)
    assert " >" not in shown(BUILD, state=queue.state)
    queue.move(1)
    assert " >[y] once  [s]" in shown(BUILD, state=queue.state)
    queue.move(-1)
    assert " >[e] edit" in shown(BUILD, state=queue.state)


PLAN = "1. Look\n2. Mend"


def plan(**words):
    usual = {"input": {"plan": PLAN}, "details": PLAN, "options": PLAN_OPTIONS}
    return PermissionRequest("p-1", "SubmitPlan", "Approve a plan", **{**usual, **words})


def test_a_plan_is_asked_about_in_a_few_rows_and_shown_anew_once_it_was_changed():
    assert shown(plan()).splitlines() == [
        "? Carry out this plan?",
        "  the agent asks: Approve a plan (SubmitPlan)",
        "  [y] approve  [a] approve, and accept edits  [e] edit it",
        "  [w] refuse, and say why  Ctrl-O: more",
    ]
    assert "│ 1. Look first" in shown(plan(), state=QuestionState(plan="1. Look first"))
    assert "[e]" not in shown(plan(), is_live=False)
    forged = shown(plan(input={}))
    assert "type an answer or a number" in forged


RULES = ("allow Bash(npm run build:*)",)


@pytest.mark.parametrize(
    ("response", "line"),
    [
        (PermissionResponse("p-1", "Bash", ALLOW, "user"),
         "✓ coder: npm run build -- -w · Bash allowed by user"),
        (PermissionResponse("p-1", "Bash", ALLOW, "ada", remember="session", rules=RULES),
         "✓ coder: npm run build -…"
         " · Bash allowed by ada, remembered for this session: Bash(npm run build:*)"),
        (PermissionResponse("p-1", "Bash", DENY, "user", "use\nmake"),
         "✗ coder: npm run build -- -w · Bash denied by user: use make"),
        (PermissionResponse("p-1", "Bash", DENY, "withdrawn", cancelled=True),
         "- coder: npm run build -- -w · the question about Bash was withdrawn"),
        (None, "- coder: npm run build -- -w · the question about Bash is over"),
    ],
)  # fmt: skip
def test_an_answered_question_is_one_line_with_who_what_and_the_rule_that_is_kept(response, line):
    painted = Painter(None).paint([render_record(BUILD, response, ColorScheme(), 99)], 99)
    assert painted == f"{line}\n"


def test_a_record_is_cut_to_one_row_but_not_the_person_s_own_words():
    long = command("make " * 80)
    done = PermissionResponse("p-1", "Bash", ALLOW, "user")
    assert len(Painter(None).paint([render_record(long, done, ColorScheme(), 60)], 60)) <= 61
    said = msgspec.structs.replace(done, decision=DENY, message="word " * 60)
    painted = Painter(None).paint([render_record(long, said, ColorScheme(), 60)], 60)
    assert painted.count("word") == 60
