"""What a reply can come to, and what of that an object says.

An object that means a call has a tool and its arguments, by one of the names that models use for them; it
may stand in another object. Most objects in a text are about something else.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from greenroom.core import Wire, serde
from greenroom.planning.almost_json import Broken, Object, read_object

__all__ = [
    "NO_ANSWER",
    "NO_TOOL",
    "Action",
    "Fault",
    "FinalAnswer",
    "Outcome",
    "action_of",
    "find_meaning",
    "is_call_of",
]


class Action(Wire, frozen=True, tag="action"):
    """The model calls a tool.

    Attributes:
        tool: the tool's name, as the model wrote it.
        arguments: what it is called with. What came as a plain text is the argument "input".
        thought: what the model said before; may be empty.
    """

    tool: str
    arguments: dict[str, object] = {}
    thought: str = ""


class FinalAnswer(Wire, frozen=True, tag="final_answer"):
    """The model answers: all that stands behind "Final Answer:", and what it said before."""

    text: str
    thought: str = ""


class Fault(Wire, frozen=True, tag="fault"):
    """The reply can't be read: why, in words for the model that wrote it."""

    reason: str
    thought: str = ""


Outcome: TypeAlias = Action | FinalAnswer | Fault
"""What a reply comes to."""


NO_ANSWER = "nothing stands behind its Final Answer"
NO_ARGUMENTS = 'its action needs "arguments", one object'
NO_TOOL = 'its action names no "tool"'
_CUT = "a text does not end: its closing quote is missing"

_TOOLS = ("tool", "tool_name", "action", "function_name", "name", "function")
_ARGUMENTS = (
    *("arguments", "args", "action_input", "tool_input", "tool_args", "parameters"),
    *("params", "kwargs", "input"),
)
_CERTAIN = {"tool", "tool_name", "action", *_ARGUMENTS[:6]}
"""What an object that is about something else hardly has: both of these, or one and nothing besides."""

_BESIDE = {"thought", "thoughts", "reasoning", "id", "type", "call_id"}
_ANSWERS = ("final_answer", "answer")
_ALMOST = re.compile(r"\w+\s*=\s*[\"'\d\[{]|\w+:[^\n]*\n\s*\w+:")
"""A text that is arguments rather than one of them."""

_AROUND = ("tool_call", "function_call", "tool_calls", "function", "tool", "action", "command")
"""What an object may stand in that means a call."""


def find_meaning(
    value: Mapping[str, object], *, is_labelled: bool, levels: int = 3
) -> Outcome | None:
    """Say what an object means; None where it is about something else."""
    fields = {_plain(key): item for key, item in value.items()}
    thought = next(
        (t for key in ("thought", "thoughts", "reasoning") if (t := fields.get(key))), ""
    )
    said = thought if isinstance(thought, str) else ""
    given = [key for key in _ARGUMENTS if key in fields]
    for around in _AROUND if levels else ():
        inner = fields.get(around)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and given:
            fields[around] = inner.get("name")  # of which the arguments stand beside it
        elif isinstance(inner, dict):
            found = find_meaning(inner, is_labelled=is_labelled, levels=levels - 1)
            return found and replace(found, thought=found.thought or said)
    tool = next((key for key in _TOOLS if isinstance(fields.get(key), str)), "")
    arguments = given[0] if given else ""
    name = str(fields.get(tool, "")).strip()
    answer = _final(fields, name.casefold(), arguments, is_labelled=is_labelled)
    if answer is not None:
        return FinalAnswer(answer, said) if answer.strip() else Fault(NO_ANSWER)
    if not tool:
        return None
    is_alone = not set(fields) - {tool, arguments, *_BESIDE}
    certain = len({tool, arguments} & _CERTAIN)
    is_certain = certain == 2 or (certain == 1 and is_alone and bool(arguments))
    if not is_labelled and not is_certain:
        return None
    if len({*given} & _CERTAIN) > 1 or not (arguments or is_alone):
        return Fault(NO_ARGUMENTS)
    found = action_of(name, fields.get(arguments))
    return replace(found, thought=said)


def is_call_of(value: Mapping[str, object], tool: str) -> bool:
    """Whether an object that stands behind a tool's name is the whole call, not only its arguments."""
    names = {_plain(key) for key in value} - _BESIDE
    return len(names & _CERTAIN) == 2 == len(names) or tool in map(value.get, _TOOLS)


def _plain(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")


def _only(fields: Mapping[str, object]) -> str:
    """Return the one field that an object has besides thoughts and ids, if it has one."""
    names = set(fields) - _BESIDE
    return names.pop() if len(names) == 1 else ""


def _final(
    fields: Mapping[str, object], tool: str, arguments: str, *, is_labelled: bool
) -> str | None:
    """Return the answer that an object gives, if it does."""
    if tool == "final answer":
        answer = fields.get(arguments) if arguments else fields.get("answer")
    elif tool == "final" and "answer" in fields:
        answer = fields["answer"]
    elif not tool and (name := _only(fields)) in _ANSWERS[: 2 if is_labelled else 1]:
        answer = fields[name]
    else:
        return None
    if isinstance(answer, dict) and len(answer) == 1:
        answer = next(iter(answer.values()))
    return answer if isinstance(answer, str) else serde.dumps(answer).decode()


def action_of(tool: str, given: object) -> Action | Fault:
    """Make the action of arguments, which may be an object, its JSON, or a plain text."""
    if not tool:
        return Fault(NO_TOOL)
    if isinstance(given, dict):
        return Action(tool, given)
    if given is not None and not isinstance(given, str):
        return Fault(NO_ARGUMENTS)
    text = "" if given in {None, "None", "null"} else given.strip()
    if _ALMOST.match(text):
        return Fault(NO_ARGUMENTS)
    if text.startswith("{"):
        found = read_object(text, 1)
        if isinstance(found, Object) and found.end == len(text):
            return Action(tool, found.value)
        return Fault(found.reason if isinstance(found, Broken) else NO_ARGUMENTS)
    if text[:1] in {"'", '"'}:
        if len(text) < 2 or text[-1] != text[0]:
            return Fault(_CUT)
        text = text[1:-1]
    return Action(tool, {"input": text} if text else {})
