"""Tool calls as models send them and as strict APIs accept them: arguments, ids, names, and tools.

A model may call a name that no tool can have, such as `multi_tool_use.parallel`, and some servers
begin each reply at `call_0` again. `PortableCalls` makes a history with such calls acceptable.

A tool whose name has dots, such as `fs.read`, is sent as `fs__read`; `restore_names` puts the dots
back in the reply. A name may have `__` of its own, so only the request's tools tell which to
restore.
"""

import hashlib
import re
from collections import ChainMap, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    StopReason,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import (
    EMPTY,
    InvalidJSONError,
    compile_later,
    new_id,
    portable_name,
    serde,
    valid_unicode,
)
from greenroom.llm.json_fields import DEPTH, as_dict, as_text, extend
from greenroom.llm.merged_messages import MergedMessage
from greenroom.llm.model_errors import ModelBadRequestError
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
        self._used_ids: set[str] = set()

    def claim(self, call_id: str) -> str:
        """Return the id if it is usable, else a new one."""
        unique = call_id if call_id and call_id not in self._used_ids else new_id("call")
        self._used_ids.add(unique)
        return unique


_EMPTY_OBJECTS = compile_later(r"\s*(?:\{\s*\}\s*)+(?=\{)")


def read_arguments(text: str) -> dict[str, object]:
    r"""Return the arguments in a text from a model, which may be one slip away from JSON.

    A few models leave line breaks and tabs in texts as they are, and some servers send `{}` first,
    and then the arguments.

    Raises:
        InvalidJSONError: the text can't be used, or its arguments could not be sent back, such as a
            number of thirty digits.

    Example:
        >>> read_arguments('{}{"text": "one\ntwo"}')
        {'text': 'one\ntwo'}
    """
    first = _EMPTY_OBJECTS.match(text)
    parsed = serde.loads_object(text[first.end() :] if first else text, DEPTH, strict=False)
    serde.dumps(parsed)
    return parsed


def tool_use(
    call_id: str, name: str, arguments: str, extra: dict[str, object] | None = None
) -> ToolUseBlock:
    """Make a call from its argument text; a text that can't be used makes the call invalid.

    Arguments that can't be sent back are invalid too: they would make every later request fail.

    Example:
        >>> tool_use("t1", "Read", '{"file_path": "a.py"}').input
        {'file_path': 'a.py'}
        >>> tool_use("t1", "Read", '{"file_pa').invalid[:18]
        'not usable as JSON'
    """
    try:
        parsed = read_arguments(arguments)
    except InvalidJSONError as error:
        return ToolUseBlock(
            call_id,
            name,
            invalid=valid_unicode(error.message),
            raw_input=valid_unicode(arguments),
            extra=extra or EMPTY,
        )
    return ToolUseBlock(call_id, name, parsed, extra=extra or EMPTY)


_CUTS = {
    StopReason.MAX_TOKENS: "by max_tokens",
    StopReason.REFUSAL: "since the model refused to go on",
    StopReason.CONTENT_FILTER: "by a content filter",
}


def is_cut(reason: StopReason) -> bool:
    """Whether a reply that ended for this reason may have ended in the middle of a call."""
    return reason in _CUTS


def cut_off(call: ToolUseBlock, reason: StopReason = StopReason.MAX_TOKENS) -> ToolUseBlock:
    """Mark a call as cut off with its reply, so it never runs with half its arguments.

    Example:
        >>> cut_off(ToolUseBlock("t1", "Read")).invalid
        'the reply was cut off by max_tokens'
    """
    return replace(call, invalid=f"the reply was cut off {_CUTS[reason]}")


PLAIN = compile_later(r"[^a-zA-Z0-9_-]")
"""The characters that a name can't have, nor, with the strictest APIs, an id."""


class CallRules(msgspec.Struct, frozen=True, kw_only=True):
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
    """Renames calls that an API would refuse; a later message changes no earlier name.

    A call and its result keep a common id. If several calls have the same id, a result belongs to
    the first of them in the message before that has no result yet. A message with results knows the
    calls that they answer, `MergedMessage.calls`.

    Args:
        rules: what the API accepts.

    Example:
        >>> calls = (ToolUseBlock("a.b", "multi_tool_use.parallel"), ToolUseBlock("a_b", ""))
        >>> portable = PortableCalls(CallRules(forbidden=PLAIN))
        >>> for call in portable.rename(MergedMessage("assistant", calls)).blocks:
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
        self._new_calls: dict[str, ToolUseBlock] = {}  # by their final ids
        self._calls: MutableMapping[str, ToolUseBlock] = self._new_calls
        self._open_ids: defaultdict[str, deque[str]] = defaultdict(deque)
        if base is not None:
            self._used_ids = ChainMap(self._new_ids, base._used_ids)
            self._last_ids = ChainMap(self._new_last_ids, base._last_ids)
            self._calls = ChainMap(self._new_calls, base._calls)
            self._open_ids.update((key, ids.copy()) for key, ids in base._open_ids.items())

    def branch(self) -> "PortableCalls":
        """Return a copy that can rename a provisional message without changing this one."""
        return PortableCalls(self._rules, self)

    def merge(self, branch: "PortableCalls") -> None:
        """Adopt the names that were given in a branch of this one."""
        self._used_ids.update(branch._new_ids)
        self._last_ids.update(branch._new_last_ids)
        self._calls.update(branch._new_calls)
        self._open_ids = branch._open_ids

    def rename(self, message: MergedMessage) -> MergedMessage:
        """Return the next message as it may be sent."""
        if message.role == "assistant":
            self._open_ids.clear()
        blocks = tuple(map(self._rename_block, message.blocks))
        ids = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
        calls = {each: self._calls[each] for each in ids if each in self._calls}
        return MergedMessage(message.role, blocks, message.fields, calls)

    def _rename_block(self, block: ContentBlock) -> ContentBlock:
        match block:
            case ToolUseBlock():
                plain = PLAIN.sub("_", portable_name(block.name))
                name = plain[: self._rules.longest_name] or "unnamed"
                call_id = self._call_id(block.id)
                is_as_sent = (call_id, name) == (block.id, block.name)
                call = block if is_as_sent else replace(block, id=call_id, name=name)
                self._calls[call_id] = call
                return call
            case ToolResultBlock(tool_use_id=before):
                after = self._result_id(before)
                return block if after == before else replace(block, tool_use_id=after)
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
    """Merge the tools of a request with those of its options; return the field `tools`, if any.

    A tool of the options with the name of a typed tool adds its fields to the typed tool (to its
    `function`, if the API wraps tools in one), which takes its place in the list. Typed tools that
    the options do not name come first. If the options are not a list of objects, but for instance
    `msgspec.UNSET`, they replace all tools.

    Example:
        >>> search = {"type": "web_search_20260318", "name": "web_search"}
        >>> merged = merge_tools([{"name": "Read"}], {"tools": [search, {"name": "Read", "a": 1}]})
        >>> merged["tools"]
        [{'type': 'web_search_20260318', 'name': 'web_search'}, {'name': 'Read', 'a': 1}]
    """
    extra = options.get("tools")
    if extra is None and "tools" not in options:
        return {"tools": list(typed)} if typed else {}
    if not isinstance(extra, Sequence) or not all(isinstance(tool, Mapping) for tool in extra):
        return {"tools": extra}
    by_name = {_name(tool): tool for tool in typed}
    rest = [by_name.get(_name(tool), {}) for tool in extra]
    first = [tool for tool in typed if all(tool is not each for each in rest)]
    return {"tools": [*first, *map(_merge, rest, extra)]}


def _merge(typed: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    if "function" in typed and "function" not in extra:
        extra = {"function": extra}
    return extend(typed, extra)


def _name(tool: Mapping[str, object]) -> str:
    return as_text(tool.get("name")) or as_text(as_dict(tool.get("function")).get("name"))
