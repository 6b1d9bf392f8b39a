"""Results of tools that the client runs: each goes to the one who waits for it, and nowhere else."""

import trio

from greenroom.core import MailboxFullError, ToolError, ToolResult, ToolResultInput


class ClientResults:
    """Results by tool-use id; one that comes early is kept until the turn ends."""

    def __init__(self, limit: int) -> None:
        """Start empty, with room for `limit` results that nobody waits for yet."""
        self._limit = limit
        self._early: dict[str, ToolResultInput] = {}
        self._arrived: dict[str, trio.Event] = {}

    def put(self, message: ToolResultInput) -> None:
        """Hand a result in.

        Raises:
            ToolError: a result of this call is here already.
            MailboxFullError: too many results wait for somebody to take them.
        """
        tool_use_id = message.tool_use_id
        if tool_use_id in self._early:
            raise ToolError(f"the call {tool_use_id} has a result already")
        awaited = self._arrived.get(tool_use_id)
        if awaited is None and len(self._early) >= self._limit:
            raise MailboxFullError(f"{self._limit} results wait for somebody to take them")
        self._early[tool_use_id] = message
        if awaited is not None:
            awaited.set()

    async def take(self, tool_use_id: str) -> ToolResult:
        """Wait for the result of this call.

        Raises:
            ToolError: somebody waits for it already.
        """
        if tool_use_id in self._arrived:
            raise ToolError(f"somebody waits for the result of the call {tool_use_id} already")
        self._arrived[tool_use_id] = arrived = trio.Event()
        try:
            if tool_use_id in self._early:
                await trio.lowlevel.checkpoint()
            else:
                await arrived.wait()
        finally:
            del self._arrived[tool_use_id]
        return self._early.pop(tool_use_id).result

    def drop(self) -> tuple[str, ...]:
        """Forget the results that nobody took, and name them."""
        left = tuple(key for key in self._early if key not in self._arrived)
        for tool_use_id in left:
            del self._early[tool_use_id]
        return left
