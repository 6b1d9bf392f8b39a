"""What was decided about each call is recorded in the session, durably before the call starts."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import AgentContext, PermissionRequest, RuleDecision, ToolUseBlock, TurnStatus
from greenroom.core._internal import PermissionPart, serde
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, FileStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import Bash, Sandbox, ToolRegistry, examine_sandbox, tool

ALLOW, DENY = RuleDecision.ALLOW, RuleDecision.DENY
ASK_TO_ADD = PermissionRule.parse("add", "ask", id="ask-to-add")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def add_note(text: str) -> str:
    """Add a note."""
    return text


class Talk:
    """One turn of a coder with a session on the disk, and a person who answers."""

    def __init__(self, folder, *script, rules=(), mode="default", tools=(add,), **options):
        self.session = AgentSession.new("coder", session_id="s", store=FileStore(folder))
        self.permissions = PermissionManager(rules, mode=mode, read_only=False)
        self._parts = (ScriptedProvider(*script, "done"), ToolRegistry(tools), self.permissions)
        self._limits = options.pop("limits", RuntimeLimits())
        self._options = options

    async def run(self, answer=None):
        """Ask, and let `answer(handle, request)` see to the questions."""
        async with AgentRuntime(limits=self._limits) as runtime:
            handle = runtime.spawn(self.session, coder, *self._parts, **self._options)
            async with trio.open_nursery() as nursery:
                if answer is not None:
                    nursery.start_soon(self._answer, handle, answer)
                with trio.fail_after(60):
                    self.result = await handle.ask("go")
                nursery.cancel_scope.cancel()
        return await self.session.read_decisions()

    async def _answer(self, handle, answer):
        async with handle.subscribe("all", answers=True) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    await answer(handle, chunk)


def answer_with(decision, **words):
    async def answer(handle, request):
        await handle.respond_permission(request.request_id, decision, **words)

    return answer


@tool
async def join(words: list[str]) -> str:
    """Join words."""
    return "-".join(words)


async def test_a_list_in_a_string_is_judged_shown_run_and_recorded_as_a_list(tmp_path):
    shown = []

    async def answer(handle, request):
        shown.append(request.input)
        await handle.respond_permission(request.request_id, "allow")

    matcher = RuleMatcher(predicate=lambda name, data: data["words"] == ["a", "b"])
    rules = [PermissionRule(decision="ask", matcher=matcher, id="lists")]
    talk = Talk(tmp_path, call("join", words='["a", "b"]'), rules=rules, tools=(join,))
    (found,) = await talk.run(answer)
    assert shown == [{"words": ["a", "b"]}]
    assert found.parts[0].rule_id == "lists"
    assert talk.session.history[1].tool_uses[0].input == {"words": '["a", "b"]'}
    assert talk.session.history[2].tool_results[0].text == "a-b"


async def test_other_agents_go_on_while_rules_are_matched(tmp_path):
    rules = [PermissionRule.parse(f"Bash(regex:echo (a|aa)+{n}?$)", "allow") for n in range(9)]
    talk = Talk(tmp_path, call("Bash", command=f"echo {'a' * 200}!"), rules=rules, tools=(Bash(),))
    used = []

    async def beat():
        while True:
            start = time.thread_time()
            await trio.sleep(0.002)
            used.append(time.thread_time() - start)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        await talk.run(answer_with("deny"))
        nursery.cancel_scope.cancel()
    assert max(used) < 0.1


async def test_an_allowance_is_on_record_with_its_rule_and_all_that_was_judged(tmp_path):
    rule = PermissionRule.parse("add", "allow", id="sums")
    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[rule])
    (found,) = await talk.run()
    asked = talk.session.history[1].tool_uses[0]
    judged = talk.permissions.explain("add", {"a": 1, "b": 2}, context_of(talk.session))
    assert (found.tool_use_id, found.tool_name) == (asked.id, "add")
    assert (found.decision, found.by, found.rule_id, found.asked) == (ALLOW, "rules", "sums", False)
    assert found.reason == "the rule 'sums' allows this"
    assert found.parts == (PermissionPart("add", ALLOW, found.reason, "sums"),)
    assert found.digest == judged.digest
    assert found.at.tzinfo is not None


def context_of(session):
    return AgentContext(session_id=session.session_id, agent_type=session.agent_type)


async def test_a_denial_says_which_rule_and_which_mode(tmp_path):
    rule = PermissionRule.parse("add", "deny", id="no-sums", message="Use paper.")
    calls = Reply([call("add", a=1, b=2), call("Bash", command="touch x")])
    talk = Talk(tmp_path, calls, rules=[rule], mode="plan", tools=[add, Bash()])
    first, second = await talk.run()
    assert (first.decision, first.rule_id, first.mode) == (DENY, "no-sums", "plan")
    assert "Use paper." in first.reason
    assert (second.decision, second.by, second.rule_id) == (DENY, "rules", "")
    assert "in the mode plan only reading is allowed" in second.reason


async def test_an_answer_says_who_gave_it_and_what_was_made_of_it(tmp_path):
    offered = []

    async def answer(handle, request):
        offered.extend(request.remembers)
        await answer_with("allow", remember="session", by="the phone")(handle, request)

    talk = Talk(tmp_path, call("Bash", command="echo hi | wc"), tools=[Bash()])
    (found,) = await talk.run(answer)
    assert (found.decision, found.by, found.asked) == (ALLOW, "the phone", True)
    assert (found.remember, list(found.rules)) == ("session", offered)
    assert offered
    assert [part.text for part in found.parts] == ["echo hi", "wc"]


@pytest.mark.parametrize("prefix", [False, True])
async def test_an_answer_says_whether_exact_words_or_a_prefix_are_remembered(tmp_path, prefix):
    offered = []

    async def answer(handle, request):
        offered.extend((request.remembers, request.prefixes))
        await answer_with("allow", remember="session", prefix=prefix)(handle, request)

    talk = Talk(tmp_path, call("Bash", command="frob list a"), tools=[Bash()])
    (found,) = await talk.run(answer)
    assert offered == [("allow Bash(frob list a)",), ("allow Bash(frob list:*)",)]
    assert found.rules == offered[prefix]


async def test_a_no_with_a_reason_is_on_record(tmp_path):
    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[ASK_TO_ADD])
    (found,) = await talk.run(answer_with("deny", message="use paper"))
    assert (found.decision, found.by, found.message) == (DENY, "user", "use paper")
    assert (found.rule_id, found.asked) == ("ask-to-add", True)


async def test_an_edited_call_is_on_record_with_the_digest_of_what_was_approved(tmp_path):
    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[ASK_TO_ADD])
    (found,) = await talk.run(answer_with("allow", input={"a": 40, "b": 2}))
    context = context_of(talk.session)
    assert found.digest == talk.permissions.explain("add", {"a": 40, "b": 2}, context).digest
    assert (found.decision, found.edited) == (ALLOW, True)


async def test_an_edited_call_that_a_rule_denies_is_on_record_as_denied_by_the_rules(tmp_path):
    rules = [PermissionRule.deny_command("rm -rf")]
    talk = Talk(tmp_path, call("Bash", command="echo hi"), rules=rules, tools=[Bash()])
    (found,) = await talk.run(answer_with("allow", input={"command": "rm -rf x"}))
    assert (found.decision, found.by, found.asked, found.edited) == (DENY, "rules", True, True)


@pytest.mark.parametrize(
    ("options", "by"),
    [
        ({"limits": RuntimeLimits(permission_timeout=0.0)}, "time-out"),
        ({"unattended": "deny"}, "unattended"),
    ],
)
async def test_a_question_that_nobody_answers_is_on_record_as_a_denial(tmp_path, options, by):
    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[ASK_TO_ADD], **options)
    (found,) = await talk.run()
    assert (found.decision, found.by, found.asked) == (DENY, by, True)


async def test_a_question_that_is_withdrawn_is_on_record_as_a_denial(tmp_path):
    async def interrupt(handle, request):
        await handle.interrupt()

    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[ASK_TO_ADD])
    (found,) = await talk.run(interrupt)
    assert talk.result.status is TurnStatus.INTERRUPTED
    assert (found.decision, found.by, found.asked) == (DENY, "withdrawn", True)
    (stored,) = await (await AgentSession.load("s", store=FileStore(tmp_path))).read_decisions()
    assert stored == found


async def test_a_call_that_changed_before_it_ran_is_on_record_twice(tmp_path):
    first = PermissionRule.parse("Bash(echo hi)", "allow")

    @tool
    async def forbid() -> str:
        """Forbid what was allowed a moment ago."""
        talk.permissions.add_rule(PermissionRule.deny_command("echo", id="no-echo"))
        return "forbidden"

    calls = Reply([call("forbid"), call("Bash", command="echo hi")])
    rules = [first, PermissionRule.parse("forbid", "allow")]
    talk = Talk(tmp_path, calls, rules=rules, tools=[forbid, Bash()])
    _, allowed, denied = await talk.run()
    assert (allowed.decision, allowed.by) == (ALLOW, "rules")
    assert (denied.decision, denied.by, denied.rule_id) == (DENY, "recheck", "no-echo")
    assert denied.tool_use_id == allowed.tool_use_id


def let_expire(permissions, monkeypatch):
    later = datetime.now(UTC) + timedelta(days=2)
    monkeypatch.setattr("greenroom.core.message._clock", lambda: later)


def add_a_question(permissions, monkeypatch):
    permissions.add_rule(PermissionRule.parse("Bash", "ask", final=True))


def end_bypass(permissions, monkeypatch):
    permissions.clear_session_rules("s")
    permissions.mode = "default"


@pytest.mark.parametrize("take_away", [let_expire, add_a_question, end_bypass])
async def test_a_call_that_nothing_allows_any_more_is_refused(tmp_path, take_away, monkeypatch):
    @tool
    async def later() -> str:
        """Take away what has allowed the next call."""
        take_away(talk.permissions, monkeypatch)
        return "later"

    expires = datetime.now(UTC) + timedelta(days=1)
    echo = PermissionRule.allow_command("echo", expires=expires).within("s")
    rules = [PermissionRule.parse("later", "allow"), echo]
    calls = Reply([call("later"), call("Bash", command="echo hi")])
    talk = Talk(tmp_path, calls, rules=rules, mode="bypass", tools=[later, Bash()])
    if take_away is not end_bypass:
        talk.permissions.mode = "default"
    _, allowed, denied = await talk.run()
    assert (allowed.decision, allowed.by) == (ALLOW, "rules")
    assert (denied.decision, denied.by) == (DENY, "recheck")


@pytest.mark.parametrize("take_away", [let_expire, add_a_question, end_bypass])
async def test_so_is_one_without_effects(tmp_path, take_away, monkeypatch):
    @tool
    async def later() -> str:
        """Take away what has allowed the next call."""
        take_away(talk.permissions, monkeypatch)
        if take_away is add_a_question:
            talk.permissions.add_rule(PermissionRule.parse("add", "ask", final=True))
        return "later"

    expires = datetime.now(UTC) + timedelta(days=1)
    adds = PermissionRule.allow_tool("add", expires=expires).within("s")
    calls = Reply([call("later"), call("add", a=1, b=2)])
    rules = [PermissionRule.parse("later", "allow"), adds]
    talk = Talk(tmp_path, calls, rules=rules, mode="bypass", tools=[later, add])
    if take_away is not end_bypass:
        talk.permissions.mode = "default"
    _, allowed, denied = await talk.run()
    assert (allowed.decision, allowed.by) == (ALLOW, "rules")
    assert (denied.decision, denied.by) == (DENY, "recheck")


def always(name, given):
    return True


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        (PermissionRule.allow_tool("add"), 1),
        (PermissionRule.allow_tool("add", expires=datetime(2100, 1, 1, tzinfo=UTC)), 2),
        (PermissionRule(decision=ALLOW, matcher=RuleMatcher(tool="add", predicate=always)), 2),
    ],
)
async def test_a_call_without_effects_is_judged_once_while_nothing_changes(
    tmp_path, rule, times, monkeypatch
):
    judged = []
    judge = PermissionManager.judge

    def count(self, tool, *rest, **named):
        judged.append(tool.name)
        return judge(self, tool, *rest, **named)

    monkeypatch.setattr(PermissionManager, "judge", count)
    talk = Talk(tmp_path, call("add", a=1, b=2), rules=[rule])
    (found,) = await talk.run()
    assert (found.decision, len(judged)) == (ALLOW, times)


async def test_a_decision_is_on_the_disk_before_the_call_starts(tmp_path):
    lines = []

    @tool
    async def look() -> str:
        """Read the session's file."""
        lines.extend(Path(tmp_path, "s", "history.jsonl").read_bytes().splitlines())
        return "seen"

    await Talk(tmp_path, call("look"), rules=[PermissionRule.allow_all()], tools=[look]).run()
    kinds = [entry["kind"] for entry in json.loads(lines[-1])["e"]]
    assert kinds[-2:] == ["decision", "tools_started"]


async def test_what_can_not_run_anyway_is_no_decision(tmp_path):
    broken = ToolUseBlock("t1", "add", {}, invalid="twice", raw_input="{…}")
    calls = Reply([broken, call("nothing"), call("add", a="x")])
    assert await Talk(tmp_path, calls, rules=[PermissionRule.allow_all()]).run() == ()


async def test_a_record_of_a_very_long_call_is_bounded_and_keeps_what_was_denied(tmp_path):
    many = "; ".join(f"echo {number} {'x' * 300}" for number in range(200)) + "; rm -rf y"
    rules = [PermissionRule.deny_command("rm"), PermissionRule.allow_command("echo")]
    talk = Talk(tmp_path, call("Bash", command=many), rules=rules, tools=[Bash()])
    (found,) = await talk.run()
    assert (len(found.parts), found.left_out) == (32, 169)
    assert found.parts[-1].decision is DENY
    assert [part.text[:7] for part in found.parts[:2]] == ["echo 0 ", "echo 1 "]
    line = max(Path(tmp_path, "s", "history.jsonl").read_bytes().splitlines(), key=len)
    record = next(each for each in json.loads(line)["e"] if each["kind"] == "decision")
    assert len(json.dumps(record)) < 32_000


async def test_a_subagent_s_decisions_are_on_record_in_its_own_session(tmp_path):
    delegate = call("Task", description="add", prompt="add")
    llm = [delegate, call("add", a=1, b=2), "three"]
    rules = [PermissionRule.allow_all(id="everything")]
    talk = Talk(tmp_path, *llm, rules=rules)
    (own,) = await talk.run()
    assert own.tool_name == "Task"
    (child,) = talk.session.child_session_ids
    (found,) = await (await AgentSession.load(child, store=FileStore(tmp_path))).read_decisions()
    assert (found.tool_name, found.rule_id) == ("add", "everything")


async def test_a_request_tells_effects_claims_sources_and_what_may_mislead(tmp_path):
    seen = []

    async def look(handle, request):
        seen.append(request)
        await answer_with("deny")(handle, request)

    rule = replace(PermissionRule.parse("Bash(ls:*)", "ask"), source="a file of ours")
    command = call("Bash", command="ls /etc \u202e; sudo id", description="Just a look")
    await Talk(tmp_path, command, rules=[rule], tools=[Bash()]).run(look)
    [request] = seen
    assert request.effects.names == ("/etc",)
    assert request.effects.privileges == ("sudo id",)
    assert request.claim == "Just a look"
    assert request.warnings == ("it holds characters that would hide; they are shown as \\u{…}",)
    assert "a file of ours" in [part.source for part in request.parts]
    assert serde.decode(serde.encode(request), PermissionRequest) == request


async def test_what_a_sandbox_holds_is_on_record(tmp_path):
    sandbox = Sandbox("read-only")
    report = await examine_sandbox(sandbox)
    rules = [PermissionRule.deny_command("id")]
    bash = Bash(sandbox=sandbox)
    talk = Talk(tmp_path, call("Bash", command="id"), rules=rules, tools=[bash])
    (denied,) = await talk.run()
    assert denied.sandbox == str(report) != ""


async def test_a_very_long_text_is_looked_through_as_well(tmp_path):
    seen = []

    async def look(handle, request):
        seen.append(request)
        await answer_with("deny")(handle, request)

    long = call("add_note", text="x" * 120_000 + "\u202e")
    await Talk(tmp_path, long, tools=[add_note]).run(look)
    assert "characters that would hide" in seen[0].warnings[0]
