import itertools
import logging
import os
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rich.pretty import pretty_repr

from greenroom.core import (
    AgentContext,
    ConfigurationError,
    Contact,
    Execute,
    Opaque,
    ReadPath,
    RuleDecision,
    RuleFileError,
    ShellCommand,
    Workspace,
    WritePath,
)
from greenroom.core._internal import set_clock
from greenroom.git._internal import GitAnswer
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher, RuleScope

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
BASH = {"command": "git push"}


def context_of(root="/srv/project", session="s-1", agent="coder", **options):
    return AgentContext(session_id=session, agent_type=agent, workspace=Workspace(root), **options)


@pytest.fixture
def context():
    return context_of()


def test_what_no_rule_is_about_is_asked(context):
    assert PermissionManager().check("Read", {"file_path": "a"}, context) is ASK
    assert PermissionManager().check("Unheard", {}, context) is ASK


def test_an_allowed_tool_is_allowed_by_its_exact_name_only(context):
    manager = PermissionManager([PermissionRule.allow_tool("Read")])
    assert manager.check("Read", {"file_path": "a"}, context) is ALLOW
    for other in ("read", "Read ", "Read\u200b", "Reader", ""):
        assert manager.check(other, {"file_path": "a"}, context) is ASK


SCOPES = {
    RuleScope.USER: {},
    RuleScope.SESSION: {"session": "s-1"},
    RuleScope.AGENT: {"agent": "coder"},
    RuleScope.GLOBAL: {},
}


@pytest.mark.parametrize("decisions", list(itertools.product([None, ALLOW, DENY, ASK], repeat=4)))
def test_the_first_scope_with_a_rule_decides(context, decisions):
    rules = [
        PermissionRule(
            decision=each, matcher=RuleMatcher(tool=("T",)), scope=scope, **SCOPES[scope]
        )
        for scope, each in zip(RuleScope, decisions, strict=True)
        if each
    ]
    expected = next((each for each in decisions if each), ASK)
    assert PermissionManager(reversed(rules)).check("T", {}, context) is expected


def test_rules_hold_for_their_agent_and_session_only():
    manager = PermissionManager(
        [
            PermissionRule.allow_tool("A", scope=RuleScope.AGENT, agent="coder"),
            PermissionRule.allow_tool("S", scope=RuleScope.SESSION, session="s-1"),
        ]
    )
    for agent, session in itertools.product(("coder", "tester"), ("s-1", "s-2")):
        context = context_of(agent=agent, session=session)
        assert manager.check("A", {}, context) is (ALLOW if agent == "coder" else ASK)
        assert manager.check("S", {}, context) is (ALLOW if session == "s-1" else ASK)


def test_priority_goes_before_strictness_and_final_before_everything(context):
    low, high = PermissionRule.deny_tool("T"), PermissionRule.allow_tool("T", priority=1)
    assert PermissionManager([low, high]).check("T", {}, context) is ALLOW
    equal = PermissionRule.allow_tool("T")
    assert PermissionManager([equal, low]).check("T", {}, context) is DENY
    asking = PermissionRule.ask_for_tool("T")
    assert PermissionManager([equal, asking]).check("T", {}, context) is ASK
    final = PermissionRule.deny_tool("T", final=True, id="policy")
    user = PermissionRule.allow_tool("T", scope=RuleScope.USER, priority=99)
    assert PermissionManager([user, final]).check("T", {}, context) is DENY


def test_an_expired_rule_matches_nothing(context):
    rule = PermissionRule.allow_tool("T", expires=datetime(2026, 1, 1, tzinfo=UTC))
    manager = PermissionManager([rule])
    try:
        set_clock(lambda: datetime(2025, 12, 31, tzinfo=UTC))
        assert manager.check("T", {}, context) is ALLOW
        set_clock(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        assert manager.check("T", {}, context) is ASK
    finally:
        set_clock(None)
    with pytest.raises(RuleFileError, match="time zone"):
        PermissionRule.allow_tool("T", expires=datetime(2026, 1, 1))  # noqa: DTZ001


def test_one_rule_of_a_session_can_be_forgotten(context):
    manager = PermissionManager([PermissionRule.allow_tool("U", id="u")])
    manager.add_session_rule("s-1", PermissionRule.allow_tool("T", id="t"))
    assert not manager.remove_session_rule("s-2", "t")
    assert not manager.remove_session_rule("s-1", "u")
    assert manager.remove_session_rule("s-1", "t")
    assert [rule.id for rule in manager.rules] == ["u"]
    assert manager.check("T", {}, context) is ASK


def test_session_rules_end_with_their_session(context):
    manager = PermissionManager()
    manager.add_session_rule("s-1", PermissionRule.allow_tool("T"))
    manager.add_session_rule("s-1", PermissionRule.allow_tool("U", id="u", scope=RuleScope.USER))
    assert manager.check("T", {}, context) is ALLOW
    assert manager.check("T", {}, context_of(session="s-2")) is ASK
    manager.clear_session_rules("s-1")
    assert manager.rules == ()
    assert manager.check("T", {}, context) is ASK


def test_two_rules_of_one_id_are_refused_and_the_same_rule_twice_is_one():
    rule = PermissionRule.allow_tool("T", id="t")
    manager = PermissionManager([rule, rule])
    assert manager.rules == (rule,)
    with pytest.raises(RuleFileError, match="'t'"):
        manager.add_rule(PermissionRule.deny_tool("T", id="t"))


@pytest.mark.parametrize(
    ("text", "tool", "data", "decision"),
    [
        ("Read", "Read", {"file_path": "a"}, ALLOW),
        ("*", "Anything", {}, ALLOW),
        ("Bash(git push:*)", "Bash", BASH, ALLOW),
        ("Bash(git *)", "Bash", BASH, ALLOW),
        ("Bash(git push)", "Bash", {"command": "git push -f"}, ASK),
        ("Bash(git push)", "Bash", BASH, ALLOW),
        ("Bash", "Bash", BASH, ALLOW),
        ("Edit(src/**)", "Edit", {"file_path": "src/a.py"}, ALLOW),
        ("Edit(src/**)", "Write", {"file_path": "src/a.py"}, ASK),
        ("WebFetch(domain:a.test)", "WebFetch", {"url": "https://a.test/x"}, ALLOW),
    ],
)
def test_the_short_form_of_rules_is_read(context, text, tool, data, decision):
    manager = PermissionManager([PermissionRule.parse(text, "allow")])
    assert manager.check(tool, data, context) is decision


@pytest.mark.parametrize(
    "text",
    [
        *("", "Bash()", "Bash(git", "Bash(git * -f)", "Bash(a; b:*)", "WebFetch(a.test)"),
        *("Bash(:*)", "Edit(../x)", "Bash($X)", "Bash(ls > x)"),
    ],
)
def test_a_rule_that_is_not_understood_is_refused_with_an_example(text):
    with pytest.raises(RuleFileError) as caught:
        PermissionRule.parse(text, "allow")
    assert caught.value.hint


def test_every_builder_equals_the_rule_written_out():
    def rule(decision, **matcher):
        return PermissionRule(decision=decision, matcher=RuleMatcher(**matcher))

    git = {"tool": ("Bash",), "command_prefix": ("git",)}
    build = PermissionRule
    assert build.allow_tool("T") == rule(ALLOW, tool=("T",))
    assert build.deny_category("c") == rule(DENY, category=("c",))
    assert build.ask_for_category("c") == rule(ASK, category=("c",))
    assert build.allow_bash_prefix(["git"]) == build.allow_command("git") == rule(ALLOW, **git)
    assert build.deny_command("git") == rule(DENY, **git)
    assert build.ask_for_command("git") == rule(ASK, **git)
    assert build.allow_path("a") == rule(ALLOW, path=("a",))
    assert build.ask_for_path("a") == rule(ASK, path=("a",))
    assert build.deny_domain("a.b") == rule(DENY, domain=("a.b",))
    assert build.deny_all() == rule(DENY, all=True)


def test_a_condition_that_fails_is_reported_without_a_log_and_with_how_to_write_it(
    context, capfd, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("greenroom"), "propagate", False)
    manager = PermissionManager([PermissionRule.deny_if(lambda call: True)])
    for _ in range(3):
        manager.check("T", {}, context)
    told = capfd.readouterr().err
    assert told.count("'deny * & condition' failed") == 1
    assert "takes 1 positional argument" in told
    assert "a condition takes the tool's name and the input" in told


def test_a_condition_that_fails_opens_nothing(context, caplog):
    def broken(tool, data):
        raise KeyError("no")

    allowing = PermissionManager([PermissionRule.allow_if(broken)])
    assert allowing.check("T", {}, context) is ASK
    denying = PermissionManager([PermissionRule.deny_if(broken), PermissionRule.allow_tool("T")])
    assert denying.check("T", {}, context) is ASK
    assert "condition" in caplog.text
    by_name = PermissionManager([PermissionRule.allow_if(lambda tool, _: tool == "T")])
    assert by_name.check("T", {}, context) is ALLOW
    assert by_name.check("U", {}, context) is ASK
    denied = PermissionManager([PermissionRule.deny_if(lambda tool, _: tool == "T")])
    assert denied.check("T", {}, context) is DENY


@pytest.mark.parametrize("data", [{}, {"file_path": 3}, {"file_path": ""}, {"file_path": "a\0b"}])
def test_an_odd_input_is_never_allowed(context, data):
    manager = PermissionManager([PermissionRule.allow_all()])
    assert manager.check("Read", data, context) is ASK
    assert manager.check("Write", {"file_path": "\ud800"}, context) is ASK
    assert manager.check("Grep", {"path": 3}, context) is ASK


def tool_with(*effects, **options):
    def of(data, context):
        if effects == ("broken",):
            raise ValueError("broken")
        return effects

    return SimpleNamespace(**{"name": "T", "category": "odd", "effects": of, **options})


def test_a_tool_that_runs_its_own_words_needs_a_rule_for_git(tmp_path):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    answers = {str(tmp_path): GitAnswer()}
    for argv, wanted in ((("ls",), ALLOW), (("git", "diff"), ASK)):
        found = PermissionManager().judge(tool_with(Execute(argv)), {}, context, git=answers)
        assert found.decision is wanted, argv
        assert found.missing_answers == ()  # its words stay as they are, whatever git says


def test_a_tool_states_its_own_effects(context):
    manager = PermissionManager(
        [
            PermissionRule.allow_command("ls"),
            PermissionRule.allow_path("src/**"),
            PermissionRule(decision=ALLOW, matcher=RuleMatcher(command_prefix=("ls",))),
            PermissionRule.allow_domain("a.test"),
        ]
    )

    def check(*effects):
        return manager.check(tool_with(*effects), {}, context)

    assert check(Execute(("ls", "-l"))) is ALLOW
    assert check(Execute(("rm",))) is ASK
    assert check(Execute(())) is ASK
    assert check(ShellCommand("ls; pwd")) is ASK
    assert check(ShellCommand("ls > x", cwd="src")) is ASK
    assert check(ReadPath("src/a"), WritePath("src/b")) is ALLOW
    assert check(ReadPath("src/a"), WritePath("b")) is ASK
    assert check(Contact("https://a.test")) is ALLOW
    assert check(Opaque("who knows")) is ASK
    assert check("broken") is ASK
    for odd in ("src/b", {"write": "b"}, None, WritePath):
        assert check(odd) is ASK
        assert check(ReadPath("src/a"), odd) is ASK


def test_a_tool_that_needs_no_permission_is_allowed_unless_a_rule_speaks(context):
    todo = SimpleNamespace(name="Todo", category="state", requires_permission=False)
    assert PermissionManager().check(todo, {}, context) is ALLOW
    assert PermissionManager(mode="plan").check(todo, {}, context) is ALLOW
    assert PermissionManager([PermissionRule.deny_tool("Todo")]).check(todo, {}, context) is DENY
    assert PermissionManager([PermissionRule.ask_for_tool("Todo")]).check(todo, {}, context) is ASK


@pytest.mark.parametrize(
    ("mode", "read", "write", "outside", "config", "push"),
    [
        ("default", ALLOW, ASK, ASK, ASK, ASK),
        ("accept-edits", ALLOW, ALLOW, ASK, ASK, ASK),
        ("plan", ALLOW, DENY, DENY, DENY, DENY),
        ("deny", ALLOW, DENY, DENY, DENY, DENY),
        ("bypass", ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
    ],
)
def test_modes_settle_what_the_rules_leave_open(context, mode, read, write, outside, config, push):
    rules = [PermissionRule.allow_category("read"), PermissionRule.deny_command("rm -rf")]
    manager = PermissionManager(rules, mode=mode)
    assert manager.check("Read", {"file_path": "a"}, context) is read
    assert manager.check("Write", {"file_path": "a"}, context) is write
    assert manager.check("Edit", {"file_path": "../a"}, context) is outside
    assert manager.check("Write", {"file_path": ".git/hooks/x"}, context) is config
    assert manager.check("Bash", BASH, context) is push
    assert manager.check("Bash", {"command": "rm -rf x"}, context) is DENY


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(ConfigurationError, match="yolo"):
        PermissionManager(mode="yolo")


def test_a_subagent_is_never_allowed_more_than_its_parent(context):
    parent = PermissionManager([PermissionRule.allow_tool("A"), PermissionRule.deny_tool("D")])
    child = parent.child([PermissionRule.allow_tool("B", "D"), PermissionRule.deny_tool("A")])
    assert child.check("A", {}, context) is DENY
    assert child.check("B", {}, context) is ASK
    assert child.check("D", {}, context) is DENY
    assert child.child().check("A", {}, context) is DENY


def test_a_subagent_without_rules_has_its_parents_decision(context):
    parent = PermissionManager([PermissionRule.allow_tool("A")])
    assert parent.child().check("A", {}, context) is ALLOW
    assert parent.child().check("B", {}, context) is ASK


def test_rules_for_the_parents_type_and_session_bind_its_subagents():
    parent_context = context_of(agent="coder", session="s-1")
    parent = PermissionManager(
        [
            PermissionRule.allow_all(),
            PermissionRule.deny_tool("A", scope=RuleScope.AGENT, agent="coder"),
            PermissionRule.deny_tool("S", scope=RuleScope.SESSION, session="s-1"),
        ]
    )
    child = parent.child(context=parent_context).child()
    for name in ("A", "S"):
        assert child.check(name, {}, context_of(agent="tester", session="s-2")) is DENY


def test_an_explanation_says_which_part_and_which_rule(context):
    manager = PermissionManager(
        [
            PermissionRule.allow_command("ls", id="listing"),
            PermissionRule.deny_command("rm -rf", id="no-rm", message="Use git clean."),
        ]
    )
    explanation = manager.explain("Bash", {"command": "ls; rm -rf x; pwd"}, context)
    assert explanation.decision is DENY
    assert explanation.rule.id == "no-rm"
    assert explanation.message == "Use git clean."
    assert "rm -rf x" in explanation.reason
    assert [(part.text, part.decision, part.rule_id) for part in explanation.parts] == [
        ("ls", ALLOW, "listing"),
        ("rm -rf x", DENY, "no-rm"),
        ("pwd", ASK, ""),
    ]


def test_the_digest_changes_with_everything_that_matters(tmp_path):
    (tmp_path / "a").write_text("")
    (tmp_path / "b").symlink_to("a")
    context = context_of(str(tmp_path))
    manager = PermissionManager()

    def digest(tool, data, where=context):
        return manager.explain(tool, data, where).digest

    first = digest("Read", {"file_path": "b"})
    assert first == digest("Read", {"file_path": "b"})
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("c")
    changed = [
        digest("Read", {"file_path": "b"}),
        digest("Grep", {"path": "b"}),
        digest("Read", {"file_path": "a"}),
        digest("Read", {"file_path": "b"}, context_of("/elsewhere")),
        digest("Read", {"file_path": object}),
    ]
    assert len({first, *changed}) == 6


@pytest.mark.parametrize("answer", [ALLOW, DENY])
def test_a_remembered_answer_holds_from_the_next_call_on(context, answer):
    manager = PermissionManager([PermissionRule.allow_tool("Read")])
    child = manager.child([PermissionRule.allow_tool("Read")])
    data = {"command": "npm test"}
    found = child.explain("Bash", data, context)
    rules = child.remember(found, answer, "session", context, prefix=True)
    assert [rule.scope for rule in rules] == [RuleScope.USER]
    assert child.check("Bash", {"command": "npm test -- -x"}, context) is answer
    assert manager.check("Bash", data, context) is answer
    assert manager.check("Bash", data, context_of(session="s-2")) is ASK
    lasting = manager.remember(
        PermissionManager().explain("T", {}, context), answer, "always", context
    )
    assert manager.check("T", {}, context_of(session="s-2")) is answer
    assert lasting[0].created_by == "prompt"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("rm -rf build", "deny Bash(rm -rf build)"),
        ("git push --force", "deny Bash(git push:*)"),
        ("npm install left-pad", "deny Bash(npm install:*)"),
        ("aws s3 rm s3://a", "deny Bash(aws s3 rm:*)"),
        ("docker run a", "deny Bash(docker run:*)"),
        ("nice rm a", "deny Bash(nice rm a)"),
        ("git add . && rm x", None),
        ("rm $X", None),
    ],
)
def test_a_never_forbids_what_was_asked_about_and_nothing_else(context, command, rule):
    manager = PermissionManager()
    found = manager.explain("Bash", {"command": command}, context)
    assert [str(each) for each in found.forbids] == ([rule] if rule else [])
    manager.remember(found, DENY, "always", context)
    assert manager.check("Bash", {"command": command}, context) is (DENY if rule else ASK)
    assert manager.check("Bash", {"command": "ls"}, context) is ASK


def test_a_path_is_judged_as_written_and_as_the_disk_has_it(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "out").symlink_to("/etc")
    (tmp_path / "secret").mkdir()
    (tmp_path / "src" / "hidden").symlink_to("../secret")
    context = context_of(str(tmp_path))
    manager = PermissionManager(
        [PermissionRule.allow_path("src/**"), PermissionRule.deny_path("secret/**", priority=1)]
    )

    def check(path, tool="Read"):
        return manager.check(tool, {"file_path": path}, context)

    assert check("src/a") is ALLOW
    assert check("src/out/passwd") is ASK
    assert check("src/hidden/x") is DENY
    assert check("src/hidden/../x") is ASK
    assert check(os.path.join(tmp_path, "src", "b"), "Write") is ALLOW
    assert check("src", "Write") is ASK
    assert manager.check("Grep", {"path": "src"}, context) is ALLOW
    assert manager.check("Grep", {}, context) is ASK


def test_a_command_that_names_a_denied_file_or_host_is_denied(context):
    manager = PermissionManager(
        [
            PermissionRule.allow_command("cat", "echo", "cd", "frob"),
            PermissionRule.deny_path("**/.env", "secret/**", "~/.ssh/**"),
            PermissionRule.deny_domain("*.evil.test", "127.0.0.1"),
        ]
    )

    def check(command):
        return manager.check("Bash", {"command": command}, context)

    for command in (
        *(
            "cat .env",
            "cat sub/.ENV",
            "cat --from=.env",
            "cat @.env",
            "cat < .env",
            "cat ~/.ssh/id",
        ),
        *(
            "cd secret && cat key",
            "cat https://a.evil.test/x",
            "cat http://0x7f.1/",
            "cat .env\u200b .env",
        ),
    ):
        assert check(command) is DENY, command
    for command in ("echo .env", "cat env", "cat https://evil.test/x", "frob a"):
        assert check(command) is ALLOW, command


def test_output_may_be_redirected_where_a_rule_says_so(context):
    matcher = RuleMatcher(command_prefix=("make",), redirect_to=("build/**",))
    manager = PermissionManager(
        [
            PermissionRule(decision=ALLOW, matcher=matcher),
            PermissionRule.allow_command("ls", "cd"),
            PermissionRule.allow_path("logs/**"),
        ]
    )
    assert str(matcher) == "*(make:*, > build/**)"

    def check(command):
        return manager.check("Bash", {"command": command}, context)

    assert check("make > build/log") is ALLOW
    assert check("ls > build/log") is ASK
    assert check("make > other") is ASK
    assert check("ls > logs/a") is ALLOW
    assert check("cd / && ls > logs/a") is ASK
    assert check("cd $X; ls > logs/a") is ASK
    assert check("cd; ls > /srv/project/logs/a") is ALLOW


def test_expressions_allow_a_whole_command_and_deny_any_part(context):
    def manager(decision, regex, *others):
        matcher = RuleMatcher(regex=(regex,))
        return PermissionManager([PermissionRule(decision=decision, matcher=matcher), *others])

    allowing = manager(ALLOW, "npm run (lint|test)( .*)?")
    denying = manager(DENY, r".*\b(curl|wget)\b", PermissionRule.allow_command("frob", "echo"))
    for command, decision in (("npm run lint -x", ALLOW), ("npm run lint; ls", ASK)):
        assert allowing.check("Bash", {"command": command}, context) is decision
    for command in ("npm run dev", "'npm run' lint", "npm run lint $X", "npm run lint > x"):
        assert allowing.check("Bash", {"command": command}, context) is ASK
    for command in ("/bin/curl x", "frob curl", "echo $(wget x)"):
        assert denying.check("Bash", {"command": command}, context) is DENY
    assert denying.check("Bash", {"command": "frob a"}, context) is ALLOW
    assert denying.check("Bash", {"command": "frob " + "a" * 4_000}, context) is ALLOW
    assert denying.check("Bash", {"command": f"frob {'a' * 4_000} curl"}, context) is DENY
    assert denying.check("Bash", {"command": f"frob {'a' * 90_000} curl"}, context) is ASK


@pytest.mark.parametrize(
    ("matchers", "fitting", "other"),
    [
        ({"command_prefix": ("git",), "regex": ("git (status|log).*",)}, "git log -1", "git push"),
        ({"command_prefix": ("git log",), "regex": ("git .*",)}, "git log -1", "git status"),
        ({"argv_exact": ("ls", "-l"), "command_prefix": ("ls",)}, "ls -l", "ls"),
        ({"argv_exact": ("ls", "-l"), "command_prefix": ("git",)}, None, "ls -l"),
        ({"argv_exact": ("ls",), "regex": ("git",)}, None, "ls"),
    ],
)
def test_of_several_matchers_of_commands_all_must_fit(context, matchers, fitting, other):
    allow = PermissionRule(decision=ALLOW, matcher=RuleMatcher(**matchers))
    deny = PermissionRule(decision=DENY, matcher=RuleMatcher(**matchers), priority=1)
    rest = PermissionRule.allow_tool("Bash")
    for command, allowed, denied in ((fitting, ALLOW, DENY), (other, ASK, ALLOW)):
        if command is not None:
            call = ("Bash", {"command": command}, context)
            assert PermissionManager([allow]).check(*call) is allowed
            assert PermissionManager([deny, rest]).check(*call) is denied


def test_a_command_that_is_too_long_for_an_expression_leads_to_a_question(context):
    regex = RuleMatcher(regex=("[ab]*a[ab]{200}c",))
    denying = PermissionRule(decision=DENY, matcher=regex)
    manager = PermissionManager([denying, PermissionRule.allow_command("echo")])
    text = "".join("ab"[n * n % 7919 % 2] for n in range(5_000))
    assert manager.check("Bash", {"command": f"echo {text}c"}, context) is ASK
    assert manager.check("Bash", {"command": "echo abc"}, context) is ALLOW


def test_a_command_beyond_all_measure_is_denied(context):
    manager = PermissionManager([PermissionRule.allow_all()], mode="bypass")
    assert manager.check("Bash", {"command": "x" * 131_072}, context) is DENY


def test_the_choice_of_rules_is_forgotten_when_too_much_is_kept(context):
    manager = PermissionManager([PermissionRule.allow_all()])
    assert all(manager.check(f"T{n}", {}, context) is ALLOW for n in range(600))


def test_statistics_count_the_rules_by_scope_and_those_of_the_managers_above():
    above = PermissionManager([PermissionRule.allow_tool("Read"), PermissionRule.deny_tool("Bash")])
    child = above.child()
    assert sum(above.statistics().rules.values()) == 2
    assert above.statistics().inherited == 0
    assert child.statistics().rules == {}
    assert child.child().statistics().inherited == 2


def test_a_text_in_place_of_a_rule_is_refused_and_no_rule_is_added():
    manager = PermissionManager()
    with pytest.raises(TypeError, match=r"'Bash\(ls\)' is not a rule: write PermissionRule"):
        manager.add_rules([PermissionRule.allow_tool("Read"), "Bash(ls)"])
    assert manager.rules == ()


def test_a_rule_in_place_of_a_list_of_rules_is_refused_with_what_to_write():
    with pytest.raises(TypeError, match=r"the rule 'allow Read' is alone: write a list, \[rule\]"):
        PermissionManager(PermissionRule.allow_tool("Read"))


def test_a_word_that_is_no_decision_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"'maybe' is not a decision: write 'allow', 'deny' or"):
        PermissionRule.parse("Read", "maybe")


def test_an_error_while_a_call_is_judged_is_a_question(monkeypatch, caplog):
    def fail(*arguments):
        raise IndexError("broken")

    monkeypatch.setattr("greenroom.permissions.judging.evaluate", fail)
    manager = PermissionManager([PermissionRule.allow_all()])
    found = manager.explain("Bash", {"command": "ls"}, context_of())
    assert found.decision is RuleDecision.ASK
    assert found.reason == "the call could not be judged: IndexError: broken"
    assert "could not be judged" in caplog.text


def test_a_judgement_shows_neither_the_environment_nor_the_input(context, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-of-the-environment")
    manager, command = PermissionManager(), {"command": "TOKEN=sk-of-the-input curl x > y"}
    found = manager.explain("Bash", command, context)
    for judged in (manager.judge("Bash", command, context), found):
        assert "sk-" not in f"{judged} {judged!r} {pretty_repr(judged)}"
    shown = f"{found.call!r} {found.rulings!r} {pretty_repr(found.call)}"
    assert "sk-of-the-environment" not in shown
