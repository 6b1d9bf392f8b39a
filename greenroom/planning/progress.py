"""`Progress`: record each change of a run in the session, and publish it."""

import msgspec
from msgspec.structs import replace

from greenroom.core import Custom, PlanError, serde
from greenroom.planning.plan_run import (
    PLAN_STEP,
    PlanBegin,
    PlanRun,
    PlanStep,
    SubtaskMove,
    SubtaskStatus,
)
from greenroom.runtime import AgentInternals
from greenroom.session import LONGEST_RECORD


class Progress:
    """The current run of an agent."""

    def __init__(self, agent: AgentInternals, run: PlanRun) -> None:
        """Take a run, and record it as a whole unless the session has it already.

        Raises:
            PlanError: the plan is too long for a record.
        """
        self._agent = agent
        self.run = run
        if agent.session.records(PLAN_STEP) and PlanRun.load(agent.session) == run:
            # Its results may be too long for a chunk.
            states = {id_: replace(state, result=None) for id_, state in run.states.items()}
            self._publish(PlanBegin(run.plan, run.revisions, states, run.error))
        else:
            self.run = PlanRun(run.plan)
            for step in run.steps():
                self.write(step)
        for id_ in self.run.ids(SubtaskStatus.EXECUTING):  # the process ended while it ran
            session_id = self.run.state(id_).session_id
            self.write(SubtaskMove(id_, SubtaskStatus.PENDING, session_id=session_id))

    def write(self, step: PlanStep) -> None:
        """Apply a step, add it to the session and publish it; the next save stores it.

        Raises:
            PlanError: the step is illegal or too long for a record; nothing has changed.
        """
        run = self.run.apply(step)
        if isinstance(step, SubtaskMove) and step.status is SubtaskStatus.COMPLETED:
            step = replace(step, result=run.state(step.id).result)  # a long one is shortened
        if (length := len(msgspec.json.encode(step))) > LONGEST_RECORD:
            hint = "say less in goals and arguments, and keep long texts in files"
            raise PlanError(
                f"the plan is too long: {length:,} of {LONGEST_RECORD:,} bytes", hint=hint
            )
        self.run = run
        self._agent.session.add_record(PLAN_STEP, self._publish(step))

    async def save(self, *, flush: bool = False) -> None:
        """Save the session.

        Raises:
            SessionError: it could not be saved.
        """
        await self._agent.session.save(flush=flush)

    def _publish(self, step: PlanStep) -> dict[str, object]:
        """Publish a step; return it as JSON."""
        data = serde.loads_object(msgspec.json.encode(step).decode())
        self._agent.send_nowait(Custom(PLAN_STEP, data, str(step)))
        return data
