"""Tool calls as models send them and as strict APIs accept them: arguments, ids, names, and tools.

A model may call a name that no tool can have, such as `multi_tool_use.parallel`, and some servers
count calls from `call_0` again in each reply. `PortableCalls` makes a history with such calls
acceptable.

A tool whose name has dots, such as `fs.read`, is sent as `fs__read`, and the name in a reply is put
back by `restore_names`. Only the tools of the request tell which names that concerns: `__` may be a
tool's own.
"""

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
    """The ids of the calls of one reply: each is used once, and a missing one is replaced.

    Example:
        >>> ids = CallIds()
        >>> ids.claim("call_0"), ids.claim("call_0") == "call_0"
        ('call_0', False)
    """

    def __init__(self) -> None:
        """Begin a reply."""
        self._used_ids: set[str] = set()

    def claim(self, call_id: str) -> str:
        """Return the id if it is usable, else a new one."""
        unique = call_id if call_id and call_id not in self._used_ids else new_id("call")
        self._used_ids.add(unique)
        return unique


def tool_use(
    call_id: str, name: str, arguments: str, extra: dict[str, object] | None = None
) -> ToolUseBlock:
    """Make a call from its argument text; a text that can't be used makes the call invalid.

    Arguments that can't be sent back, such as a number of thirty digits, are invalid too: they
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
    """Mark a call as cut off by the limit of the reply, so that it does not run with half its arguments.

    Example:
        >>> cut_off(ToolUseBlock("t1", "Read")).invalid
        'the reply was cut off by max_tokens'
    """
    return replace(call, invalid="the reply was cut off by max_tokens")


PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
"""The characters that a name can't have, and with the strictest APIs an id neither."""


@dataclass(frozen=True, kw_only=True)
class CallRules:
    """The ids and names of calls that an API accepts; an acceptable id is left as it is.

    Attributes:
        forbidden: characters that an id can't have; each becomes `_`.
        longest_id: the most characters of an id, or None.
        id_length: how many letters and digits, and nothing else, an id must have; None: any number.
        longest_name: the most characters of a name.
    """

    forbidden: re.Pattern[str] | None = None
    longest_id: int | None = None
    id_length: int | None = None
    longest_name: int = 64

    def id_for(self, call_id: str, number: int) -> str:
        """Return the acceptable id that is closest to this one; each number makes a different one.

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
    """Renames calls that an API would refuse, turn by turn; a later turn changes no earlier name.

    A call and its result keep a common id. If several calls have the same id, a result belongs to
    the first of them, in the turn before it, that has no result yet.

    Args:
        rules: what the API accepts.

    Example:
        >>> calls = (ToolUseBlock("a.b", "multi_tool_use.parallel"), ToolUseBlock("a_b", ""))
        >>> for call in PortableCalls(CallRules(forbidden=PLAIN)).rename(Turn("assistant", calls)).blocks:
        ...     print(call.id, call.name)
        a_b multi_tool_use__parallel
        a_b_2 unnamed
    """

    def __init__(self, rules: CallRules, base: "PortableCalls | None" = None) -> None:
        """Begin a conversation, or continue that of `base` without changing it."""
        self._rules = rules
        # The ids in use, each with the number of further calls that asked for it.
        self._new_ids: dict[str, int] = {}
        self._new_last_ids: dict[str, str] = {}
        self._used_ids: MutableMapping[str, int] = self._new_ids
        self._last_ids: MutableMapping[str, str] = self._new_last_ids
        self._open_ids: defaultdict[str, deque[str]] = defaultdict(deque)
        if base is not None:
            self._used_ids = ChainMap(self._new_ids, base._used_ids)
            self._last_ids = ChainMap(self._new_last_ids, base._last_ids)
            self._open_ids.update((key, ids.copy()) for key, ids in base._open_ids.items())

    def branch(self) -> "PortableCalls":
        """Return a copy that can rename a provisional turn without changing this one."""
        return PortableCalls(self._rules, self)

    def merge(self, branch: "PortableCalls") -> None:
        """Take over the names that a branch of this one has given."""
        self._used_ids.update(branch._new_ids)
        self._last_ids.update(branch._new_last_ids)
        self._open_ids = branch._open_ids

    def rename(self, turn: Turn) -> Turn:
        """Return the next turn as it may be sent."""
        if turn.role == "assistant":
            self._open_ids.clear()
        return dataclasses.replace(turn, blocks=tuple(map(self._rename_block, turn.blocks)))

    def _rename_block(self, block: ContentBlock) -> ContentBlock:
        match block:
            case ToolUseBlock():
                name = (
                    PLAIN.sub("_", portable_name(block.name))[: self._rules.longest_name]
                    or "unnamed"
                )
                return replace(block, id=self._call_id(block.id), name=name)
            case ToolResultBlock():
                return replace(block, tool_use_id=self._result_id(block.tool_use_id))
            case _:
                return block

    def _call_id(self, call_id: str) -> str:
        """Return a unique id for a call, as close as possible to its own."""
        unique = preferred = self._rules.id_for(call_id, 0)
        while unique in self._used_ids:
            self._used_ids[preferred] += 1
            unique = self._rules.id_for(call_id, self._used_ids[preferred])
        self._used_ids[unique] = 0
        self._last_ids[call_id] = unique
        self._open_ids[call_id].append(unique)
        return unique

    def _result_id(self, call_id: str) -> str:
        if self._open_ids[call_id]:
            return self._open_ids[call_id].popleft()
        return self._last_ids.get(call_id) or self._call_id(call_id)


def dotted_names(tools: Iterable[ToolDefinition]) -> Mapping[str, str]:
    """Return the tool names with dots, by the names that a model sees.

    Raises:
        ModelBadRequestError: two tools would have the same name.

    Example:
        >>> dotted_names([ToolDefinition("fs.read", "", {}), ToolDefinition("mcp__a__b", "", {})])
        {'fs__read': 'fs.read'}
    """
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(portable_name(tool.name), tool.name)
        if other != tool.name:
            raise ModelBadRequestError(
                f"the tools {other} and {tool.name} have the same name in a request",
                hint="a dot is sent as two underscores; rename one of them",
            )
    return {portable: name for portable, name in names.items() if portable != name}


def restore_names(event: StreamEvent, names: Mapping[str, str]) -> StreamEvent:
    """Put the names with dots back into an event of a reply."""
    match event:
        case BlockEnd(_, block):
            return replace(event, block=_restore_name(block, names))
        case StreamEnd(message) if any(call.name in names for call in message.tool_uses):
            content = tuple(_restore_name(block, names) for block in message.content)
            return replace(event, message=replace(message, content=content))
        case _:
            return event


def _restore_name(block: ContentBlock, names: Mapping[str, str]) -> ContentBlock:
    if isinstance(block, ToolUseBlock) and block.name in names:
        return replace(block, name=names[block.name])
    return block


def merge_tools(
    typed: Sequence[dict[str, object]], options: Mapping[str, object]
) -> dict[str, object]:
    """Merge the tools of a request with those of its options; return its field `tools`, if it has any.

    A tool of the options with the name of a typed tool adds its fields to that one (to its
    `function`, if the API wraps tools so), which moves to its place in the list; typed tools that
    the options do not name come first. Options that are not a list of objects, such as
    `msgspec.UNSET`, replace all tools.

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
