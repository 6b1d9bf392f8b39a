"""`ModelPlanner`: a model that makes plans, and revises them.

If a plan has too many subtasks, `merge` combines those that one agent can do together.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from greenroom.agents import Agent, Tools
from greenroom.agents._internal import Toolbox
from greenroom.core import ConfigurationError
from greenroom.core._internal import clip, serde
from greenroom.flow.error_context import ErrorClass
from greenroom.flow.errors import PlanError
from greenroom.flow.graph import find_order, is_count
from greenroom.flow.plan import Plan, Subtask, find_tool
from greenroom.flow.plan_run import PlanRun, SubtaskStatus
from greenroom.flow.references import map_references, references_in
from greenroom.flow.revision import Failure
from greenroom.llm import LLMProvider, ModelOutputError
from greenroom.tools import ToolRegistry

if TYPE_CHECKING:
    from greenroom.session import AgentSession

_DRAFTS = 3  # the most drafts of one plan
_TOO_MUCH = (ErrorClass.OVERFLOW, ErrorClass.REPETITION, ErrorClass.SPENT)
_LONGEST_DRAFT = 200
_LONGEST_RESULT = 2000  # characters
_SHORTEST_RESULT = 100
_LONGEST_RESULTS = 60_000

_INSTRUCTIONS = """\
You turn a goal into a plan: subtasks, and for each the ids of those that it has to wait for.

- Each subtask is one call of one tool, or one piece of work that an agent does in one go. Leave out
  steps that are too small to delegate. Plan at most {max_subtasks} subtasks.
- A subtask should wait for another only if it needs its result: subtasks that don't wait run in
  parallel. No subtask may wait for itself, directly or through others.
- Use `tool` and `arguments` if one call of a tool is all there is to do. Otherwise leave both out,
  and say in `goal` everything that the agent has to know: it sees nothing else.
- Write {{id}} or {{id.field}} in a goal or argument for the result of a subtask that it waits for.
- Say in `expected` what the result has to be like, where that is not plain from the goal.
- Set `critical` if the rest of the plan is pointless without the subtask.\
"""


class PlanDraft(msgspec.Struct, frozen=True):
    """The plan that a model answers with."""

    subtasks: tuple[Subtask, ...]


class ModelPlanner:
    """A `Planner` that asks a model.

    An unusable plan (an unknown tool, a cycle, a missing id) goes back to the model with the
    reason, at most twice. If subtasks then still wait for each other, one edge of each cycle is
    left out. If there are too many subtasks, neighbours without a tool are merged. For a revision,
    the model sees the results and failures so far, and plans the remaining work.

    Called inside an agent, the planner is its subagent: the agent's budgets apply, and its chunks
    include the planner's.

    Args:
        llm: the name of a model, or a provider.
        max_subtasks: the most subtasks in a plan, not counting completed ones.
        instructions: what else the model should know, such as the available agents.
        templates: plans that have worked for such goals; the model may take them over.

    Raises:
        ConfigurationError: `max_subtasks` is not a whole number of at least 1.
        PlanError: by `plan` and `revise`: the model made no usable plan.
        ModelError: by them: the model gave no answer.
        BudgetExceededError: by them: a budget is spent.

    Example:
        >>> import trio
        >>> from greenroom.testing import ScriptedProvider
        >>> llm = ScriptedProvider('{"subtasks": [{"id": "look", "goal": "Find the bug"}]}')
        >>> trio.run(ModelPlanner(llm).plan, "fix it").order()
        ('look',)
    """

    def __init__(
        self,
        llm: LLMProvider | str,
        *,
        max_subtasks: int = 20,
        instructions: str = "",
        templates: Iterable[Plan] = (),
    ) -> None:
        if not is_count(max_subtasks):
            raise ConfigurationError(f"max_subtasks is {max_subtasks!r}", hint="give 1 or more")
        self._max_subtasks = max_subtasks
        self._templates = tuple(templates)
        self._agent = Agent(
            llm,
            instructions=f"{_INSTRUCTIONS.format(max_subtasks=max_subtasks)}\n\n{instructions}".rstrip(),
            output_type=PlanDraft,
            name="planner",
        )

    async def plan(self, goal: str, tools: Tools = (), context: str = "") -> Plan:
        """Make a plan for a goal with these tools; `context` is what else may help, as memories."""
        registry = Toolbox.of(tools).registry
        parts = [f"The goal:\n{goal}", _describe_tools(registry)]
        if self._templates:
            known = (f"For {plan.goal}:\n{describe_plan(plan)}" for plan in self._templates)
            parts.append("\n\n".join(["Plans that have worked:", *known]).replace("\n\n", "\n", 1))
        if context:
            parts.append(f"What is known and may help:\n{context}")
        return await self._draft("\n\n".join(parts), Plan(goal, ()), registry)

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Plan the remaining work in another way."""
        done = tuple(run.plan[id_] for id_ in run.ids(SubtaskStatus.COMPLETED))
        parts = [
            f"The goal:\n{run.plan.goal}",
            f"The plan so far:\n{describe_plan(run.plan)}",
            f"What is completed, and is not to be done again:\n{describe_results(run)}",
            f"What has failed:\n{describe_errors(run)}",
            _describe_tools(failure.tools),
            f"The subtask {failure.subtask.id} has failed. Plan the remaining work in another way:"
            " all subtasks that still have to be done, and none that are completed. They may wait"
            " for completed ones.",
        ]
        if failure.error_class in _TOO_MUCH:
            parts.append("It was too much for one agent: split it into several smaller subtasks.")
        return await self._draft("\n\n".join(parts), Plan(run.plan.goal, done), failure.tools)

    async def _draft(self, request: str, done: Plan, tools: ToolRegistry) -> Plan:
        """Ask for a plan that follows the completed subtasks, and again if it is unusable."""
        session: AgentSession | None = None
        draft: Sequence[Subtask] = ()
        fault = ""
        for _ in range(_DRAFTS):
            try:
                result = await self._agent.run(request, session=session)
                draft = result.output.subtasks
            except ModelOutputError as error:
                raise PlanError(f"the model made no plan: {error.message}") from error
            try:
                return self._complete(draft, done, tools)
            except PlanError as error:
                fault = error.message
                request = f"This plan can't be used: {error}\nGive the whole plan again."
            session = await result.session.fork()  # each run needs a session of its own
        if (broken := break_cycles(draft)) != list(draft):
            return self._complete(broken, done, tools)
        hint = "describe the goal in more detail, or use another model"
        raise PlanError(f"the model made no usable plan: {fault}", hint=hint)

    def _complete(self, draft: Sequence[Subtask], done: Plan, tools: ToolRegistry) -> Plan:
        """Return the whole plan, with at most `max_subtasks` new subtasks."""
        for each in draft:
            before = done[each.id] if each.id in done.ids else each
            if each.tool and (each.tool, each.arguments) != (before.tool, before.arguments):
                hint = "leave it out, or give the new call an id of its own"
                raise PlanError(f"{each.id} is completed, and was another call", hint=hint)
        new = [subtask for subtask in draft if subtask.id not in done]
        if not new and not done.subtasks:
            raise PlanError("it has no subtasks")
        if len(new) > _LONGEST_DRAFT:
            raise PlanError(f"it has {len(new)} subtasks: plan at most {self._max_subtasks}")
        for subtask in new:
            if subtask.tool:
                find_tool(subtask, tools)
        whole = Plan(done.goal, (*done.subtasks, *new))
        if len(new) <= self._max_subtasks:
            return whole
        merged = merge(whole, self._max_subtasks, done.order())
        if len(merged.subtasks) - len(done.subtasks) > self._max_subtasks:
            raise PlanError(
                f"it has {len(new)} subtasks, most of them calls: plan at most {self._max_subtasks}"
            )
        return merged


def break_cycles(subtasks: Sequence[Subtask]) -> list[Subtask]:
    """Return subtasks without the edges that close a cycle: one of each, if possible an unused one.

    A subtask that waits for itself makes no sense, and is left as it is.

    Example:
        >>> first, then = Subtask("a", "Look", after=["b"]), Subtask("b", "Use {a}", after=["a"])
        >>> [each.after for each in break_cycles([first, then])]
        [(), ('a',)]
    """
    if any(each.id in each.after for each in subtasks):
        return list(subtasks)
    left = {each.id: each for each in subtasks}
    while cycle := find_order({each.id: each.after for each in left.values()})[1]:
        edges = list(pairwise(cycle))  # each waits for the one before it
        unused = [(before, id_) for before, id_ in edges if not _uses(left[id_], before)]
        before, id_ = (unused or edges)[-1]
        after = tuple(each for each in left[id_].after if each != before)
        left[id_] = replace(left[id_], after=after)
    return [left[each.id] for each in subtasks]


def _uses(subtask: Subtask, name: str) -> bool:
    found = references_in((subtask.goal, dict(subtask.arguments)))
    return any(each == name for each, _ in found)


def describe_plan(plan: Plan) -> str:
    """Describe a plan, one subtask per line."""
    lines = []
    for id_ in plan.order():
        subtask = plan[id_]
        after = f" (after {', '.join(subtask.after)})" if subtask.after else ""
        arguments = serde.dumps(subtask.arguments).decode() if subtask.arguments else ""
        call = f" [{subtask.tool} {arguments}".rstrip() + "]" if subtask.tool else ""
        who = f" [for: {subtask.capability}]" if subtask.capability else ""
        result = f" [expected: {subtask.expected}]" if subtask.expected else ""
        lines.append(f"- {id_}{after}{who}: {subtask.goal}{call}{result}")
    return "\n".join(lines)


def describe_results(run: PlanRun) -> str:
    """Describe the results of subtasks in about 60,000 characters at most; long ones are cut."""
    results = run.results
    longest = min(_LONGEST_RESULT, _LONGEST_RESULTS // max(1, len(results)))
    longest = max(longest, _SHORTEST_RESULT)
    return _list_texts({id_: clip(serde.to_text(each), longest) for id_, each in results.items()})


def describe_errors(run: PlanRun) -> str:
    """Describe which subtasks failed, are blocked, are uncertain, or were undone."""
    open_ = {id_: run.state(id_).error or "not done" for id_ in run.ids(SubtaskStatus.PENDING)}
    undone = (id_ for id_, state in run.states.items() if state.is_undone)
    return _list_texts(run.errors | open_ | dict.fromkeys(undone, "done, and undone again"))


def _list_texts(texts: dict[str, str]) -> str:
    """List texts by id; continuation lines are indented, so that none looks like the next entry."""
    lines = ("\n  ".join(f"- {id_}: {text}".splitlines()) for id_, text in texts.items())
    return "\n".join(lines) or "nothing"


def _describe_tools(tools: ToolRegistry) -> str:
    listed = [
        f"- {tool.name}: {tool.description}{_describe_speed(tools, tool.name)}"
        f"\n  {serde.dumps(tool.parameters).decode()}"
        for tool in tools.definitions()
    ]
    return "Tools that a subtask may name, with the schemas of their arguments:\n" + (
        "\n".join(listed) or "none"
    )


def _describe_speed(tools: ToolRegistry, name: str) -> str:
    registered = tools.get(name)
    is_slow = registered is not None and getattr(registered.tool, "is_slow", False)
    return " (slow at present: a call has timed out)" if is_slow else ""


def merge(plan: Plan, max_subtasks: int, done: Collection[str] = ()) -> Plan:
    """Return the plan with at most `max_subtasks` subtasks that are not done, if possible.

    Neighbours in the plan's order are merged, so no cycle can arise: first those that depend on
    each other, and small ones before large ones. A subtask with a tool is one call and is never
    merged. References then point to the whole result of the merged subtask.

    Example:
        >>> steps = [Subtask(f"s{n}", f"Step {n}", after=[f"s{n - 1}"][:n]) for n in range(4)]
        >>> print(merge(Plan("", steps), 1).subtasks[0].goal)
        Do these one after the other:
        1. Step 0
        2. Step 1
        3. Step 2
        4. Step 3
    """
    kept = [[plan[id_]] for id_ in plan.order() if id_ in done]
    groups = [[plan[id_]] for id_ in plan.order() if id_ not in done]
    while len(groups) > max_subtasks:
        prices = []
        for at, (first, second) in enumerate(pairwise(groups)):
            is_call = first[0].tool or second[0].tool
            if not is_call and first[0].capability == second[0].capability:
                ids = {subtask.id for subtask in first}
                is_chain = any(ids.intersection(subtask.after) for subtask in second)
                prices.append((not is_chain, len(first) + len(second), at))
        if not prices:
            break
        at = min(prices)[-1]
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    names = {each.id: group[0].id for group in (*kept, *groups) for each in group}
    return Plan(plan.goal, tuple(_merge_group(group, names) for group in (*kept, *groups)))


def _merge_group(group: Sequence[Subtask], names: dict[str, str]) -> Subtask:
    """Return the subtask that replaces a group, with the ids of the new plan."""
    steps = {subtask.id: number for number, subtask in enumerate(group, 1)}
    sizes = [*names.values()]

    def write(name: str, path: str) -> str:
        if len(group) > 1 and name in steps:
            return f"the result of step {steps[name]}"
        if name not in names:
            return f"{{{name}{path}}}"
        is_whole = sizes.count(names[name]) > 1
        return f"{{{names[name]}}}" if is_whole else f"{{{name}{path}}}"

    first = group[0]
    expected = [each.expected for each in group if each.expected]
    goals = [str(map_references(subtask.goal, write)) for subtask in group]
    after = {names[each] for subtask in group for each in subtask.after} - {first.id}
    listed = "\n".join(f"{number}. {goal}" for number, goal in enumerate(goals, 1))
    return Subtask(
        first.id,
        f"Do these one after the other:\n{listed}" if len(group) > 1 else goals[0],
        after=tuple(sorted(after)),
        tool=first.tool,
        arguments={key: map_references(each, write) for key, each in first.arguments.items()},
        critical=any(subtask.critical for subtask in group),
        capability=first.capability,
        expected="; ".join(expected),
    )
