"""`Talk`: a conversation with a member of a team, each answer of which is on record.

A member that has answered before its team was cut off is not asked again: `Talk` returns what it
said. One that was cut off itself continues, after the questions about calls in doubt.
"""

from contextlib import AsyncExitStack
from functools import partial

from msgspec import UNSET

from greenroom.core import ContentBlock, TextBlock, TurnStatus
from greenroom.core._internal import as_blocks, clip
from greenroom.flow.errors import TeamError
from greenroom.flow.members import Member, RecordedMember, start_member
from greenroom.flow.resume import (
    NOTHING,
    Content,
    Doubt,
    Settlement,
    Trace,
    ask_to_continue,
    check_budget,
    describe_cut,
    find_inspection,
    find_trace,
    reopen,
)
from greenroom.flow.unit import Start, Unit, UnitLog
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult
from greenroom.runtime._internal import try_ask
from greenroom.session import AgentSession

_LONGEST = 2000  # characters of an input in a question about it


class Talk:
    """A member that a team asks, once or several times, in one conversation."""

    def __init__(
        self, agent: AgentInternals, log: UnitLog, member: Member, name: str, stack: AsyncExitStack
    ) -> None:
        """Take the member, which is started when it is first asked, and ends with the stack."""
        self._agent = agent
        self._log = log
        self._member = member
        self._name = name
        self._stack = stack
        self._handle: AgentHandle | None = None
        self._session = AgentSession.new(name)
        self._before: Start | None = None
        """Where it was asked before, in a turn that was cut off."""
        self._recorded: RecordedMember | None = None

    async def ask(self, content: Content, sender: str = "") -> object:
        """Ask the member, or return what it has answered before its team was cut off.

        Raises:
            TeamError: its turn did not complete, or it was left out after a kill.
            SessionError: its start could not be recorded.
        """
        unit, blocks = self._log.next_unit(self._name), as_blocks(content)
        if unit in self._log.ends:
            self._before = self._log.starts.get(unit, self._before)
            return self._log.ends[unit]
        start = self._log.starts.get(unit)
        if self._handle is not None:
            await self._record_start(unit)
            return self._read(unit, await try_ask(self._handle, blocks, sender=sender))
        trace, settled = await self._settle(unit, start, blocks)
        is_begun = self._log.is_begun(unit, trace.session or self._session)
        if trace.kind == "result" and is_begun:
            self._before = start
            self._log.end(unit, trace.result)
            return trace.result
        if trace.session is not None:
            self._session = await reopen(trace.session, self._agent.session, settled.results)
        handle = self._handle = await self._start(unit)
        ask = (
            partial(ask_to_continue, handle, self._session)
            if is_begun
            else partial(try_ask, handle)
        )
        return self._read(unit, await ask(blocks, sender=sender))

    async def _settle(
        self, unit: Unit, start: Start | None, content: tuple[ContentBlock, ...]
    ) -> tuple[Trace, Settlement]:
        """Find out what its last start left behind, and ask a person where that is in doubt.

        Raises:
            TeamError: a person leaves it out, or nobody can be asked.
        """
        last = start or self._before
        if last is None:
            return NOTHING, Settlement()
        inspect = find_inspection(self._member)
        trace = await find_trace(last.session_id, self._agent.session, inspect)
        if trace.kind != "unsure" or start is None:
            return trace, Settlement()
        text = "".join(each.text for each in content if isinstance(each, TextBlock))
        settled = await Doubt(
            f"Run the member {unit} again",
            clip(text, _LONGEST),
            self._name,
            {"input": text},
            start,
            describe_cut(trace.doubt),
            trace.calls,
        ).settle(self._agent)
        if settled.refusal is not None:
            said = settled.refusal.message or "it is left out"
            raise TeamError(f"{unit} was cut off, and {trace.doubt}; {said}")
        if settled.result is not UNSET:
            trace = Trace("result", result=settled.result)
        return trace, settled

    async def _start(self, unit: Unit) -> AgentHandle:
        """Start the member, which is on record from then on."""
        self._recorded = RecordedMember(self._member, partial(self._record_start, unit))
        starting = start_member(self._agent, self._recorded, name=self._name, session=self._session)
        return await self._stack.enter_async_context(starting)

    async def _record_start(self, unit: Unit) -> None:
        self._log.start(unit, self._session)
        await self._agent.session.save()

    def _read(self, unit: Unit, result: TurnResult) -> object:
        """Record and return the output in a result.

        Raises:
            TeamError: the turn did not complete.
            BudgetExceededError: it did not for want of a budget, which the team lacks, too.
        """
        if self._recorded is not None:
            self._recorded.check()
        check_budget(self._agent, result)
        output = read_output(result, self._name)
        self._log.end(unit, output)
        return output


def read_output(result: TurnResult, name: str) -> object:
    """Return the output of a member: the result of its turn, or its text if it set no result.

    Raises:
        TeamError: its turn did not complete.
    """
    if result.status is not TurnStatus.COMPLETED:
        why = f": {result.error}" if result.error else ""
        raise TeamError(f"{name} did not answer: its turn {result.status}{why}")
    return result.text if result.value is UNSET else result.value
