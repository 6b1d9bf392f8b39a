"""`Talk`: a conversation with a member of a team, each answer of which is on record.

A member that has answered before its team was cut off is not asked again: `Talk` returns what it
said. One that was cut off itself continues, after the questions about calls in doubt.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial

from msgspec import UNSET

from greenroom.core import ContentBlock, TextBlock, TurnStatus, utc_now
from greenroom.core._internal import as_blocks, clip
from greenroom.flow.errors import TeamError, WorkflowError
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
from greenroom.flow.unit import WORKFLOW_STEP, Start, Unit, UnitLog, WorkflowBegin, add_record
from greenroom.flow.workflow_run import last_entry, read_nodes
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult
from greenroom.runtime._internal import try_ask
from greenroom.session import AgentSession

_OUTPUT = "output"


class MemberLog:
    """The members that a pattern asks in one turn, as units, and what they have answered.

    A turn that was cut off begins again with the same log: a member that has answered is not asked
    again. The n-th time that a member of some name is asked is the same unit each time.
    """

    def __init__(self, session: AgentSession, *, goes_on: bool) -> None:
        self._asked: Counter[str] = Counter()
        last = last_entry(session)
        run = last.run if last else 0
        if goes_on and isinstance(last, WorkflowBegin) and not last.next:  # else a workflow ran
            self._units = UnitLog(session, run)
            for record in read_nodes(session, run):
                self._units.apply(record)
        else:
            self._units = UnitLog(session, run + 1)
            begin = WorkflowBegin({}, (), run + 1, utc_now())
            add_record(session, WORKFLOW_STEP, begin, "the beginning")

    @property
    def starts(self) -> Mapping[Unit, Start]:
        """The last start of each unit."""
        return self._units.starts

    def find_output(self, unit: Unit) -> object:
        """Return what a unit has answered, else `msgspec.UNSET`."""
        return self._units.ends[unit][_OUTPUT] if unit in self._units.ends else UNSET

    def next_unit(self, name: str) -> Unit:
        """Return the unit for the next time that a member of this name is asked."""
        count = self._asked[name]
        self._asked[name] += 1
        return Unit(name, count or None)

    def start(self, unit: Unit, member: AgentSession) -> None:
        """Record that a unit starts in a member's session; save this one before it does."""
        before = self.starts.get(unit)
        self._units.start(unit, member.session_id, before.after if before else _last_id(member))

    def is_begun(self, unit: Unit, member: AgentSession) -> bool:
        """Whether a unit that has started in a member's session has got its input there."""
        start = self.starts.get(unit)
        return start is not None and not (start.after and start.after == _last_id(member))

    def end(self, unit: Unit, output: object) -> None:
        """Record what a unit has answered, unless that is too long: its own session has it."""
        with suppress(WorkflowError):
            self._units.end(unit, {_OUTPUT: output})


def _last_id(session: AgentSession) -> str:
    """Return the id of the last message of a session, or an empty text if it has no messages."""
    return session.history[-1].id if session.history else ""


_LONGEST = 2000  # characters of an input in a question about it


class Talk:
    """A member that a team asks, once or several times, in one conversation."""

    def __init__(
        self,
        agent: AgentInternals,
        log: MemberLog,
        member: Member,
        name: str,
        stack: AsyncExitStack,
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
        if (known := self._log.find_output(unit)) is not UNSET:
            self._before = self._log.starts.get(unit, self._before)
            return known
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
