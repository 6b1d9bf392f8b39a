"""References to results: `{flight.price}` in the goal or the arguments of a subtask."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec.structs import replace

from greenroom.core._internal import InvalidJSONError, serde
from greenroom.flow.errors import PlanError
from greenroom.flow.graph import find_reachable
from greenroom.flow.plan import Subtask
from greenroom.flow.plan_run import UNKNOWN, PlanRun

_REFERENCE = re.compile(r"\{\{([\w-]+(?:\.[\w-]+)*)\}\}|\{([\w-]+)((?:\.[\w-]+)*)\}")
_UNKNOWN = "(not known)"
_INDEX = re.compile(r"[0-9]{1,9}")
_NUMBERS = ("integer", "number", "boolean")


def read_value(text: str) -> object:
    """Decode a text that is a JSON object or list; return any other text unchanged."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return serde.loads(text)
    except InvalidJSONError:
        return text


def fill(subtask: Subtask, run: PlanRun, types: Mapping[str, object]) -> Subtask:
    """Return the subtask with its references replaced by results.

    An argument that is a single reference becomes the result itself, such as a number or a list;
    within a text, the result is written out. `{name}` is left alone if no subtask has that name,
    and `{{name.field}}` escapes the braces. A result that is not known is None, and "(not known)"
    within a text.

    Args:
        subtask: a subtask of the run's plan.
        run: the run with the results.
        types: the JSON Schema type of each argument, if known.

    Raises:
        PlanError: a reference names an unknown subtask, one that this subtask does not wait for, or
            a field that its result does not have.
    """
    results = _Results(subtask, run)
    arguments = {
        name: _as_type(_map_texts(value, results.value), types.get(name))
        for name, value in subtask.arguments.items()
    }
    return replace(subtask, goal=results.text(subtask.goal), arguments=arguments)


def map_references(value: object, write: Callable[[str, str], str]) -> object:
    """Return a value with each reference replaced by `write(name, path)`."""

    def write_all(text: str) -> str:
        return _REFERENCE.sub(lambda m: write(m[2], m[3]) if m[2] else m[0], text)

    return _map_texts(value, write_all)


def _map_texts(value: object, change: Callable[[str], object]) -> object:
    """Return a value with each text in it changed, at any depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(each, change) for each in value]
    return value


def references_in(value: object) -> tuple[tuple[str, str], ...]:
    """Return the name and the path of each reference in a value, the path without its first dot."""
    found: list[tuple[str, str]] = []

    def collect(name: str, path: str) -> str:
        found.append((name, path.removeprefix(".")))
        return ""

    map_references(value, collect)
    return tuple(found)


class _Results:
    """The results that one subtask may refer to."""

    def __init__(self, subtask: Subtask, run: PlanRun) -> None:
        self._subtask = subtask
        self._id = subtask.id
        self._run = run

    @cached_property
    def _dependencies(self) -> set[str]:
        """The ids of all direct and indirect dependencies."""
        after = {each.id: each.after for each in (*self._run.plan.subtasks, self._subtask)}
        return find_reachable(self._id, after) - {self._id}

    def text(self, text: str) -> str:
        return _REFERENCE.sub(self._render, text)

    def value(self, text: str) -> object:
        """Return a text of an argument with its references replaced, or just a result."""
        whole = _REFERENCE.fullmatch(text)
        return self._look_up(whole) if whole and self._is_reference(whole) else self.text(text)

    def _is_reference(self, match: re.Match[str]) -> bool:
        """Whether this is a reference; a name in braces alone may be anything."""
        return bool(match[2]) and (bool(match[3]) or match[2] in self._run.plan)

    def _render(self, match: re.Match[str]) -> str:
        if not self._is_reference(match):
            return match[0][1:-1] if match[1] else match[0]
        found = self._look_up(match)
        return _UNKNOWN if found is None and self._is_unknown(match[2]) else serde.to_text(found)

    def _is_unknown(self, name: str) -> bool:
        return self._run.state(name).error == UNKNOWN

    def _look_up(self, match: re.Match[str]) -> object:
        name, path = match[2], match[3].split(".")[1:]
        if name not in self._run.plan:
            hint = f"{self._id} waits for {', '.join(sorted(self._dependencies)) or 'nothing'}"
            raise PlanError(f"{match[0]}: the plan has no subtask {name!r}", hint=hint)
        if name not in self._dependencies:
            hint = f"add {name!r} to `after` of {self._id}"
            raise PlanError(f"{match[0]}: {self._id} does not wait for {name}", hint=hint)
        if self._is_unknown(name):
            return None
        found = self._run.state(name).result
        for field in path:
            found = _get_field(found, field, match[0], name)
        return found


def _get_field(value: object, field: str, reference: str, name: str) -> object:
    if isinstance(value, str):
        value = read_value(value)
    if isinstance(value, dict) and field in value:
        return value[field]
    if isinstance(value, list) and _INDEX.fullmatch(field) and int(field) < len(value):
        return value[int(field)]
    if isinstance(value, dict):
        has = f"it has {', '.join(map(str, value)) or 'no fields'}"
    elif isinstance(value, list):
        has = f"it is a list of {len(value)} items"
    else:
        has = "it is a text" if isinstance(value, str) else f"it is {serde.dumps(value).decode()}"
    raise PlanError(f"{reference}: the result of {name} has no field {field!r}", hint=has)


def _as_type(value: object, kind: object) -> object:
    """Convert a text to a number or boolean if the tool expects one."""
    if not isinstance(value, str) or kind not in _NUMBERS:
        return value
    try:
        found = serde.loads(value)
    except InvalidJSONError:
        return value
    return found if isinstance(found, bool | int | float) else value
