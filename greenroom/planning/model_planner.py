"""`ModelPlanner`: a model that makes plans, and revises them."""

from collections.abc import Iterable, Sequence

import msgspec

from greenroom.agents import Agent
from greenroom.core import ModelOutputError, PlanError, clip, serde
from greenroom.llm import LLMProvider
from greenroom.planning.error_context import ErrorClass
from greenroom.planning.execute import toolbox_of
from greenroom.planning.merge import merge
from greenroom.planning.plan import Plan, Subtask
from greenroom.planning.plan_run import PlanRun, SubtaskStatus
from greenroom.planning.revision import Failure
from greenroom.tools import ToolRegistry

_TRIES = 3
_TOO_MUCH = (ErrorClass.OVERFLOW, ErrorClass.REPETITION, ErrorClass.SPENT)
_LONGEST_DRAFT = 200
_LONGEST_RESULT = 2000  # characters
_SHORTEST_RESULT = 100
_LONGEST_RESULTS = 60_000

_INSTRUCTIONS = """\
You turn a goal into a plan: subtasks, and for each the ids of those that have to be completed before it.

- Each subtask is one call of one tool, or one piece of work that an agent does in one go. Leave steps out
  that are too small to be given to someone. Plan {limit} subtasks at the most.
- Let subtasks wait for each other only where one needs what the other gives: what does not wait runs
  side by side. No subtask may wait for itself over others.
- Use `tool` and `arguments` where one call of a tool is all there is to do. Otherwise leave both out, and
  say in `goal` all that the agent has to know: it sees nothing but that.
- Write {{id}} or {{id.field}} in a goal or an argument for the result of a subtask that it waits for.
- Set `critical` where the rest makes no sense without the subtask.\
"""


class PlanDraft(msgspec.Struct, frozen=True):
    """The plan that a model answers with."""

    subtasks: list[Subtask]


class ModelPlanner:
    """A `Planner` that asks a model.

    The model answers with a plan as structured output. One that does not fit (an unknown tool, a
    cycle, an id that is not there) goes back to it with what is wrong, twice at the most. Of more
    than 20 subtasks, neighbours without a tool are merged. In a revision it sees what is completed,
    with the results, and what has failed, and plans what is left.

    Called inside an agent, the planner is its subagent: its budgets apply, and its chunks show it.

    Args:
        llm: the name of a model, or a provider.
        limit: the most subtasks in a plan, not counting completed ones.
        instructions: what else the model should know, such as the available agents.

    Example:
        >>> import trio
        >>> from greenroom.testing import ScriptedProvider
        >>> from greenroom.tools import ToolRegistry
        >>> llm = ScriptedProvider('{"subtasks": [{"id": "look", "goal": "Find the bug"}]}')
        >>> trio.run(ModelPlanner(llm).plan, "fix it", ToolRegistry(), "").order()
        ('look',)
    """

    def __init__(self, llm: LLMProvider | str, *, limit: int = 20, instructions: str = "") -> None:
        """Take a model."""
        self._limit = limit
        self._agent = Agent(
            llm,
            instructions=f"{_INSTRUCTIONS.format(limit=limit)}\n\n{instructions}".rstrip(),
            output_type=PlanDraft,
            name="planner",
        )

    async def plan(
        self, goal: str, tools: ToolRegistry | Iterable[object] = (), context: str = ""
    ) -> Plan:
        """Make a plan for a goal.

        Args:
            goal: the goal.
            tools: the tools that subtasks may name.
            context: what else the model should know, such as recalled memories.

        Raises:
            PlanError: the model made no usable plan.
            ModelError: the model gave no answer.
            BudgetExceededError: a budget is spent.
        """
        registry = toolbox_of(tools).registry
        parts = [f"The goal:\n{goal}", _describe_tools(registry)]
        if context:
            parts.append(f"What is known that may help:\n{context}")
        return await self._draft("\n\n".join(parts), Plan(goal, ()), registry)

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Plan the remaining work in another way.

        Raises:
            PlanError: the model made no usable plan.
            ModelError: the model gave no answer.
            BudgetExceededError: a budget is spent.
        """
        done = tuple(run.plan[id_] for id_ in run.ids(SubtaskStatus.COMPLETED))
        parts = [
            f"The goal:\n{run.plan.goal}",
            f"The plan so far:\n{describe_plan(run.plan)}",
            f"What is completed, and is not to be done again:\n{describe_results(run)}",
            f"What has failed:\n{describe_errors(run)}",
            _describe_tools(failure.tools),
            f"The subtask {failure.subtask.id} has failed. Plan what is left, in another way: all subtasks"
            " that still have to be done, and none that are completed. They may wait for completed ones.",
        ]
        if failure.error_class in _TOO_MUCH:
            parts.append("It was too much for one agent: make several smaller subtasks of it.")
        return await self._draft("\n\n".join(parts), Plan(run.plan.goal, done), failure.tools)

    async def _draft(self, request: str, done: Plan, tools: ToolRegistry) -> Plan:
        """Ask for a plan that follows the completed subtasks, and again if it is unusable."""
        session = None
        tries = _TRIES
        while True:
            result = await self._agent.run(request, session=session)
            try:
                return self._complete(result.output.subtasks, done, tools)
            except ModelOutputError as error:
                raise PlanError(f"the model made no plan: {error.message}") from error
            except PlanError as error:
                tries -= 1
                if not tries:
                    hint = "say more about the goal, or use another model"
                    fault = f"the model made no usable plan: {error.message}"
                    raise PlanError(fault, hint=hint) from None
                request = f"This plan can't be used: {error.message}\nGive the whole plan again."
                session = await result.session.fork()  # each run has a session of its own

    def _complete(self, draft: Sequence[Subtask], done: Plan, tools: ToolRegistry) -> Plan:
        """Return the whole plan, with at most `limit` new subtasks.

        Raises:
            PlanError: the draft is unusable.
        """
        for each in draft:
            if each.tool and each.id in done and _call(each) != _call(done[each.id]):
                hint = "leave it out, or give the new call an id of its own"
                raise PlanError(f"{each.id} is completed, and was another call", hint=hint)
        new = [subtask for subtask in draft if subtask.id not in done]
        if not new and not done.subtasks:
            raise PlanError("it has no subtasks")
        if len(new) > _LONGEST_DRAFT:
            raise PlanError(f"it has {len(new)} subtasks: plan {self._limit} at the most")
        for subtask in new:
            if subtask.tool and tools.get(subtask.tool) is None:
                known = ", ".join(tools.list_tools()) or "none"
                raise PlanError(
                    f"{subtask.id}: there is no tool {subtask.tool!r}, there is {known}"
                )
        whole = Plan(done.goal, (*done.subtasks, *new))
        if len(new) <= self._limit:
            return whole
        merged = merge(whole, self._limit, done.order())
        if len(merged.subtasks) - len(done.subtasks) > self._limit:
            raise PlanError(
                f"it has {len(new)} subtasks, most of them calls: plan {self._limit} at the most"
            )
        return merged


def describe_plan(plan: Plan) -> str:
    """Describe a plan, one subtask per line."""
    lines = []
    for id_ in plan.order():
        subtask = plan[id_]
        after = f" (after {', '.join(subtask.after)})" if subtask.after else ""
        arguments = serde.dumps(subtask.arguments).decode() if subtask.arguments else ""
        call = f" [{subtask.tool} {arguments}".rstrip() + "]" if subtask.tool else ""
        who = f" [for: {subtask.capability}]" if subtask.capability else ""
        lines.append(f"- {id_}{after}{who}: {subtask.goal}{call}")
    return "\n".join(lines)


def describe_results(run: PlanRun) -> str:
    """Describe the results of subtasks, each cut to a readable length, at most about 60,000 characters."""
    results = run.results
    longest = min(_LONGEST_RESULT, _LONGEST_RESULTS // max(1, len(results)))
    return _list_texts({id_: _text(result, longest) for id_, result in results.items()})


def describe_errors(run: PlanRun) -> str:
    """Describe which subtasks failed, are blocked, or are uncertain."""
    open_ = {id_: run.state(id_).error or "not done" for id_ in run.ids(SubtaskStatus.PENDING)}
    return _list_texts(run.errors | open_)


def _list_texts(texts: dict[str, str]) -> str:
    """List texts by id; continuation lines are indented, so that none looks like the next entry."""
    lines = ("\n  ".join(f"- {id_}: {text}".splitlines()) for id_, text in texts.items())
    return "\n".join(lines) or "nothing"


def _text(result: object, longest: int) -> str:
    text = result if isinstance(result, str) else serde.dumps(result).decode()
    return clip(text, max(longest, _SHORTEST_RESULT))


def _call(subtask: Subtask) -> tuple[str, dict[str, object]]:
    return subtask.tool, subtask.arguments


def _describe_tools(tools: ToolRegistry) -> str:
    listed = [
        f"- {tool.name}: {tool.description}\n  {serde.dumps(tool.parameters).decode()}"
        for tool in tools.definitions()
    ]
    return "Tools that a subtask may name, with the schemas of their arguments:\n" + (
        "\n".join(listed) or "none"
    )
