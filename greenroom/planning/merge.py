"""Merge subtasks that one agent can do together, if a plan has too many."""

from collections.abc import Collection, Sequence

from greenroom.planning.plan import Plan, Subtask
from greenroom.planning.references import map_references


def merge(plan: Plan, limit: int, done: Collection[str] = ()) -> Plan:
    """Return the plan with at most `limit` subtasks that are not done, if possible.

    Neighbours in the plan's order are merged, so no cycle can arise: first those that depend on
    each other, and small ones before large ones. A subtask with a tool is one call and is never
    merged. References then point to the whole result of the merged subtask.

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
