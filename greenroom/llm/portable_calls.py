"""Tool calls as strict APIs take them: names and ids in their alphabet, and each id used once.

A model may call what no tool can be named, such as `multi_tool_use.parallel`, and servers begin to
count at `call_0` again with each reply. In a history both would be refused for ever.
"""

import dataclasses
import hashlib
import re
from collections import ChainMap, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from greenroom.core import ContentBlock, ToolResultBlock, ToolUseBlock, portable_name
from greenroom.llm.conversation import Turn

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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
        return dataclasses.replace(turn, blocks=tuple(map(self._renamed, turn.blocks)))

    def _renamed(self, block: ContentBlock) -> ContentBlock:
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
