"""Fewer subtasks out of many: steps that one agent can do in one go become one subtask."""

from collections.abc import Collection, Sequence

from greenroom.planning.plan import Plan, Subtask
from greenroom.planning.references import map_references


def merge(plan: Plan, limit: int, done: Collection[str] = ()) -> Plan:
    """Return the plan with at most so many subtasks beside those that are done, as far as that can be.

    Neighbours in the plan's order become one, first those of which one waits for the other, and small
    ones before large ones; so no cycle can come of it. A subtask with a tool is one call, and stays.
    References lead to the merged subtask, whose result is a whole.

    Example:
        >>> steps = [Subtask(f"s{n}", f"Step {n}", after=[f"s{n - 1}"] if n else []) for n in range(4)]
        >>> print(merge(Plan("", steps), 1).subtasks[0].goal)
        Do these one after the other:
        1. Step 0
        2. Step 1
        3. Step 2
        4. Step 3
    """
    kept = [[plan[id_]] for id_ in plan.order() if id_ in done]
    groups = [[plan[id_]] for id_ in plan.order() if id_ not in done]
    while len(groups) > limit:
        last = len(groups) - 1
        pairs = [n for n in range(last) if _may_merge(groups[n][0], groups[n + 1][0])]
        if not pairs:
            break
        at = min(pairs, key=lambda n: _price(groups[n], groups[n + 1]))
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    names = {each.id: group[0].id for group in (*kept, *groups) for each in group}
    return Plan(plan.goal, tuple(_merge_group(group, names) for group in (*kept, *groups)))


def _may_merge(first: Subtask, second: Subtask) -> bool:
    is_call = first.tool or second.tool
    return not is_call and first.capability == second.capability


def _price(first: Sequence[Subtask], second: Sequence[Subtask]) -> tuple[bool, int]:
    ids = {subtask.id for subtask in first}
    is_chain = any(ids.intersection(subtask.after) for subtask in second)
    return not is_chain, len(first) + len(second)


def _merge_group(group: Sequence[Subtask], names: dict[str, str]) -> Subtask:
    """Return the one subtask that a group becomes, with the ids that hold in the new plan."""
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
    )
