"""Tool calls as models send them and as strict APIs take them: arguments, ids, names, and the list of tools."""

import dataclasses
import hashlib
import re
from collections import ChainMap, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    InvalidJSONError,
    Message,
    ModelBadRequestError,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    new_id,
    portable_name,
    serde,
    valid_unicode,
)
from greenroom.llm.conversation import Turn
from greenroom.llm.json_fields import DEPTH, extend, mapping, text
from greenroom.llm.stream import BlockEnd, StreamEnd, StreamEvent

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class CallIds:
    """The ids of the calls of one reply: each is used once, and one is made where there is none.

    Example:
        >>> ids = CallIds()
        >>> ids.take("call_0"), ids.take("call_0") == "call_0"
        ('call_0', False)
    """

    def __init__(self) -> None:
        """Begin a reply without calls."""
        self._taken: set[str] = set()

    def take(self, offered: str) -> str:
        """Return the offered id if it is usable, else a new one."""
        taken = offered if offered and offered not in self._taken else new_id("call")
        self._taken.add(taken)
        return taken


def tool_use(
    call_id: str, name: str, arguments: str, extra: dict[str, object] | None = None
) -> ToolUseBlock:
    """Make a call of its argument text; text that can't be used makes it invalid, never an error.

    What could not be written back, such as a number of thirty digits, counts as invalid too: it
    would make every later request fail.

    Example:
        >>> tool_use("t1", "Read", '{"file_path": "a.py"}').input
        {'file_path': 'a.py'}
        >>> tool_use("t1", "Read", '{"file_pa').invalid[:18]
        'not usable as JSON'
    """
    try:
        parsed = serde.loads_object(arguments, DEPTH)
        serde.dumps(parsed)
    except InvalidJSONError as error:
        return ToolUseBlock(
            call_id,
            name,
            invalid=valid_unicode(error.message),
            raw_input=valid_unicode(arguments),
            extra=extra or {},
        )
    return ToolUseBlock(call_id, name, parsed, extra=extra or {})


def cut_off(call: ToolUseBlock) -> ToolUseBlock:
    """Mark the call in which the reply reached its limit; it must not run with half its arguments.

    Example:
        >>> cut_off(ToolUseBlock("t1", "Read")).invalid
        'the reply was cut off by max_tokens'
    """
    return replace(call, invalid="the reply was cut off by max_tokens")


# ---- Tool calls as strict APIs take them: names and ids in their alphabet, and each id used once.
#
# A model may call what no tool can be named, such as `multi_tool_use.parallel`, and servers begin to
# count at `call_0` again with each reply. In a history both would be refused for ever.

PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
"""The characters that neither a name nor, for the strictest, an id may hold."""


@dataclass(frozen=True, kw_only=True)
class CallRules:
    """What an API takes as a call's id and name; an id that it takes stays as it came.

    Attributes:
        forbidden: characters that an id may not hold; each becomes `_`.
        longest_id: the most characters of an id, or None.
        id_length: how many letters and digits every id must have, and nothing else; None: any number.
        longest_name: the most characters of a name.
    """

    forbidden: re.Pattern[str] | None = None
    longest_id: int | None = None
    id_length: int | None = None
    longest_name: int = 64

    def id_for(self, call_id: str, number: int) -> str:
        """Return an id that is as close as can be to the wanted one; each number gives another.

        Example:
            >>> CallRules(longest_id=8).id_for("call_0123456", 1)
            'call_0_2'
            >>> CallRules(id_length=9).id_for("call_0123456", 0)
            '8332b9731'
        """
        suffix = f"_{number + 1}" if number else ""
        if self.id_length is not None:
            if not suffix and re.fullmatch(rf"[a-zA-Z0-9]{{{self.id_length}}}", call_id):
                return call_id
            digest = hashlib.blake2b((call_id + suffix).encode(errors="replace"))
            return digest.hexdigest()[: self.id_length]
        plain = self.forbidden.sub("_", call_id) if self.forbidden else call_id
        most = None if self.longest_id is None else self.longest_id - len(suffix)
        return (plain or "call")[:most] + suffix


class PortableCalls:
    """Renames what an API would refuse, turn by turn; what comes later changes no earlier name.

    A call and its result keep a common id. Where an id comes again, a result belongs to the first
    call of the turn before it that has none yet.

    Args:
        rules: what the API takes.

    Example:
        >>> calls = (ToolUseBlock("a.b", "multi_tool_use.parallel"), ToolUseBlock("a_b", ""))
        >>> for call in PortableCalls(CallRules(forbidden=PLAIN)).rename(Turn("assistant", calls)).blocks:
        ...     print(call.id, call.name)
        a_b multi_tool_use__parallel
        a_b_2 unnamed
    """

    def __init__(self, rules: CallRules, base: "PortableCalls | None" = None) -> None:
        """Begin a conversation, or go on with the one of `base`, which stays as it is."""
        self._rules = rules
        # The ids that are in use, each with how many more calls were to get it.
        self._new_taken: dict[str, int] = {}
        self._new_latest: dict[str, str] = {}
        self._taken: MutableMapping[str, int] = self._new_taken
        self._latest: MutableMapping[str, str] = self._new_latest
        self._unanswered: defaultdict[str, deque[str]] = defaultdict(deque)
        if base is not None:
            self._taken = ChainMap(self._new_taken, base._taken)
            self._latest = ChainMap(self._new_latest, base._latest)
            self._unanswered.update((key, ids.copy()) for key, ids in base._unanswered.items())

    def branch(self) -> "PortableCalls":
        """Return what can rename a turn that is not settled yet, and leaves this one as it is."""
        return PortableCalls(self._rules, self)

    def merge(self, branch: "PortableCalls") -> None:
        """Go on from where a branch of this one is."""
        self._taken.update(branch._new_taken)
        self._latest.update(branch._new_latest)
        self._unanswered = branch._unanswered

    def rename(self, turn: Turn) -> Turn:
        """Return the next turn as it may be sent."""
        if turn.role == "assistant":
            self._unanswered.clear()
        return dataclasses.replace(turn, blocks=tuple(map(self._rename_block, turn.blocks)))

    def _rename_block(self, block: ContentBlock) -> ContentBlock:
        match block:
            case ToolUseBlock():
                name = (
                    PLAIN.sub("_", portable_name(block.name))[: self._rules.longest_name]
                    or "unnamed"
                )
                return replace(block, id=self._call(block.id), name=name)
            case ToolResultBlock():
                return replace(block, tool_use_id=self._result(block.tool_use_id))
            case _:
                return block

    def _call(self, call_id: str) -> str:
        given = self._free(call_id)
        self._latest[call_id] = given
        self._unanswered[call_id].append(given)
        return given

    def _result(self, call_id: str) -> str:
        if self._unanswered[call_id]:
            return self._unanswered[call_id].popleft()
        return self._latest.get(call_id) or self._call(call_id)

    def _free(self, call_id: str) -> str:
        """Return an id that no other call has, as close as can be to what it was."""
        given = wanted = self._rules.id_for(call_id, 0)
        while given in self._taken:
            self._taken[wanted] += 1
            given = self._rules.id_for(call_id, self._taken[wanted])
        self._taken[given] = 0
        return given


# ---- Names with dots, such as `fs.read`: what a model calls `fs__read` is given its own name again.
#
# Requests are written with `portable_name`, in the tools, the choice of a tool and the calls of the history.
# Only the tools of the request say what a name in the reply stands for, since `__` may stand for itself.


def dotted_names(tools: Iterable[ToolDefinition]) -> Mapping[str, str]:
    """Return the names that have dots, by what a model calls them.

    Raises:
        ModelBadRequestError: two tools would have one name.

    Example:
        >>> dotted_names([ToolDefinition("fs.read", "", {}), ToolDefinition("mcp__a__b", "", {})])
        {'fs__read': 'fs.read'}
    """
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(portable_name(tool.name), tool.name)
        if other != tool.name:
            raise ModelBadRequestError(
                f"the tools {other} and {tool.name} are one name to a model",
                hint="a dot is written as two underscores; rename one of them",
            )
    return {portable: name for portable, name in names.items() if portable != name}


def restore_names(event: StreamEvent, names: Mapping[str, str]) -> StreamEvent:
    """Return an event of a reply in which tools have their own names."""
    match event:
        case BlockEnd(_, ToolUseBlock() as call):
            return replace(event, block=_restore(call, names))
        case StreamEnd(message) if any(call.name in names for call in message.tool_uses):
            return replace(event, message=_restore_message(message, names))
        case _:
            return event


def _restore_message(message: Message, names: Mapping[str, str]) -> Message:
    return replace(message, content=tuple(_restore(block, names) for block in message.content))


def _restore(block: ContentBlock, names: Mapping[str, str]) -> ContentBlock:
    if isinstance(block, ToolUseBlock) and block.name in names:
        return replace(block, name=names[block.name])
    return block


# ---- The tools of a request: those that we run, and what its options say of tools.


def merge_tools(
    typed: Sequence[dict[str, object]], options: Mapping[str, object]
) -> dict[str, object]:
    """Return the field `tools` of a request, or nothing where it has none.

    The tools of the options join the typed ones. One with the name of a typed tool adds its fields to
    it (to its `function`, where the API wraps tools so), and gives it its place in the list; typed tools
    that are not named come first.
    What is not a list of objects, such as `msgspec.UNSET`, replaces them all.

    Example:
        >>> search = {"type": "web_search_20260318", "name": "web_search"}
        >>> merge_tools([{"name": "Read"}], {"tools": [search, {"name": "Read", "strict": True}]})
        {'tools': [{'type': 'web_search_20260318', 'name': 'web_search'}, {'name': 'Read', 'strict': True}]}
    """
    given = options.get("tools")
    if given is None and "tools" not in options:
        return {"tools": list(typed)} if typed else {}
    if not isinstance(given, Sequence) or not all(isinstance(tool, Mapping) for tool in given):
        return {"tools": given}
    named = {_name(tool): tool for tool in typed}
    rest = [named.get(_name(tool), {}) for tool in given]
    first = [tool for tool in typed if all(tool is not each for each in rest)]
    return {"tools": [*first, *map(_merge, rest, given)]}


def _merge(typed: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    if "function" in typed and "function" not in given:
        given = {"function": given}
    return extend(typed, given)


def _name(tool: Mapping[str, object]) -> str:
    return text(tool.get("name")) or text(mapping(tool.get("function")).get("name"))
