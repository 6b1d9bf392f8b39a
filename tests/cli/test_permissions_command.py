"""`greenroom permissions`: what each verb prints, takes and refuses; no judged command runs."""

import io
import json
import sys
from datetime import timedelta

import pytest
import trio

from greenroom.core import utc_now
from greenroom.core._internal import PermissionPart, PermissionRecord
from greenroom.programs._internal import read_only_commands
from greenroom.session import AgentSession

RULES = {
    "version": 1,
    "rules": [
        {"id": "git-read", "decision": "allow", "command_prefix": ["git status", "git log"]},
        {"id": "no-push", "decision": "deny", "command_prefix": ["git push"], "message": "Ask me."},
        {"id": "old", "decision": "deny", "tool": "Write", "expires": "2020-01-01T00:00:00Z"},
        {"decision": "ask", "tool": "WebFetch", "scope": "agent", "agent": "coder", "priority": 7},
        {"decision": "deny", "path": "**/*.pem", "final": True, "expires": "2999-01-01T00:00:00Z"},
    ],
}


@pytest.fixture
def own_rules(env):
    """The user's rule file."""
    return rule_file(env["HOME"], ".config/greenroom", RULES)


def rule_file(folder, place, rules):
    path = trio.run(trio.Path(folder).joinpath(place).absolute)
    trio.run(lambda: path.mkdir(parents=True, exist_ok=True))
    trio.run((path / "permissions.json").write_text, json.dumps(rules))
    return str(path / "permissions.json")


def test_a_command_is_explained_part_by_part_with_rule_and_source(run, own_rules, project, env):
    done = run("permissions", "explain", "git status && make > log.txt", "--allow", "Bash(ls:*)")
    assert (done.code, done.err) == (0, "")
    head, first, second, third, runs_as, always, digest = done.out.splitlines()
    assert head == "ask: make: no rule is about this"
    source = shown(own_rules, env)
    assert first == f"  allowed git status  (the rule 'user/git-read' allows this; {source})"
    assert second == "  asks    make  (no rule is about this)"
    assert third == "  asks    write log.txt  (no rule is about this)"
    assert runs_as.startswith("  read as: ")  # as it was written, if a person says yes
    assert runs_as.endswith("'git' 'status' && 'make' > 'log.txt'")
    assert always == "  an always would store: allow Bash(make, > log.txt)"
    assert digest.startswith("  digest: ")
    assert not (project / "log.txt").exists()


def test_what_runs_is_told_of_what_is_allowed_alone(run):
    assert "\n  runs as: " in run("permissions", "explain", "ls a").out
    denied = run("permissions", "explain", "ls a", "--deny", "Bash(ls:*)").out
    assert "\n  runs as: " not in denied
    assert "\n  runs as: " not in run("permissions", "explain", "ls $x").out


def test_programs_whose_default_files_are_not_known_are_named(run):
    told = "  the files that frob reads by default are not checked\n"
    assert told in run("permissions", "explain", "timeout 5 frob a").out
    assert told not in run("permissions", "explain", "make a").out


def test_what_an_always_and_a_never_would_store_is_told(run):
    told = run("permissions", "explain", "pytest a.txt").out
    assert "  an always would store: allow Bash(pytest a.txt)\n" in told
    assert "  or with a prefix: allow Bash(pytest:*)\n" in told
    assert "  a never would store: deny Bash(pytest:*)\n" in told


def test_a_denial_says_what_the_model_is_told(run, own_rules):
    told = run("permissions", "explain", "git push").out
    assert told.startswith("deny: the rule 'user/no-push' denies this: Ask me.\n")
    assert "  the model gets: Ask me.\n" in told


def test_another_tool_s_call_is_explained_by_its_input(run, project):
    done = run("permissions", "explain", "--tool", "Read", "--input", '{"file_path": "README.md"}')
    assert done.out.startswith("allow: the rule 'read-workspace' allows this")
    done = run("permissions", "explain", "--tool", "mine", "--input", '{"x": 1}')
    assert done.out.splitlines()[0] == "ask: no rule is about this"


def test_rules_and_mode_count_as_in_a_run_wherever_they_stand(run):
    words = ("permissions", "explain", "touch x")
    assert run(*words, "--deny", "Bash").out.startswith("deny: the rule 'deny Bash'")
    assert run("--deny", "Bash", *words).out.startswith("deny: the rule 'deny Bash'")
    told = run(*words, "--permission-mode", "bypass").out
    assert told.startswith("allow: ")
    assert "  the mode is bypass\n" in told


def test_an_explanation_as_json_has_all_of_it(run, own_rules, project):
    found = run("permissions", "explain", "git push; pytest a", "--json").json
    assert (found["decision"], found["rule"], found["source"]) == (
        "deny",
        "user/no-push",
        own_rules,
    )
    assert (found["tool"], found["input"]) == ("Bash", {"command": "git push; pytest a"})
    assert (found["cwd"], found["mode"], found["message"]) == (str(project), "default", "Ask me.")
    assert [part["decision"] for part in found["parts"]] == ["deny", "ask"]
    assert len(found["digest"]) == 64
    asked = run("permissions", "explain", "pytest a", "--json").json
    assert (asked["remembers"], asked["rule"]) == (["allow Bash(pytest a)"], None)
    assert asked["prefixes"] == ["allow Bash(pytest:*)"]


def test_commands_that_only_read_are_listed_and_can_be_switched_off(run):
    assert run("permissions", "explain", "ls | wc", "--json").json["decision"] == "allow"
    assert run("permissions", "explain", "ls", "--no-read-only", "--json").json["decision"] == "ask"
    listed = run("permissions", "list").out
    assert all(name in listed for name in read_only_commands())
    assert "git status" in listed
    assert "git status" in run("permissions", "list", "--json").json["read_only"]
    assert "git status" not in run("permissions", "list", "--no-read-only").out
    assert run("--no-read-only", "permissions", "list", "--json").json["read_only"] == []


def test_what_would_hide_is_shown(run):
    told = run("permissions", "explain", "echo '\x1b[2J\u202e'").out
    assert "\\u{1b}[2J\\u{202e}" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tool", "Read", "src"], "a command is for Bash, not for Read (write --input"),
        (["--input", "[1]"], "--input: "),
        (["--input", '{"a": 1, "a": 2}'], "--input: "),
        (["ls", "--allow", "Bash("], "--allow: "),
    ],
)
def test_what_can_not_be_explained_is_exit_code_2(run, words, says):
    done = run("permissions", "explain", *words)
    assert done.code == 2
    assert says in done.err


def test_either_a_command_or_an_input_is_needed(run):
    for words in ([], ["ls", "--input", "{}"]):
        with pytest.raises(SystemExit) as end:
            run("permissions", "explain", *words)
        assert end.value.code == 2


def test_rules_are_listed_in_the_order_in_which_they_are_asked(run, own_rules, env):
    done = run("permissions", "list", "--deny", "Bash(rm:*)")
    head, *rows = done.out.split("\n\n")[0].splitlines()
    assert head.split() == ["decision", "rule", "name", "scope", "from"]
    assert [row.split()[1] for row in rows] == [
        "*(path:**/*.pem)",
        "Bash(rm:*)",
        "WebFetch",
        "*(git",
        "category:read(**)",
        "*(git",
    ]
    assert "global, final, until 2999-01-01" in rows[0]
    assert rows[0].endswith(shown(own_rules, env))
    assert rows[1].endswith("--deny")
    assert "agent coder, priority 7" in rows[2]
    assert rows[4].endswith("built in")
    assert "user/no-push" in rows[3]
    assert "What no rule is about is asked." in done.out


def shown(path, env):
    return path.replace(env["HOME"], "~")


def test_rules_that_do_not_count_are_listed_with_the_reason(run, own_rules, project):
    foreign = {"version": 1, "rules": [{"decision": "allow", "command_prefix": "make"}]}
    path = rule_file(project, ".greenroom", foreign)
    told = run("permissions", "list").out.split("These don't count:")[1]
    assert "it allows, and the project's file is not trusted" in told
    assert path in told
    assert "it has expired" in told
    found = run("permissions", "list", "--json", "--permission-mode", "plan").json
    assert found["mode"] == "plan"
    assert [rule["why"] for rule in found["ignored"]] == [
        "it allows, and the project's file is not trusted",
        "it has expired",
    ]
    assert [rule["source"] for rule in found["rules"]] == [
        own_rules, own_rules, own_rules, "built in", own_rules
    ]  # fmt: skip
    assert found["rules"][1]["priority"] == 7


@pytest.fixture
def cases(tmp_path):
    def write(*lines):
        path = tmp_path / "cases.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n\n")
        return str(path)

    return write


PUSH = {"input": {"command": "git push"}, "expect": "deny"}


def test_calls_that_are_decided_as_expected_are_exit_code_0(run, own_rules, cases):
    asked = {"tool": "WebFetch", "input": {"url": "https://a.b/"}, "expect": "ask"}
    done = run("permissions", "test", cases(PUSH, asked))
    assert (done.code, done.out) == (0, "2 cases, all as expected\n")


def test_calls_that_are_not_are_told_with_the_reason_and_exit_code_1(run, own_rules, cases):
    wrong = {"id": "status", "input": {"command": "git status"}, "expect": "deny"}
    done = run("permissions", "test", cases(PUSH, wrong, {**wrong, "also_ok": ["allow"]}))
    assert done.code == 1
    assert done.out.splitlines() == [
        "status: Bash git status",
        "    expected deny, found allow: the rule 'user/git-read' allows this",
        "3 cases, 1 not as expected",
    ]
    found = run("permissions", "test", cases(PUSH, wrong), "--json").json
    assert found["cases"] == 2
    [failed] = found["failed"]
    assert (failed["line"], failed["expected"], failed["decision"]) == (2, ["deny"], "allow")


def test_a_case_may_have_rules_a_place_and_links_of_its_own(run, cases):
    secret = {
        "rules": [
            {"decision": "allow", "path": "docs/**"},
            {"decision": "deny", "path": "secrets/**"},
        ],
        "tool": "Read",
        "cwd": "@TMP",
    }
    setup = {"dirs": ["docs"], "files": ["secrets/key"], "symlinks": {"docs/link": "../secrets"}}
    lines = [
        {**secret, "input": {"file_path": "docs/a"}, "expect": "allow"},
        {**secret, "setup": setup, "input": {"file_path": "docs/link/key"}, "expect": "deny"},
    ]
    assert run("permissions", "test", cases(*lines)).code == 0


def test_a_case_may_be_of_any_agent_category_and_raw_input(run, cases):
    rules = [{"decision": "allow", "category": "read", "scope": "agent", "agent": "reviewer"}]
    mine = {"rules": rules, "tool": "mine", "meta": {"category": "read"}}
    lines = [
        {**mine, "expect": "ask"},
        {**mine, "context": {"agent": "reviewer", "session": "s-1"}, "expect": "allow"},
        {"input_raw": '{"command": "ls", "command": "rm"}', "expect": "ask"},
    ]
    assert run("permissions", "test", cases(*lines)).code == 0


def test_a_rule_of_a_case_that_can_not_be_used_is_left_out_and_told(run, cases):
    line = {"id": "empty", "rules": [{"decision": "allow"}], "expect": "ask"}
    done = run("permissions", "test", cases({**line, "input": {"command": "make"}}))
    assert done.code == 0
    assert done.out.startswith("empty: a rule is left out: ")


def test_a_rule_file_is_tested_by_its_own_examples(run, tmp_path):
    path = tmp_path / "rules.json"
    rule = {"decision": "deny", "command_prefix": "git push", "match": ["git push -f"]}
    rules = {"version": 1, "rules": [{**rule, "not_match": ["git pull"]}]}
    path.write_text(json.dumps(rules, indent=2))
    done = run("permissions", "test", str(path))
    assert (done.code, done.out) == (0, "1 rule can be used; 2 examples tried\n")
    assert run("permissions", "test", str(path), "--json").json["examples"] == 2
    rules["rules"][0]["not_match"] = ["git push origin"]
    for layout in (None, 2):
        path.write_text(json.dumps(rules, indent=layout))
        done = run("permissions", "test", str(path))
        assert done.code == 1
        assert "must not match 'git push origin', but does" in done.out
    assert run("permissions", "test", str(path), "--json").json["failed"][0]["line"] == 4
    path.write_text("{\n")
    assert run("permissions", "test", str(path)).code == 1


def test_calls_are_read_from_standard_input(run, own_rules, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(PUSH).encode())))
    assert run("permissions", "test", "-").out == "1 case, all as expected\n"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([PUSH, "{}"], "cases.jsonl:2: "),
        ([PUSH, '{"expct": "deny"}'], "expct"),
        ([PUSH, "no JSON"], "write a case as"),
        ([{**PUSH, "setup": {"files": ["../x"]}}], "'../x' is outside of the temporary folder"),
        ([{**PUSH, "setup": {"dirs": ["/x"]}}], "'/x' is outside of the temporary folder"),
        (
            [{**PUSH, "setup": {"symlinks": {"a": "/tmp", "a/b": "c"}}}],
            "'a/b' is outside of the temporary folder",
        ),
        ([{**PUSH, "setup": {"files": ["a", "a/b"]}}], "setup: "),
    ],
)
def test_what_is_no_case_is_exit_code_2(run, cases, lines, says):
    done = run("permissions", "test", cases(*lines))
    assert done.code == 2
    assert says in done.err


def test_a_file_that_can_not_be_read_is_told(run, tmp_path):
    assert run("permissions", "test", str(tmp_path / "none")).code == 1
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in run("permissions", "test", str(tmp_path / "x")).err


def record(number, *, minutes=0, decision="allow", **words):
    at = utc_now() + timedelta(minutes=minutes)
    return PermissionRecord(f"t{number}", "Bash", at=at, decision=decision, **words)


@pytest.fixture
def talk(shelf):
    """A session with two decisions, and one of its subagent's between them."""
    shelf.add("s-1")
    shelf.add("s-child", parent="s-1")
    parts = (PermissionPart("git push \x1b", "ask", "no rule is about this", source="f"),)
    rules = ("allow Bash(git push:*)",)
    answer = {"by": "user", "message": "go", "remember": "always", "rules": rules, "edited": True}
    trio.run(
        keep,
        shelf.store,
        "s-1",
        record(1, parts=parts, left_out=3, mode="plan", sandbox="read-only", **answer),
    )
    trio.run(keep, shelf.store, "s-1", record(2, minutes=2, decision="deny", by="time-out"))
    trio.run(keep, shelf.store, "s-child", record(3, minutes=1))
    return shelf


async def keep(store, session_id, kept):
    session = await AgentSession.load(session_id, store=store)
    if session_id == "s-1":
        session.description.add_child("s-child")
    session.conversation.add_decision(kept)
    await session.save()


def test_what_was_decided_is_shown_with_the_subagents_decisions(run, talk):
    done = run("permissions", "log", "s-1", *talk.here)
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line[21:] for line in lines if line[:2] == "20"] == [
        "allowed  Bash  by user",
        "allowed  Bash  by rules  in the subagent s-child",
        "denied  Bash  since no answer came in time",
    ]
    assert lines[1:8] == [
        "  asks    git push \\u{1b}  (no rule is about this; f)",
        "  3 more parts",
        "  the input was changed by the person",
        "  said: go",
        "  remembered (always): allow Bash(git push:*)",
        "  sandbox: read-only",
        "  mode plan",
    ]


def test_the_log_may_be_cut_and_be_json(run, talk):
    found = run("permissions", "log", "s-1", "--last", "2", "--json", *talk.here).json
    assert [each["session_id"] for each in found] == ["s-child", "s-1"]
    assert (found[1]["decision"], found[1]["by"], found[1]["tool_use_id"]) == (
        "deny", "time-out", "t2"
    )  # fmt: skip
    assert found[1]["at"].endswith("Z")


def test_a_session_without_decisions_says_so(run, shelf):
    shelf.add("s-1")
    done = run("permissions", "log", "s-1", *shelf.here)
    assert (done.code, done.out) == (0, "Nothing was decided in this session.\n")


def test_a_subagent_s_session_that_is_gone_is_told(run, talk):
    trio.run(lambda: AgentSession.delete("s-child", store=talk.store))
    done = run("permissions", "log", "s-1", *talk.here)
    assert done.code == 1
    assert "s-child" in done.err
    assert "since no answer came in time" in done.out


def test_an_unknown_session_is_exit_code_2(run, shelf):
    assert run("permissions", "log", "s-9", *shelf.here).code == 2
