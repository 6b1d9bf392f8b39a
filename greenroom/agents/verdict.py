"""The verdict on one tool call: what the rules and the person decide, and the record of it.

`judge` asks the rules, then a person where the rules say so, then for missing credentials. Just
before the call runs, `Verdict.recheck` judges it again. Each decision becomes a `PermissionRecord`
in the session, complete enough to explain it later, and bounded in size.
"""

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

_PARTS = 32  # of a call that a record keeps
_TEXT = 300  # characters of each part, and of each rule
_REASON = 1_000  # characters


def record_rules(
    call: ToolUseBlock,
    permissions: PermissionManager,
    found: Judgement | Explanation,
    sandbox: SandboxReport | None = None,
) -> PermissionRecord:
    """Record what the rules decided; a call that they ask about counts as denied until then."""
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
        mode=permissions.mode,
        sandbox=str(sandbox or ""),
    )


def record_answer(
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
        # Not the digest of the call: a yes to one of the questions must not answer the other.
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
"""Characters and values; judging an input of this size takes a few tens of milliseconds."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """One call and what was decided about it.

    Attributes:
        call: the call as the model asked for it.
        input: the input that was approved.
        tool: the tool that was judged, or None if no tool has the name.
        digest: binds the approval to what would run.
        paths: real paths outside the workspace that this call, and no other, may touch.
        is_edited: whether a person changed the input.
        is_by_person: whether a person allowed it, not a rule.
        sandbox: the sandbox that would hold it, or None.
        refusal: the result in place of running it, or None if it may run.
    """

    call: ToolUseBlock
    input: dict[str, object] = field(default_factory=dict)
    tool: RegisteredTool | None = None
    digest: str = ""
    paths: tuple[str, ...] = ()
    is_edited: bool = False
    is_by_person: bool = False
    sandbox: SandboxReport | None = None
    refusal: ToolResult | None = None

    async def recheck(
        self,
        agent: AgentInternals,
        tools: ToolRegistry,
        permissions: PermissionManager,
        context: AgentContext,
    ) -> ToolResult | None:
        """Judge the call again before it runs; return a refusal if it is not what was approved."""
        if self.tool is None:
            return None
        now = await _judge_call(permissions, self.tool, self.input, context, self.sandbox)
        may_run, digest = now.decision is RuleDecision.ALLOW, now.digest
        if self.is_by_person:  # a person also approved the files that its commands run
            may_run = now.decision is not RuleDecision.DENY
            digest = (await _explain(now, self.input)).digest
        if may_run and digest == self.digest and tools.get(self.call.name) is self.tool:
            return None
        record = record_rules(self.call, permissions, now)
        record = structs.replace(record, decision=RuleDecision.DENY, by="recheck")
        agent.session.conversation.add_decision(record)
        return _deny(f"{self.call.name} was not run: what was approved has changed meanwhile.")


async def restore_answers(agent: AgentInternals, permissions: PermissionManager) -> None:
    """Apply the answers that the session remembers; report those that no longer can be."""
    for note in permissions.bind_session(agent.session, agent.context.workspace.root):
        await agent.send(Error(note, RuleFileError.__name__))


async def judge(
    agent: AgentInternals,
    call: ToolUseBlock,
    tools: ToolRegistry,
    permissions: PermissionManager,
) -> Verdict:
    """Decide about one call; ask a person if the rules say so, and for missing credentials."""
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
    if fault is not None:  # no one is asked about a call that can't run
        refusal = ToolResult.error(fault, could_run=False)
        return Verdict(call, call.input, tool, refusal=refusal)
    context = agent.context.with_tool_use_id(call.id)
    found = await _judge_call(permissions, tool, call.input, context, sandbox)
    if isinstance(tool.tool, AskPerson) and found.decision is not RuleDecision.DENY:
        record = record_rules(call, permissions, found)
        with _withdrawn_on_error(agent, record):
            answer = await tool.tool.ask(agent, call.input, call.id, found.digest)
        agent.session.conversation.add_decision(record_answer(record, answer))
        return Verdict(call, call.input, tool, refusal=tool.tool.result(call.input, answer))
    if found.decision is RuleDecision.ASK:
        explanation = await _explain(found, call.input)
        return await _ask(agent, call, tool, permissions, explanation, sandbox)
    agent.session.conversation.add_decision(record_rules(call, permissions, found, sandbox))
    if found.decision is RuleDecision.DENY:
        return _refuse(call, call.input, tool, found)
    by_path = found.rule is not None and bool(found.rule.matcher.paths)
    paths = _find_paths(tool, call.input, context) if by_path else ()
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
    """Explain a judgement to a person; its digest includes the files that the commands run.

    Files are read in a thread, which an interrupt does not wait for.
    """
    found = await _in_time(partial(explain, judgement, files=False), input)
    if found.runs_commands:
        return await trio.to_thread.run_sync(found.with_files, abandon_on_cancel=True)
    return found


async def _in_time(judge: Callable[[], _T], input: object) -> _T:  # noqa: A002
    """Judge a call; a long input takes a thread, which an interrupt does not wait for."""
    if _is_long(input):
        return await trio.to_thread.run_sync(judge, abandon_on_cancel=True)
    return judge()


def _is_long(input: object) -> bool:  # noqa: A002 - the word that models and tools use
    """Tell whether an input, with all that is nested in it, is too long to be judged at once."""
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
    with _withdrawn_on_error(agent, record_rules(call, permissions, found, sandbox)):
        answer = await _answer(agent, call, tool, found, sandbox)
        if answer.input is not None and answer.input != call.input:
            # The person has approved what they wrote themselves, unless a rule forbids it.
            approved, edited = answer.input, True
            edit = await _judge_call(permissions, tool, approved, context, sandbox)
            found = await _explain(edit, approved)
    rules: tuple[PermissionRule, ...] = ()
    # The rules that were offered are about the call as the model asked for it.
    if answer.remember is not None and not edited:
        rules = permissions.remember(found, answer.decision, answer.remember, agent.context)
    record = record_answer(
        record_rules(call, permissions, found, sandbox), answer, rules, edited=edited
    )
    if edited and answer.allowed and found.decision is RuleDecision.DENY:
        record = structs.replace(record, decision=RuleDecision.DENY, by="rules")
        agent.session.conversation.add_decision(record)
        return _refuse(call, approved, tool, found)
    agent.session.conversation.add_decision(record)
    await _keep(agent, rules, answer.remember)
    if not answer.allowed:
        return Verdict(call, call.input, tool, refusal=_deny(_explain_denial(answer)))
    paths = _find_paths(tool, approved, context)
    return Verdict(call, approved, tool, found.digest, paths, edited, True, sandbox)


@contextmanager
def _withdrawn_on_error(agent: AgentInternals, record: PermissionRecord) -> Iterator[None]:
    """Record that a question was withdrawn if the block fails, unless it stays open for later."""
    try:
        yield
    except BaseException:
        if not agent.is_suspended:
            agent.session.conversation.add_decision(
                record_answer(record, Answer(RuleDecision.DENY, by="withdrawn"))
            )
        raise


async def _answer(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    found: Explanation,
    sandbox: SandboxReport | None,
) -> Answer:
    """Ask a person and wait for the answer."""
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
    """Store the rules of an answer; if that fails, they still hold in this process."""
    if lifetime is None or lifetime == "session" or not rules:
        return
    try:
        await trio.to_thread.run_sync(keep_rules, rules, lifetime, agent.context)
    except RuleFileError as error:
        await agent.send(Error(error.message, type(error).__name__, error.hint))


def _explain_denial(answer: Answer) -> str:
    if answer.by != "user":  # the message holds the runtime's reason
        return f"This call was denied: {answer.message or answer.by}."
    return "The user did not allow this call." + (f" {answer.message}" if answer.message else "")


def _find_paths(
    tool: RegisteredTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> tuple[str, ...]:
    """Return the real paths that a rule or a person allowed this call to touch."""
    found = []
    for effect in tool.effects(input, context):
        if isinstance(effect, (ReadPath, WritePath)):
            try:
                found.append(os.path.realpath(context.workspace.absolute(effect.path)))
            except (OSError, ValueError, RuntimeError):
                continue  # not a path, such as one with a NUL: the tool says so
    return tuple(found)


def _refuse(
    call: ToolUseBlock,
    input: dict[str, object],  # noqa: A002
    tool: RegisteredTool,
    found: Judgement | Explanation,
) -> Verdict:
    refusal = _deny(found.message or f"Denied: {found.reason}.")
    return Verdict(call, input, tool, refusal=refusal)


def _deny(text: str) -> ToolResult:
    return ToolResult.error(text, ToolStatus.DENIED, could_run=False)
