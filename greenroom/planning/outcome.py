"""The possible meanings of a reply, and how to find the meaning of a JSON object.

An object that means a call has a tool and its arguments, under one of the names that models use for
them; it may be nested in another object. Most objects in a text mean something else.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from greenroom.core import Wire, serde
from greenroom.planning.almost_json import BrokenObject, Object, read_object


class Action(Wire, frozen=True, tag="action"):
    """The model calls a tool.

    Attributes:
        tool: the tool's name, as the model wrote it.
        arguments: its arguments; a plain text becomes the argument "input".
        thought: what the model said before, if anything.
    """

    tool: str
    arguments: dict[str, object] = {}
    thought: str = ""


class FinalAnswer(Wire, frozen=True, tag="final_answer"):
    """The model answers: everything after "Final Answer:", and what it said before."""

    text: str
    thought: str = ""


class Fault(Wire, frozen=True, tag="fault"):
    """The reply can't be parsed: the reason, worded for the model that wrote it."""

    reason: str
    thought: str = ""


Outcome: TypeAlias = Action | FinalAnswer | Fault
"""The meaning of a reply."""


NO_ANSWER = "nothing follows its Final Answer"
NO_ARGUMENTS = 'its action needs "arguments", one object'
NO_TOOL = 'its action names no "tool"'
_CUT = "a text does not end: its closing quote is missing"

_TOOLS = ("tool", "tool_name", "action", "function_name", "name", "function")
_ARGUMENTS = (
    *("arguments", "args", "action_input", "tool_input", "tool_args", "parameters"),
    *("params", "kwargs", "input"),
)
_CERTAIN = {"tool", "tool_name", "action", *_ARGUMENTS[:6]}
"""Names that identify a call: an unrelated object hardly has two of them, or one and nothing else."""

_THOUGHTS = ("thought", "thoughts", "reasoning")
_OTHER_FIELDS = {*_THOUGHTS, "id", "type", "call_id"}
_ALMOST = re.compile(r"\w+\s*=\s*[\"'\d\[{]|\w+:[^\n]*\n\s*\w+:")
"""A text that looks like several arguments instead of one."""

_WRAPPERS = ("tool_call", "function_call", "tool_calls", "function", "tool", "action", "command")
"""Fields that may wrap a call."""


def interpret(value: Mapping[str, object], *, is_labelled: bool, levels: int = 3) -> Outcome | None:
    """Return what an object means, or None if it is unrelated."""
    fields = {_plain(key): item for key, item in value.items()}
    said = next((t for key in _THOUGHTS if isinstance(t := fields.get(key), str)), "")
    given = [key for key in _ARGUMENTS if key in fields]
    for around in _WRAPPERS if levels else ():
        inner = fields.get(around)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and given:
            fields[around] = inner.get("name")  # of which the arguments are beside it
        elif isinstance(inner, dict):
            found = interpret(inner, is_labelled=is_labelled, levels=levels - 1)
            return found and replace(found, thought=found.thought or said)
    tool = next((key for key in _TOOLS if isinstance(fields.get(key), str)), "")
    arguments = given[0] if given else ""
    name = str(fields.get(tool, "")).strip()
    others = set(fields) - _OTHER_FIELDS
    if others == {"final_answer"} or (is_labelled and others == {"answer"}):
        return _make_answer(fields[others.pop()], said)
    if name.casefold() in {"final", "final answer"} and "answer" in fields:
        return _make_answer(fields["answer"], said)
    if name.casefold() == "final answer":
        return _make_answer(fields.get(arguments), said)
    is_alone = others <= {tool, arguments}
    certain = len({tool, arguments} & _CERTAIN)
    is_certain = certain == 2 or (certain == 1 and is_alone and bool(arguments))
    if not tool or not (is_labelled or is_certain):
        return None
    if len({*given} & _CERTAIN) > 1 or not (arguments or is_alone):
        return Fault(NO_ARGUMENTS)
    return replace(make_action(name, fields.get(arguments)), thought=said)


def _make_answer(answer: object, thought: str) -> FinalAnswer | Fault:
    """Return the final answer in an object."""
    if isinstance(answer, dict) and len(answer) == 1:
        answer = next(iter(answer.values()))
    text = answer if isinstance(answer, str) else serde.dumps(answer).decode()
    return FinalAnswer(text, thought) if text.strip() else Fault(NO_ANSWER)


def is_call_of(value: Mapping[str, object], tool: str) -> bool:
    """Whether an object after a tool's name is the whole call, not only its arguments."""
    names = {_plain(key) for key in value} - _OTHER_FIELDS
    return len(names & _CERTAIN) == 2 == len(names) or tool in map(value.get, _TOOLS)


def _plain(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")


def make_action(tool: str, given: object) -> Action | Fault:
    """Return the action for arguments given as an object, as JSON, or as plain text."""
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
        return Fault(found.reason if isinstance(found, BrokenObject) else NO_ARGUMENTS)
    if text[:1] in {"'", '"'}:
        if len(text) < 2 or text[-1] != text[0]:
            return Fault(_CUT)
        text = text[1:-1]
    return Action(tool, {"input": text} if text else {})
