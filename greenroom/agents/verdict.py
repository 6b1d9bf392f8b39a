"""The verdict on one call: what the rules say, what the person says, what was approved and is recorded."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import trio
from msgspec import structs

from greenroom.agents.questions import AskPerson
from greenroom.core import (
    AgentContext,
    Answer,
    Credential,
    Error,
    PermissionPart,
    PermissionRecord,
    ReadPath,
    Remember,
    RuleDecision,
    RuleFileError,
    SandboxReport,
    ToolError,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    WritePath,
    clip,
    utc_now,
)
from greenroom.permissions import (
    Explanation,
    Judgement,
    PermissionManager,
    PermissionRule,
    explain,
    keep_rules,
)
from greenroom.runtime import AgentInternals
from greenroom.tools import RegisteredTool, ToolRegistry

# ---- What a session keeps of a decision about a tool call: whole enough to tell why, and bounded.

_PARTS = 32  # of a call
_TEXT = 300  # characters of each part, and of each rule
_REASON = 1_000


def decided(
    call: ToolUseBlock,
    permissions: PermissionManager,
    found: Judgement | Explanation,
    sandbox: SandboxReport | None = None,
) -> PermissionRecord:
    """Say what the rules have decided; what they ask about is not decided, and so denied."""
    allowed = found.decision is RuleDecision.ALLOW
    parts = _weightiest(found.parts)
    return PermissionRecord(
        tool_use_id=call.id,
        tool_name=call.name,
        at=utc_now(),
        decision=RuleDecision.ALLOW if allowed else RuleDecision.DENY,
        asked=found.decision is RuleDecision.ASK,
        reason=clip(found.reason, _REASON),
        rule_id=clip(found.rule.id, _TEXT) if found.rule else "",
        digest=found.digest,
        parts=tuple(_clipped(part) for part in parts),
        left_out=len(found.parts) - len(parts),
        mode=permissions.mode,
        sandbox=str(sandbox or ""),
    )


def answered(
    record: PermissionRecord,
    answer: Answer,
    rules: tuple[PermissionRule, ...] = (),
    *,
    edited: bool = False,
) -> PermissionRecord:
    """Say what the answer to a question has decided."""
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


def overruled(record: PermissionRecord) -> PermissionRecord:
    """Say that a rule denies what a person has approved in other words."""
    return structs.replace(record, decision=RuleDecision.DENY, by="rules")


def rechecked(record: PermissionRecord) -> PermissionRecord:
    """Say that a call was refused, since it was no longer what had been approved."""
    return structs.replace(record, decision=RuleDecision.DENY, by="recheck")


def _weightiest(parts: tuple[PermissionPart, ...]) -> tuple[PermissionPart, ...]:
    """Leave out parts of a long call, those first that are allowed; the others keep their order."""
    if len(parts) <= _PARTS:
        return parts
    by_weight = sorted(parts, key=lambda part: part.decision is RuleDecision.ALLOW)
    kept = {id(part) for part in by_weight[:_PARTS]}
    return tuple(part for part in parts if id(part) in kept)


def _clipped(part: PermissionPart) -> PermissionPart:
    return PermissionPart(
        text=clip(part.text, _TEXT),
        decision=part.decision,
        reason=clip(part.reason, _TEXT),
        rule_id=clip(part.rule_id, _TEXT),
        source=clip(part.source, _TEXT),
    )


# ---- Credentials of a call: the person is asked for those that are missing, before it runs.


async def ask_credentials(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    context: AgentContext,
    digest: str,
) -> ToolResult | None:
    """Ask for the credentials that a call lacks; return why it can't run, or None."""
    for credential in tool.credentials:
        if credential.find(context) is None:
            refusal = await _ask_for_credential(agent, call, tool, credential, context, digest)
            if refusal is not None:
                return refusal
    return None


async def _ask_for_credential(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    credential: Credential,
    context: AgentContext,
    digest: str,
) -> ToolResult | None:
    answer = await agent.request_permission(
        tool.name,
        f"Give the credential {credential.name}",
        details=credential.hint,
        reason=f"{tool.name} needs it, and it is kept from the model and from every file",
        credential=credential.name,
        # Other than that of the call, so that a yes to one of the questions is none to the other.
        digest=f"{digest} {credential.name}",
        tool_use_id=call.id,
    )
    if answer.allowed and credential.find(context) is not None:
        return None
    why = "was not given" + (f": {answer.message}" if answer.message else "")
    return ToolResult.error(
        f"{tool.name} was not run: the credential {credential.name} {why}.", ToolStatus.DENIED
    )


_T = TypeVar("_T")
_LONG = 8_000
"""Characters and values; an input of this size is judged within a few tens of milliseconds."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """One call and what was decided about it.

    Attributes:
        call: the call as the model asked for it.
        input: the input that was approved.
        tool: the tool that was judged, or None where none has the name.
        digest: binds the approval to what would run.
        paths: real paths outside the workspace that this call, and no other, may touch.
        edited: whether a person changed the input.
        asked: whether a person has allowed it, and no rule.
        sandbox: what was found to hold it, or None.
        refusal: the result in place of running it, or None where it may run.
    """

    call: ToolUseBlock
    input: dict[str, object] = field(default_factory=dict)
    tool: RegisteredTool | None = None
    digest: str = ""
    paths: tuple[str, ...] = ()
    edited: bool = False
    asked: bool = False
    sandbox: SandboxReport | None = None
    refusal: ToolResult | None = None

    async def changed(
        self,
        agent: AgentInternals,
        tools: ToolRegistry,
        permissions: PermissionManager,
        context: AgentContext,
    ) -> ToolResult | None:
        """Judge again what is about to run; a result where it is not what was approved."""
        if self.tool is None:
            return None
        now = await _judge_call(permissions, self.tool, self.input, context, self.sandbox)
        may_run, digest = now.decision is RuleDecision.ALLOW, now.digest
        if self.asked:  # what a person has seen covers the files of commands
            may_run = now.decision is not RuleDecision.DENY
            digest = (await _explain(now, self.input)).digest
        if may_run and digest == self.digest and tools.get(self.call.name) is self.tool:
            return None
        agent.session.conversation.add_decision(rechecked(decided(self.call, permissions, now)))
        return _denied(f"{self.call.name} was not run: what was approved has changed meanwhile.")


async def restore_answers(agent: AgentInternals, permissions: PermissionManager) -> None:
    """Let the answers hold that the agent's session remembers; tell of those that can't."""
    for note in permissions.bind_session(agent.session, agent.context.workspace.root):
        await agent.send(Error(note, RuleFileError.__name__))


async def judge(
    agent: AgentInternals,
    call: ToolUseBlock,
    tools: ToolRegistry,
    permissions: PermissionManager,
) -> Verdict:
    """Decide about one call; asks a person where the rules say so, and for what the call needs."""
    verdict = await _judge(agent, call, tools, permissions)
    if verdict.refusal is not None or verdict.tool is None:
        return verdict
    context = agent.context.with_tool_use_id(call.id)
    refusal = await ask_credentials(agent, call, verdict.tool, context, verdict.digest)
    return verdict if refusal is None else replace(verdict, refusal=refusal)


async def _judge(
    agent: AgentInternals,
    call: ToolUseBlock,
    tools: ToolRegistry,
    permissions: PermissionManager,
) -> Verdict:
    if call.invalid:
        text = f"The arguments of this call can't be used: {call.invalid}. Send one JSON object."
        return Verdict(call, refusal=ToolResult.error(text, could_run=False))
    tool = tools.get(call.name)
    if tool is None:
        return Verdict(call, call.input)  # the registry answers with the names that exist
    fault, sandbox = tool.fault(call.input), None
    try:
        sandbox = await tool.examine_sandbox(agent.context.workspace)
    except ToolError as error:
        fault = fault or str(error)
    if fault is not None:  # nobody is asked about a call that can't run
        refusal = ToolResult.error(fault, could_run=False)
        return Verdict(call, call.input, tool, refusal=refusal)
    context = agent.context.with_tool_use_id(call.id)
    found = await _judge_call(permissions, tool, call.input, context, sandbox)
    if isinstance(tool.tool, AskPerson) and found.decision is not RuleDecision.DENY:
        record = decided(call, permissions, found)
        with _withdrawn_on_error(agent, record):
            answer = await tool.tool.ask(agent, call.input, call.id, found.digest)
        agent.session.conversation.add_decision(answered(record, answer))
        return Verdict(call, call.input, tool, refusal=tool.tool.result(call.input, answer))
    if found.decision is RuleDecision.ASK:
        explanation = await _explain(found, call.input)
        return await _ask(agent, call, tool, permissions, explanation, sandbox)
    agent.session.conversation.add_decision(decided(call, permissions, found, sandbox))
    if found.decision is RuleDecision.DENY:
        return _refused(call, call.input, tool, found)
    by_path = found.rule is not None and bool(found.rule.matcher.paths)
    paths = _paths(tool, call.input, context) if by_path else ()
    return Verdict(call, call.input, tool, found.digest, paths, sandbox=sandbox)


async def _judge_call(
    permissions: PermissionManager,
    tool: RegisteredTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
    sandbox: SandboxReport | None,
) -> Judgement:
    return await _in_time(partial(permissions.judge, tool, input, context, sandbox=sandbox), input)


async def _explain(judgement: Judgement, input: dict[str, object]) -> Explanation:  # noqa: A002
    """Explain a judgement to a person, with the files of the call's commands in its digest.

    Files are read in a thread, which an interrupt does not wait for.
    """
    found = await _in_time(partial(explain, judgement, files=False), input)
    if found.runs_commands:
        return await trio.to_thread.run_sync(found.with_files, abandon_on_cancel=True)
    return found


async def _in_time(judge: Callable[[], _T], input: object) -> _T:  # noqa: A002
    """Judge a call; one with a long input in a thread, which an interrupt does not wait for."""
    if _is_long(input):
        return await trio.to_thread.run_sync(judge, abandon_on_cancel=True)
    return judge()


def _is_long(input: object) -> bool:  # noqa: A002 - the word that models and tools use
    """Tell whether an input is longer than is judged at once, all that is nested in it together."""
    waiting, length = [input], 0
    while waiting and length <= _LONG:
        value = waiting.pop()
        length += len(value) if isinstance(value, str) else 1
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
    return length > _LONG


async def _ask(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    permissions: PermissionManager,
    found: Explanation,
    sandbox: SandboxReport | None,
) -> Verdict:
    context = agent.context.with_tool_use_id(call.id)
    approved, edited = call.input, False
    with _withdrawn_on_error(agent, decided(call, permissions, found, sandbox)):
        answer = await _answer(agent, call, tool, found, sandbox)
        if answer.input is not None and answer.input != call.input:
            # What the person wrote is approved by the person, unless a rule forbids it.
            approved, edited = answer.input, True
            edit = await _judge_call(permissions, tool, approved, context, sandbox)
            found = await _explain(edit, approved)
    rules: tuple[PermissionRule, ...] = ()
    # What was shown to be remembered is about the call as it was asked for.
    if answer.remember is not None and not edited:
        rules = permissions.remember(found, answer.decision, answer.remember, agent.context)
    record = answered(decided(call, permissions, found, sandbox), answer, rules, edited=edited)
    if edited and answer.allowed and found.decision is RuleDecision.DENY:
        agent.session.conversation.add_decision(overruled(record))
        return _refused(call, approved, tool, found)
    agent.session.conversation.add_decision(record)
    await _keep(agent, rules, answer.remember)
    if not answer.allowed:
        return Verdict(call, call.input, tool, refusal=_denied(_why_not(answer)))
    paths = _paths(tool, approved, context)
    return Verdict(call, approved, tool, found.digest, paths, edited, asked=True, sandbox=sandbox)


@contextmanager
def _withdrawn_on_error(agent: AgentInternals, record: PermissionRecord) -> Iterator[None]:
    """Record that a question was withdrawn, where the block can't be ended and it stays open."""
    try:
        yield
    except BaseException:
        if not agent.is_suspended:
            agent.session.conversation.add_decision(
                answered(record, Answer(RuleDecision.DENY, by="withdrawn"))
            )
        raise


async def _answer(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    found: Explanation,
    sandbox: SandboxReport | None,
) -> Answer:
    """Ask a person, and wait."""
    info = tool.info(call.input)
    return await agent.request_permission(
        call.name,
        info.action,
        details=info.details,
        diff=info.diff,
        input=call.input,
        parts=found.parts,
        reason=found.reason,
        remembers=tuple(str(rule) for rule in found.remembers),
        unremembered=found.unremembered,
        forbids=tuple(str(rule) for rule in found.forbids),
        digest=found.digest,
        tool_use_id=call.id,
        sandbox=sandbox,
        effects=found.effects,
        claim=info.claim,
    )


async def _keep(
    agent: AgentInternals, rules: tuple[PermissionRule, ...], lifetime: Remember | None
) -> None:
    """Store the rules of an answer; where they can't be they still hold in this process."""
    if lifetime is None or lifetime == "session" or not rules:
        return
    try:
        await trio.to_thread.run_sync(keep_rules, rules, lifetime, agent.context)
    except RuleFileError as error:
        await agent.send(Error(error.message, type(error).__name__, error.hint))


def _why_not(answer: Answer) -> str:
    if answer.by != "user":  # the runtime's reason stands in the message
        return f"This call was denied: {answer.message or answer.by}."
    return "The user did not allow this call." + (f" {answer.message}" if answer.message else "")


def _paths(
    tool: RegisteredTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> tuple[str, ...]:
    """Return the real paths that a rule or a person has allowed this call to touch."""
    found = []
    for effect in tool.effects(input, context):
        if isinstance(effect, (ReadPath, WritePath)):
            try:
                found.append(os.path.realpath(context.workspace.absolute(effect.path)))
            except (OSError, ValueError, RuntimeError):
                continue  # no path at all, such as one with a NUL: the tool says so
    return tuple(found)


def _refused(
    call: ToolUseBlock,
    input: dict[str, object],  # noqa: A002
    tool: RegisteredTool,
    found: Judgement | Explanation,
) -> Verdict:
    refusal = _denied(found.message or f"Denied: {found.reason}.")
    return Verdict(call, input, tool, refusal=refusal)


def _denied(text: str) -> ToolResult:
    return ToolResult.error(text, ToolStatus.DENIED, could_run=False)
