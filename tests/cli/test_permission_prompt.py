"""The permission prompt: what it shows in which order, and what has to be seen before what."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from greenroom.cli.choices import find_choice, find_choices
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.cli.permission_prompt import render_request
from greenroom.cli.question_pane import QuestionPane
from greenroom.cli.question_queue import TOO_LATE, PersonDecision, QuestionQueue
from greenroom.cli.terminal import Line, QuestionText
from greenroom.core import PermissionRequest, RuleDecision
from greenroom.core._internal import PermissionEffects, PermissionPart, SandboxReport, exact, serde

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY


def request(details="make", **words):
    """A request that may be remembered and forbidden."""
    usual = {"remembers": ("allow Bash(make)",), "forbids": ("deny Bash(make)",)}
    return PermissionRequest("p-1", "Bash", "Run a command", details=details, **{**usual, **words})


def shown(asked, **words):
    return Painter(None).paint([render_request(asked, ColorScheme(), **words)], 120)


FULL = request(
    "git status && sudo make > /etc/x",
    parts=(
        PermissionPart("git status", ALLOW, "the rule 'git' allows this", "git", "~/r.json"),
        PermissionPart("sudo make", ASK, "no rule is about this"),
    ),
    cwd="/work",
    effects=PermissionEffects(
        reads=("/a",),
        writes=("/etc/x",),
        names=("/b",),
        hosts=("c.test",),
        changes=("sets the variable D",),
        privileges=("sudo make",),
    ),
    claim="Look at the state",
    lineage=("planner", "coder"),
)


def test_a_prompt_tells_who_what_parts_effects_rules_and_last_what_the_agent_says():
    assert shown(FULL).splitlines() == [
        "? planner > coder asks: Run a command (Bash)",
        "  │ git status && sudo make > /etc/x",
        "  allowed git status  (the rule 'git' allows this; ~/r.json)",
        "  asks    sudo make  (no rule is about this)",
        "  runs with other rights: sudo make",
        "  writes outside the workspace: /etc/x",
        "  reads outside the workspace: /a",
        "  names files outside the workspace: /b",
        "  contacts: c.test",
        "  besides: sets the variable D",
        "  in /work",
        "  remembered as: allow Bash(make)",
        "  never stores: deny Bash(make)",
        "  always and never count in every project: ~/.config/greenroom/permissions.json",
        "  agent says: “Look at the state”",
        "  [y] once  [s] session  [p] project  [a] always  [n] no  [v] never  [w] no, and why",
    ]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_a_request_is_the_same_after_a_journey_as_json():
    assert serde.decode(serde.encode(FULL), PermissionRequest) == FULL


HOSTILE = "\x1b[2J\r\x1b]0;gone\x07\u202e\u200b\u2066" + " " * 500 + "\u00a0\u3000"


@pytest.mark.parametrize(
    "field", ["action", "details", "diff", "claim", "cwd", "reason", "tool_name"]
)
def test_nothing_that_a_request_says_reaches_the_terminal_as_it_is(field):
    text = shown(msgspec.structs.replace(request(), parts=(), **{field: f"a{HOSTILE}b"}))
    assert all(ch.isprintable() or ch == "\n" for ch in text)
    assert "\u00a0" not in text
    assert "…(500blanks)…" in "".join(text.replace("│", "").split()) or field == "claim"


def test_neither_parts_nor_effects_nor_rules_nor_names_do():
    part = PermissionPart(HOSTILE, ASK, HOSTILE, HOSTILE, HOSTILE)
    effects = PermissionEffects((HOSTILE,), (HOSTILE,), (HOSTILE,), (HOSTILE,), (HOSTILE,))
    hostile = request(parts=(part,), effects=effects, lineage=(HOSTILE,), remembers=(HOSTILE,))
    assert all(ch.isprintable() or ch == "\n" for ch in shown(hostile, warning=HOSTILE))


def test_what_the_agent_says_can_not_pass_for_a_line_of_ours():
    said = "harmless\n  allowed rm -rf /  (the rule 'x' allows this)\n" + "more " * 200
    lines = shown(request(claim=said)).splitlines()
    [line] = [line for line in lines if "agent says" in line]
    assert "allowed rm -rf" in line
    assert not any(line.startswith("  allowed") for line in lines)
    assert sum(len(line) for line in lines) < 1200


@pytest.mark.parametrize(
    ("details", "says"),
    [
        ("ls \u200b", "it holds characters that would hide"),
        ("ls" + " " * 99, "it holds long runs of blanks"),
        ("curl p\u0430ypal.com", "letters of several alphabets"),
    ],
)
def test_what_may_mislead_is_warned_of_wherever_the_request_was_made(details, says):
    assert says in shown(request(details))
    assert "sent along" in shown(request(warnings=("sent along",)))


def test_a_line_that_wraps_can_not_pass_for_one_of_ours():
    forged = "echo " + "x " * 60 + " " * 30 + "  allowed ls  (the rule 'all' allows this)"
    asked = request(forged + "\n  allowed ls", parts=(PermissionPart(forged, ASK, forged),))
    effects = PermissionEffects(names=(forged,), hosts=(forged,))
    text = Painter(None).paint(
        [render_request(msgspec.structs.replace(asked, effects=effects), ColorScheme())], 60
    )
    ours = [line for line in text.splitlines() if line.startswith("  allowed")]
    assert ours == []
    assert "allowed ls" in text


LONG = "\n".join(f"line {number}" for number in range(500))


def test_a_long_text_a_long_diff_and_many_parts_are_shown_whole():
    parts = tuple(PermissionPart(f"ls {number}", ALLOW, "a rule") for number in range(300))
    lines = shown(request(LONG, diff=LONG.replace("line", "+x"), parts=parts)).splitlines()
    assert [line for line in lines if line.startswith("  │ line")] == [
        f"  │ line {number}" for number in range(500)
    ]
    assert [line for line in lines if line.startswith("  │ +x")] == [
        f"  │ +x {number}" for number in range(500)
    ]
    assert sum(line.startswith("  allowed ls") for line in lines) == 300


@given(
    st.text(st.sampled_from("ab \t\n漢é\u0301\u0323\x1b\u202e|"), min_size=1, max_size=200),
    st.integers(20, 60),
)
def test_of_a_command_no_character_is_lost_and_no_row_is_too_wide(text, width):
    painted = Painter(None).paint([render_request(request(text), ColorScheme())], width)
    rows = [row for row in painted.splitlines() if row.startswith("  │ ")]
    assert all(cell_len(row) <= width for row in rows)
    found = "".join(row.removeprefix("  │ ") for row in rows)
    assert "".join(found.split()) == "".join(exact(text).split())


def line(text, question="p-1"):
    return Line(text, question)


def queue_of(*requests):
    queue = QuestionQueue()
    queue.follow(requests)
    return queue


def count_unread(text):
    return Line(text, "p-1", is_read=False)


@pytest.mark.parametrize("word", ["y", "e", "s", "project", "always", "never", "never session"])
def test_only_a_plain_no_may_be_given_before_all_was_shown(word):
    queue = queue_of(editable())
    assert "not before all of it was shown; Space or PgDn turns the page" in queue.read(
        count_unread(word)
    )
    assert queue.read(line("y")).decision is ALLOW
    assert queue_of(request()).read(count_unread("n")).decision is DENY


@pytest.mark.parametrize("lifetime", ["session", "project"])
def test_a_no_is_remembered_for_the_session_or_the_project_where_that_is_typed(lifetime):
    found = queue_of(request()).read(line(f" Never  {lifetime} "))
    assert (found.decision, found.remember) == (DENY, lifetime)
    assert f"never {lifetime}" not in shown(request())
    told = queue_of(request(forbids=())).read(line(f"never {lifetime}"))
    assert told.startswith(f"never in this {lifetime}: not possible here")


BUILD = request(
    "npm run build -- -w",
    remembers=("allow Bash(cd web)", "allow Bash(npm run build -- -w)"),
    prefixes=("allow Bash(cd web)", "allow Bash(npm run build:*)"),
)


@pytest.mark.parametrize("word", ["s", "project", "a"])
def test_tab_switches_between_exact_words_and_a_prefix_until_the_question_is_decided(word):
    remember = find_choice(word).remember
    queue = queue_of(BUILD, msgspec.structs.replace(BUILD, request_id="p-2"))
    assert queue.read(line(word)) == PersonDecision("p-1", ALLOW, remember)
    queue.switch()
    assert queue.read(line(word)) == PersonDecision("p-1", ALLOW, remember, prefix=True)
    assert queue.read(line("y")) == PersonDecision("p-1", ALLOW, prefix=True)
    assert queue.read(line("never")) == PersonDecision("p-1", DENY, "always")
    queue.switch()
    assert queue.read(line(word)) == PersonDecision("p-1", ALLOW, remember)
    queue.switch()
    queue.drop("p-1")
    assert queue.read(line(word, "p-2")) == PersonDecision("p-2", ALLOW, remember)


def test_a_prompt_shows_what_is_kept_and_what_tab_would_keep():
    kept = [text for text in shown(BUILD).splitlines() if "remembered as" in text]
    assert kept == [
        "  remembered as: allow Bash(cd web), allow Bash(npm run build -- -w)"
        " · Tab: allow Bash(npm run build:*)"
    ]
    kept = [x for x in shown(BUILD, takes_prefix=True).splitlines() if "remembered as" in x]
    assert kept == [
        "  remembered as: allow Bash(cd web), allow Bash(npm run build:*)"
        " · Tab: allow Bash(npm run build -- -w)"
    ]
    assert "Tab" not in shown(request())


def test_tab_is_a_part_of_the_line_where_a_terminal_passes_it_on():
    queue = queue_of(BUILD)
    assert queue.read(line("\t")) == ""
    assert queue.state.takes_prefix
    assert queue.read(line("\ta")) == PersonDecision("p-1", ALLOW, "always")
    assert queue.read(line("\ts")).prefix


def test_tab_switches_nothing_without_a_prefix_and_in_a_reason():
    queue = queue_of(request())
    queue.switch()
    assert not queue.read(line("a")).prefix
    queue = queue_of(BUILD)
    queue.read(line("w"))
    queue.switch()
    assert queue.read(line("\tno", "p-1 why")).message == "no"
    assert not queue.state.takes_prefix


def test_the_long_form_shows_how_a_plain_command_was_read():
    asked = request(runs_as="'ls' 'a\u202eb'")
    assert "  read as:\n  │ 'ls' 'a\\u{202e}b'\n" in shown(asked)
    assert "read as" not in shown(request())


@pytest.mark.parametrize("word", ["o", "More", "\x0f"])
def test_the_long_form_is_shown_and_hidden_by_a_word_where_no_key_does_and_answers_nothing(word):
    queue = queue_of(request())
    assert queue.read(line(word)) == ""
    assert queue.state.is_long
    assert queue.read(line(word)) == ""
    assert not queue.state.is_long


def test_all_of_how_a_command_was_read_can_be_paged_through():
    words = [f"'word-{number}'" for number in range(5_000)]
    asked = request(runs_as=" ".join(words))
    pane, text = QuestionPane(QuestionText(lambda columns: shown(asked))), ""
    while not pane.is_read:
        rows = pane.fit(120, 20)
        assert len(rows) <= 20
        text += "".join(part[1] for row in rows[:-1] for part in row)
        pane.mark_shown()
        pane.turn(1)
    assert all(word in text.replace("  │ ", "") for word in words)


def test_the_next_question_is_shown_in_short_again():
    queue = queue_of(request())
    queue.toggle_long()
    queue.follow([msgspec.structs.replace(request(), request_id="p-2")])
    assert not queue.state.is_long


def test_programs_whose_default_files_are_not_known_are_named():
    asked = request(effects=PermissionEffects(unchecked=("python\u202e", "frob")))
    assert (
        "  the files that python\\u{202e} reads by default are not checked\n"
        "  the files that frob reads by default are not checked\n"
    ) in shown(asked)


def test_what_is_no_choice_is_refused_with_the_choices():
    told = queue_of(request(remembers=())).read(line("yes\u202e please"))
    assert told.startswith("“yes\\u{202e} please” is not a choice, and was not sent: [y] once")
    assert told.endswith("[n] no  [v] never  [w] no, and why")


def test_each_question_says_which_of_how_many_it_is():
    first = request()
    more = [msgspec.structs.replace(first, request_id=f"p-{number}") for number in (2, 3)]
    queue = queue_of(first)
    assert queue.place == ""
    queue.follow([first, *more])
    assert queue.place == "question 1 of 3"
    queue.drop("p-1")
    assert queue.place == "question 2 of 3"
    queue.follow(more[:1])
    assert queue.place == "question 2 of 2"
    queue.drop("p-2")
    queue.follow([first])
    assert queue.place == ""


@pytest.mark.parametrize("text", ["", " ", "\t", "\n", "  \n "])
def test_enter_and_blanks_choose_nothing(text):
    assert find_choice(text) is None
    assert queue_of(request()).read(line(text)) == ""


def test_a_line_of_another_question_decides_nothing():
    queue = queue_of(request())
    assert queue.read(line("y", "p-0")) == TOO_LATE
    assert queue.read(line("yes, of course", "p-0")) == TOO_LATE
    assert queue.read(line("", "p-0")) == ""
    assert queue.current is not None


def test_without_rules_nothing_can_be_remembered():
    choices = find_choices(request(remembers=(), forbids=()), can_hide=True)
    assert [choice.label for choice in choices] == ["once", "no", "no, and why"]


def test_a_headless_run_prints_the_request_that_a_terminal_would_render(run, env):
    done = run("-p", "run sudo touch /etc/x > log.txt", "--output-format", "stream-json")
    chunks = [json.loads(line) for line in done.out.splitlines()]
    [found] = [chunk for chunk in chunks if chunk["type"] == "permission_request"]
    asked = serde.decode(serde.encode(found), PermissionRequest)
    assert asked.details == "sudo touch /etc/x > log.txt"
    assert asked.effects.privileges == ("sudo touch /etc/x",)
    assert asked.effects.names == ("/etc/x",)
    text = shown(asked)
    assert "  runs with other rights: sudo touch /etc/x\n" in text
    assert all(part.text in text for part in asked.parts)


def test_what_a_sandbox_does_not_hold_is_told():
    report = SandboxReport("read-only", "none", "limits", missing=("files",), lacking=("files",))
    text = shown(request(sandbox=report))
    assert "  sandbox: read-only, network none (limits); NOT HELD: files\n" in text


def test_why_root_runs_it_is_told_and_a_path_in_it_hides_nothing():
    report = SandboxReport("read-only", "none", "limits", as_root="it may not read /w\x1b[8m")
    text = shown(request(sandbox=report))
    assert "  sandbox: read-only, network none (limits, as root: it may not read /w" in text
    assert "\x1b[8m" not in text


def editable(command="make"):
    return request(command, input={"command": command, "timeout": 5})


def test_a_command_may_be_changed_and_then_runs_once():
    queue = queue_of(editable())
    assert "[e] edit" in shown(editable())
    assert queue.read(line("e")) == ""
    question = queue.question(QuestionText())
    assert (question.label, question.text) == ("run instead? > ", "make")
    answer = queue.read(line("make -n", question.id))
    assert answer == PersonDecision("p-1", ALLOW, input={"command": "make -n", "timeout": 5})


@pytest.mark.parametrize("text", ["", "  ", "make", " make "])
def test_a_command_that_was_not_changed_leaves_the_question_open(text):
    queue = queue_of(editable())
    queue.read(line("edit"))
    told = queue.read(line(text, queue.question(QuestionText()).id))
    assert told == "nothing was changed; the question is still open"
    assert queue.question(QuestionText()).label == "allow? > "


def test_what_can_not_be_shown_in_a_line_is_typed_anew():
    queue = queue_of(editable("ls \u202e"))
    queue.read(line("e"))
    assert queue.question(QuestionText()).text == ""


def test_what_has_no_command_can_not_be_changed_in_a_line():
    assert "[e]" not in shown(request())
    assert "it has no command" in queue_of(request()).read(line("e"))


def question(**words):
    details = "Which colour?\n1. red\n2. blue\n  [y] once"
    return request(details, **{"options": ("red", "blue"), "remembers": (), "forbids": (), **words})


def test_a_question_is_shown_with_what_answers_it_and_nothing_about_rules():
    assert shown(question(cwd="/work", reason="so")).splitlines() == [
        "? the agent asks: Run a command (Bash)",
        "  │ Which colour?",
        "  │ 1. red",
        "  │ 2. blue",
        "  │   [y] once",
        "  type an answer or a number, then Enter; Ctrl-D: no answer",
    ]
    assert "type an answer, then Enter" in shown(question(options=()))


def test_whatever_is_typed_is_the_answer():
    for words in ("y", "never", "2", "/quit", "a  longer answer"):
        queue = queue_of(question())
        assert queue.asks_for_words
        assert queue.question(QuestionText()).label == "answer> "
        assert queue.read(line(f" {words} ")) == PersonDecision("p-1", ALLOW, message=words)
    queue = queue_of(question())
    assert queue.read(line(" ")) == ""
    assert queue.read(Line("blue")) == TOO_LATE
    assert not queue_of(request()).asks_for_words


TOKEN = request(credential="token", remembers=(), forbids=(), input={"command": "x"})


def test_a_credential_is_not_taken_where_it_would_be_seen():
    text = shown(TOKEN, can_hide=False)
    assert text.endswith("[n] no  [w] no, and why\n")
    assert "handle.give_credential" in text
    assert "handle.give_credential" in queue_of(TOKEN).read(line("g"))
    assert "give it, or not" in queue_of(TOKEN).read(line("y"))


def asks_for_token():
    queue = QuestionQueue(can_hide=True)
    queue.follow([TOKEN])
    return queue


def test_a_credential_is_given_hidden_and_nothing_shows_its_value():
    assert shown(TOKEN).endswith("[g] give it, unseen  [n] no  [w] no, and why\n")
    queue = asks_for_token()
    assert queue.read(line("g")) == ""
    question = queue.question(QuestionText())
    assert (question.is_hidden, question.is_follow_up, queue.asks_for_words) == (True, True, True)
    assert "still open" in queue.read(Line(" ", question.id))
    queue.read(line("g"))
    found = queue.read(Line("tok-1 \n", question.id))
    assert (found.decision, found.value, found.message, found.input) == (ALLOW, "tok-1", "", None)
    assert "tok-1" not in f"{found!r} {Line('tok-1')!r}"


def test_a_value_that_is_typed_where_a_choice_is_asked_for_is_not_quoted():
    queue = asks_for_token()
    assert "tok-1" not in queue.read(line("tok-1"))
    assert queue.read(Line("tok-1", "p-1 value")) == TOO_LATE
    assert "no credential is asked for" in queue_of(request()).read(line("g"))


def test_another_machine_is_named_before_the_directory():
    text = shown(request(host="build-7", cwd="/srv/shop"))
    assert "on the machine build-7, in /srv/shop" in text
    assert "machine" not in shown(request(cwd="/srv/shop"))
    assert "\\u{202e}" in shown(request(host="a\u202eb", cwd=""))


def test_fields_are_shown_and_filled_in_as_json():
    fields = {"type": "object", "properties": {"age": {"type": "integer"}}}
    asked = request(fields=fields)
    assert '"age"' in shown(asked)
    assert "[f] fill in, as JSON" in shown(asked)
    assert "[y] once" not in shown(asked)
    assert "[f]" not in shown(request())
    queue = queue_of(asked)
    assert "fill them in" in queue.read(line("y"))
    assert queue.read(line("f")) == ""
    assert "not an object" in queue.read(line("[1]", "p-1 fields"))
    assert queue.read(line("f")) == ""
    assert queue.read(line('{"age": 7}', "p-1 fields")).input == {"age": 7}
    assert "no fields" in queue_of(request()).read(line("f"))


@pytest.mark.parametrize(
    ("typed", "result"),
    [("", None), ("booked", "booked"), ('{"id": 7}', {"id": 7}), ("7", 7), ("7 boats", "7 boats")],
)
def test_a_call_that_may_have_run_has_three_answers(typed, result):
    asked = request(may_have_run=True, remembers=(), forbids=(), input={})
    text = shown(asked)
    assert "[y] it did not run: run it  [d] it ran  [n] leave it out  [w] leave it out, and" in text
    assert "can't be remembered" not in text
    assert "[d]" not in shown(request())
    assert queue_of(asked).read(line("y")).decision is ALLOW
    assert queue_of(asked).read(line("n")).input is None
    queue = queue_of(asked)
    assert queue.read(line("d")) == ""
    found = queue.read(line(typed, "p-1 result"))
    assert (found.decision, found.input) == (DENY, {"result": result})
    assert found.message == (
        "it ran, result not known" if not typed else "it ran, with this result"
    )
    assert "not before all of it was shown" in queue_of(asked).read(count_unread("d"))
    assert "nothing of it has started" in queue_of(request()).read(line("d"))
