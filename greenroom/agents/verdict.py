"""The verdict on one tool call: what the rules and the person decide, and the record of it.

`Judge.judge` asks the rules alone. `Judge.ask` also asks a person where the rules say so, and for
missing credentials. Just before the call runs, `Judge.recheck` judges it again. Each decision
becomes a `PermissionRecord` in the session, complete enough to explain it later, and bounded in
size.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio
from msgspec import structs

from greenroom.agents.applied_rules import apply_rules, explain_to_person, in_time, is_long
from greenroom.agents.file_view import find_paths, find_view
from greenroom.agents.plan_mode import SubmitPlan
from greenroom.agents.questions import AskPerson
from greenroom.agents.trust import keep_rules
from greenroom.core import (
    AgentContext,
    Answer,
    Ask,
    Deny,
    Error,
    RuleDecision,
    RuleFileError,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    utc_now,
)
from greenroom.core._internal import (
    AUTOMATIC_DECIDERS,
    EMPTY,
    Approval,
    PermissionPart,
    PermissionRecord,
    Remember,
    SandboxReport,
    clip,
    freeze_fields,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry
from greenroom.tools._internal import Reach, RegisteredTool

if TYPE_CHECKING:
    from greenroom.permissions._internal import Explanation, Judgement

_PARTS = 32  # of a call that a record keeps
_TEXT = 300  # characters of each part, and of each rule
_REASON = 1_000  # characters
_QUESTIONS = (AskPerson, SubmitPlan)  # tools whose calls are questions themselves


class Verdict(msgspec.Struct, frozen=True, eq=False):
    """One call and what was decided about it.

    Attributes:
        call: the call as the model asked for it, but for values in strings, which are parsed.
        input: the input that was approved.
        tool: the tool that was judged, or None if no tool has the name.
        digest: binds the approval to what would run.
        command: the command that runs in place of the input's, as it was judged; empty if a person
            approved the input, or if it is not a plain command.
        notes: what the result has to say beside the output.
        paths: real paths outside the workspace that this call, and no other, may touch.
        is_edited: whether a person changed the input.
        is_by_person: whether a person allowed it, not a rule.
        sandbox: the sandbox that would hold it, or None.
        refusal: the result in place of running it, or None if it may run.
        approval: what has allowed it.
        state: that of the rules which have allowed it; None where the files count as well.
    """

    call: ToolUseBlock
    input: dict[str, object] = EMPTY
    tool: RegisteredTool | None = None
    digest: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    is_edited: bool = False
    is_by_person: bool = False
    sandbox: SandboxReport | None = None
    refusal: ToolResult | None = None
    approval: Approval | None = None
    state: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "input")


class _Found(NamedTuple):
    """What the rules say of a call that can run."""

    call: ToolUseBlock
    tool: RegisteredTool
    context: AgentContext
    judgement: "Judgement"
    sandbox: SandboxReport | None
    state: tuple[object, ...] | None


class Judge:
    """Judges the calls of one agent by its rules, and by a person where they say so."""

    def __init__(
        self, agent: AgentInternals, tools: ToolRegistry, permissions: PermissionManager
    ) -> None:
        self._agent = agent
        self._tools = tools
        self._permissions = permissions
        # Their answers by the identities of calls, which are kept so that no other call gets one.
        self._gates: dict[int, tuple[ToolUseBlock, Deny | Ask | None]] = {}
        self._waiting: list[Verdict] = []  # calls that may run before the next is asked about

    async def restore_answers(self) -> None:
        """Apply the answers that the session remembers; report those that no longer can be."""
        session, root = self._agent.session, self._agent.context.workspace.root
        for note in self._permissions.bind_session(session, root):
            await self._agent.send(Error(note, RuleFileError.__name__))

    async def judge(self, call: ToolUseBlock) -> Verdict | None:
        """Decide about one call by the rules alone; return None if a person has to be asked."""
        found = await self._find(call)
        if isinstance(found, Verdict):
            return found
        must_ask = isinstance(found.tool.tool, _QUESTIONS) or found.judgement.decision is (
            RuleDecision.ASK
        )
        lacks = any(each.find(found.context) is None for each in found.tool.credentials)
        is_denied = found.judgement.decision is RuleDecision.DENY
        if not is_denied and (must_ask or lacks):
            return None
        verdict = self._decide(found)
        self._waiting += [verdict] if verdict.refusal is None else []
        return verdict

    async def ask(self, call: ToolUseBlock) -> Verdict:
        """Decide about one call; ask a person if the rules say so, and for missing credentials."""
        found = await self._find(call)
        verdict = found if isinstance(found, Verdict) else await self._ask(found)
        if verdict.refusal is not None or verdict.tool is None:
            return verdict
        refusal = await self._ask_credentials(call, verdict.tool, verdict.digest)
        if refusal is not None:
            return structs.replace(verdict, refusal=refusal)
        self._waiting.append(verdict)
        return verdict

    async def find_reach(self, call: ToolUseBlock, verdict: Verdict | None) -> Reach:
        """Find what a call may touch; nothing if it can't run."""
        tool = self._tools.get(call.name) if verdict is None else verdict.tool
        is_refused = verdict is not None and verdict.refusal is not None
        if tool is None or call.invalid or is_refused:
            return Reach()
        given = call.input if verdict is None else verdict.input
        reach = partial(Reach.of, tool, given, self._agent.context)
        return await in_time(reach, is_slow=_states_effects(tool) and is_long(given))

    async def recheck(self, verdict: Verdict, context: AgentContext) -> ToolResult | None:
        """Judge a call again before it runs; return a refusal if it is not what was approved."""
        call, tool = verdict.call, verdict.tool
        if tool is None and self._tools.get(call.name) is None:
            return None  # the registry says so
        if tool is None:  # a tool of this name has appeared meanwhile: nothing has judged the call
            return _deny(f"{call.name} was not run: there was no such tool yet. Call it again.")
        is_as_judged = verdict.state and verdict.state == self._permissions.describe_state()
        if is_as_judged and self._tools.get(call.name) is tool:
            return None
        now = await apply_rules(self._permissions, tool, verdict.input, context, verdict.sandbox)
        may_run, digest = now.decision is RuleDecision.ALLOW, now.digest
        if verdict.is_by_person:  # a person also approved the files that its commands run
            may_run = now.decision is not RuleDecision.DENY
            digest = (await explain_to_person(now, verdict.input)).digest
        if may_run and digest == verdict.digest and self._tools.get(call.name) is tool:
            return None
        record = self._describe(call, now)
        self._record(structs.replace(record, decision=RuleDecision.DENY, by="recheck"))
        return _deny(f"{call.name} was not run: what was approved has changed meanwhile.")

    def note_end(self, verdict: Verdict) -> None:
        """Note that a call has ended, so that it changes nothing any more."""
        self._waiting = [each for each in self._waiting if each is not verdict]

    def screen_reads(self, verdict: Verdict, folder: str) -> Callable[[str], str] | None:
        """Say which files in a folder an approved call may not read; see `AgentContext`."""
        if verdict.tool is None:
            return None
        context = self._agent.context
        return self._permissions.screen_reads(verdict.tool, verdict.input, context, folder)

    async def _find(self, call: ToolUseBlock) -> "Verdict | _Found":
        """Apply the rules to a call; return the verdict at once if it can't run."""
        if call.invalid:
            text = (
                f"The arguments of this call can't be used: {call.invalid}. Send one JSON object."
            )
            return Verdict(call, refusal=_misfit(text))
        tool = self._tools.get(call.name)
        if tool is None:
            return Verdict(call, call.input)  # the registry answers with the names that exist
        given, (arguments, fault) = call, await tool.check(call.input)
        if arguments is not call.input:
            call = structs.replace(call, input=arguments)
        sandbox = None
        try:
            sandbox = await tool.examine_sandbox(self._agent.context.workspace)
        except ToolError as error:
            fault = fault or str(error)
        if fault is not None:  # nobody is asked about a call that can't run
            return Verdict(call, call.input, tool, refusal=_misfit(fault))
        context = self._agent.context.with_tool_use_id(call.id)
        if id(given) not in self._gates:  # once, even where a person is asked later
            self._gates[id(given)] = given, await self._agent.judge(call)
        gate = self._gates[id(given)][1]
        if isinstance(gate, Deny):
            return self._deny_by_gate(call, tool, gate)
        # Effects may depend on files.
        state = None if _states_effects(tool) else self._permissions.describe_state()
        judgement = await apply_rules(self._permissions, tool, call.input, context, sandbox)
        judgement = judgement if gate is None else judgement.ask(gate.reason)
        return _Found(call, tool, context, judgement, sandbox, state)

    def _deny_by_gate(self, call: ToolUseBlock, tool: RegisteredTool, found: Deny) -> Verdict:
        record = PermissionRecord.by_gate(call.id, call.name, found.reason)
        self._record(structs.replace(record, mode=self._permissions.mode))
        return Verdict(call, call.input, tool, refusal=_deny(f"Denied: {found.reason}."))

    def _decide(self, found: "_Found") -> Verdict:
        """Record what the rules decided, and return it as a verdict."""
        call, tool, judgement, sandbox = found.call, found.tool, found.judgement, found.sandbox
        self._record(self._describe(call, judgement, sandbox))
        if judgement.decision is RuleDecision.DENY:
            return _refuse(call, call.input, tool, judgement)
        by_path = judgement.rule is not None and bool(judgement.rule.matcher.paths)
        paths = find_paths(tool, call.input, found.context) if by_path else ()
        return Verdict(
            call,
            call.input,
            tool,
            judgement.digest,
            judgement.runs_as,
            judgement.notes,
            paths,
            sandbox=sandbox,
            approval=_approve("rules", judgement),
            state=found.state,
        )

    async def _ask(self, found: "_Found") -> Verdict:
        """Ask a person about a call, unless the rules decide, and return the verdict."""
        call, tool, decision = found.call, found.tool, found.judgement.decision
        if isinstance(tool.tool, _QUESTIONS) and decision is not RuleDecision.DENY:
            record = self._describe(call, found.judgement)
            with self._withdraw_on_error(record):
                digest = found.judgement.digest
                answer = await tool.tool.ask(self._agent, call.input, call.id, digest)
            self._record(_add_answer(record, answer))
            return Verdict(call, call.input, tool, refusal=tool.tool.result(call.input, answer))
        if decision is RuleDecision.ASK:
            waiting = ((each.tool, each.input) for each in self._waiting)
            view = await find_view(self._permissions, call, tool, found.context, waiting)
            failure = await view.find_failure()
            if failure is not None:  # nor about one that can't succeed
                return Verdict(call, call.input, tool, refusal=failure)
            info = await view.describe()
            explanation = await explain_to_person(found.judgement, call.input)
            return await self._ask_permission(call, tool, explanation, found.sandbox, info)
        return self._decide(found)

    async def _ask_permission(
        self,
        call: ToolUseBlock,
        tool: RegisteredTool,
        found: "Explanation",
        sandbox: SandboxReport | None,
        info: ToolInfo,
    ) -> Verdict:
        """Ask a person about a call, record the answer, and return the verdict."""
        context = self._agent.context.with_tool_use_id(call.id)
        approved, edited, gate = call.input, False, None
        with self._withdraw_on_error(self._describe(call, found, sandbox)):
            answer = await self._request_answer(call, info, found, sandbox)
            if answer.input is not None and answer.input != call.input:
                # The person has approved what they wrote themselves, unless a rule forbids it.
                (approved, _), edited = await tool.check(answer.input), True
                edit = await apply_rules(self._permissions, tool, approved, context, sandbox)
                found = await explain_to_person(edit, approved)
                # The gates have judged another call.
                gate = await self._agent.judge(structs.replace(call, input=approved))
        # The rules that were offered are about the call as the model asked for it.
        rules = () if edited else self._remember(found, answer)
        record = _add_answer(self._describe(call, found, sandbox), answer, rules, edited=edited)
        if isinstance(gate, Deny):
            return self._deny_by_gate(call, tool, gate)
        if edited and answer.allowed and found.decision is RuleDecision.DENY:
            self._record(structs.replace(record, decision=RuleDecision.DENY, by="rules"))
            return _refuse(call, approved, tool, found)
        self._record(record)
        await self._keep(rules, answer.remember)
        if not answer.allowed:
            return Verdict(
                call, call.input, tool, refusal=_deny(_explain_denial(answer, found.advice))
            )
        paths = find_paths(tool, approved, context)
        verdict = Verdict(call, approved, tool, found.digest, paths=paths, sandbox=sandbox)
        verdict = structs.replace(verdict, is_edited=edited, approval=_approve(answer.by, found))
        return structs.replace(verdict, is_by_person=True)

    def _remember(self, found: "Explanation", answer: Answer) -> tuple[PermissionRule, ...]:
        """Remember an answer as rules if the person wants that; return these."""
        if answer.remember is None:
            return ()
        context, prefix = self._agent.context, answer.prefix
        return self._permissions.remember(
            found, answer.decision, answer.remember, context, prefix=prefix
        )

    async def _request_answer(
        self,
        call: ToolUseBlock,
        info: ToolInfo,
        found: "Explanation",
        sandbox: SandboxReport | None,
    ) -> Answer:
        return await self._agent.request_permission(
            call.name,
            info.action,
            details=info.details,
            diff=info.diff,
            input=call.input,
            parts=found.parts,
            reason=found.reason,
            remembers=tuple(map(str, found.remembers)),
            prefixes=tuple(map(str, found.prefixes)),
            runs_as=found.runs_as,
            unremembered=found.unremembered,
            forbids=tuple(map(str, found.forbids)),
            digest=found.digest,
            tool_use_id=call.id,
            sandbox=sandbox,
            effects=found.effects,
            claim=info.claim,
        )

    async def _ask_credentials(
        self, call: ToolUseBlock, tool: RegisteredTool, digest: str
    ) -> ToolResult | None:
        """Ask for the credentials that a call lacks; return why it can't run, or None."""
        context = self._agent.context.with_tool_use_id(call.id)
        for credential in tool.credentials:
            if credential.find(context) is not None:
                continue
            answer = await self._agent.request_permission(
                tool.name,
                f"Give the credential {credential.name}",
                details=credential.hint,
                reason=f"{tool.name} needs it, and it is kept from the model and from every file",
                credential=credential.name,
                # Not the call's own digest: a yes to one question must not answer the other.
                digest=f"{digest} {credential.name}",
                tool_use_id=call.id,
            )
            if not answer.allowed or credential.find(context) is None:
                why = "was not given" + (f": {answer.message}" if answer.message else "")
                text = f"{tool.name} was not run: the credential {credential.name} {why}."
                return ToolResult.error(text, ToolStatus.DENIED)
        return None

    async def _keep(self, rules: tuple[PermissionRule, ...], lifetime: Remember | None) -> None:
        """Store the rules of an answer; if that fails, they still hold in this process."""
        if lifetime is None or lifetime == "session" or not rules:
            return
        try:
            await trio.to_thread.run_sync(keep_rules, rules, lifetime, self._agent.context)
        except RuleFileError as error:
            await self._agent.send(Error(error.message, type(error).__name__, error.hint))

    @contextmanager
    def _withdraw_on_error(self, record: PermissionRecord) -> Iterator[None]:
        """Record that a question was withdrawn if the block fails, unless it stays open."""
        try:
            yield
        except BaseException:
            if not self._agent.is_suspended:
                self._record(_add_answer(record, Answer(RuleDecision.DENY, by="withdrawn")))
            raise

    def _record(self, record: PermissionRecord) -> None:
        self._agent.session.conversation.add_decision(record)

    def _describe(
        self,
        call: ToolUseBlock,
        found: "Judgement",
        sandbox: SandboxReport | None = None,
    ) -> PermissionRecord:
        """Return the record of what the rules decided; until an answer, asking means denied."""
        allowed = found.decision is RuleDecision.ALLOW
        parts = _pick_parts(found.parts)
        return PermissionRecord(
            tool_use_id=call.id,
            tool_name=call.name,
            at=utc_now(),
            decision=RuleDecision.ALLOW if allowed else RuleDecision.DENY,
            asked=found.decision is RuleDecision.ASK,
            reason=clip(found.reason, _REASON),
            rule_id=clip(found.rule.id, _TEXT) if found.rule else "",
            digest=found.digest,
            parts=tuple(_clip_part(part) for part in parts),
            left_out=len(found.parts) - len(parts),
            mode=self._permissions.mode,
            sandbox=str(sandbox or ""),
        )


def _states_effects(tool: RegisteredTool) -> bool:
    return getattr(tool.tool, "effects", None) is not None


def _approve(by: str, found: "Judgement") -> Approval:
    return Approval(by, clip(found.rule.id, _TEXT) if found.rule else "", found.digest)


def _explain_denial(answer: Answer, advice: str) -> str:
    is_named_person = answer.by not in AUTOMATIC_DECIDERS and not answer.message
    if answer.by != "user" and not is_named_person:  # the message holds the runtime's reason
        denied = f"This call was denied: {answer.message or answer.by}."
        return f"{denied} {advice}".rstrip()
    return "The user did not allow this call." + (f" {answer.message}" if answer.message else "")


def _refuse(
    call: ToolUseBlock,
    input: dict[str, object],  # noqa: A002
    tool: RegisteredTool,
    found: "Judgement",
) -> Verdict:
    refusal = _deny(found.message or f"Denied: {found.reason}.")
    return Verdict(call, input, tool, refusal=refusal)


def _misfit(text: str) -> ToolResult:
    return ToolResult.error(text, could_run=False, error="InvalidInputError")


def _deny(text: str) -> ToolResult:
    return ToolResult.error(text, ToolStatus.DENIED, could_run=False)


def _add_answer(
    record: PermissionRecord,
    answer: Answer,
    rules: tuple[PermissionRule, ...] = (),
    *,
    edited: bool = False,
) -> PermissionRecord:
    """Add to a record what the answer to the question decided."""
    return structs.replace(
        record,
        decision=answer.decision,
        by=answer.by,
        remember=answer.remember if rules else None,
        rules=tuple(clip(str(rule), _TEXT) for rule in rules[:_PARTS]),
        asked=True,
        edited=edited,
        message=clip(answer.message, _REASON),
    )


def _pick_parts(parts: tuple[PermissionPart, ...]) -> tuple[PermissionPart, ...]:
    """Shorten a long list of parts: drop allowed ones first, and keep the order."""
    if len(parts) <= _PARTS:
        return parts
    by_weight = sorted(parts, key=lambda part: part.decision is RuleDecision.ALLOW)
    kept = {id(part) for part in by_weight[:_PARTS]}
    return tuple(part for part in parts if id(part) in kept)


def _clip_part(part: PermissionPart) -> PermissionPart:
    return PermissionPart(
        text=clip(part.text, _TEXT),
        decision=part.decision,
        reason=clip(part.reason, _TEXT),
        rule_id=clip(part.rule_id, _TEXT),
        source=clip(part.source, _TEXT),
    )
