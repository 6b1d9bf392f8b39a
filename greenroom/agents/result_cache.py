"""`ResultCache`: the earlier result of a tool that is called exactly the same again."""

from collections import OrderedDict
from pathlib import Path

from msgspec.structs import replace

from greenroom.agents.configuration import Toolbox, Tools
from greenroom.core import AgentContext, ConfigurationError, ToolResult, ToolUseBlock
from greenroom.core._internal import serde
from greenroom.llm import Substitutes
from greenroom.resilience._internal import shared_time

_Key = tuple[str, str, Path, bytes]


class ResultCache(Substitutes):
    """Gives the earlier result where a tool that only reads is called the same again.

    It is a substitute that answers from what it has seen as an instrument: insert it into the
    resources, and attach it. A call is the same if tool, arguments and working directory are, in
    the same session or, with `shared`, in any. It is judged and, where the rules ask, allowed
    before the cache answers. Only successful results are kept, in memory, until they are `max_age`
    old or more than `max_results`; then those that were not used for the longest time go. A result
    that comes from here has `cached` in its `metadata`.

    Name tools whose results stay true for that long: a look-up, not `Read`, whose file may change.

    Args:
        tools: the functions and tools whose results are kept.
        max_age: seconds.
        max_results: the most results.
        shared: whether sessions get each other's results.
        any_tool: whether tools that are not known to only read are accepted.

    Raises:
        ConfigurationError: a bound is not above 0, or a tool is not known to only read: its
            category is not "read", nor is it declared with `read_only=True`.
        ToolError: something in `tools` can't be a tool.

    Example:
        ```python
        cache = ResultCache([look_up], max_age=600)
        async with AgentRuntime(instruments=[cache]) as runtime:
            runtime.resources.insert(cache)
        ```
    """

    def __init__(
        self,
        tools: Tools,
        *,
        max_age: float = 300.0,
        max_results: int = 1_000,
        shared: bool = False,
        any_tool: bool = False,
    ) -> None:
        registry = Toolbox.of(tools).registry
        self._names = frozenset(registry.list_tools())
        for name in self._names:
            found = registry.get(name)
            if found is not None and not found.read_only and not any_tool:
                raise ConfigurationError(
                    f"{name} may do more than read, so its call must not be left out",
                    hint='declare it with @tool(category="read"), or pass any_tool=True',
                )
        for what, bound in (("age", max_age), ("results", max_results)):
            if not bound > 0:
                raise ConfigurationError(f"max_{what} is {bound!r}", hint="give a number above 0")
        self._max_age = max_age
        self._max_results = max_results
        self._shared = shared
        self._running: dict[int, _Key] = {}  # by the identity of the call
        self._kept: OrderedDict[_Key, tuple[ToolResult, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many results are kept."""
        return len(self._kept)

    async def result(self, agent: AgentContext, call: ToolUseBlock) -> ToolResult | None:
        """Return the result that is kept for a call, or None."""
        if call.name not in self._names:
            return None
        key = self._key(agent, call)
        result, since = self._kept.get(key, (None, 0.0))
        if result is None:
            return None
        if shared_time() - since > self._max_age:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return replace(result, metadata={**result.metadata, "cached": True})

    def before_tool_run(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Note where a call begins, since others may move the agent while it runs."""
        if call.name in self._names:
            self._running[id(call)] = self._key(agent, call)

    def after_tool_run(
        self, agent: AgentContext, call: ToolUseBlock, result: ToolResult | None
    ) -> None:
        """Keep the result of a call that has run."""
        key = self._running.pop(id(call), None)
        if key is None or result is None or result.is_error:
            return
        self._kept[key] = result, shared_time()
        if len(self._kept) > self._max_results:
            self._kept.popitem(last=False)

    def _key(self, agent: AgentContext, call: ToolUseBlock) -> _Key:
        scope = "" if self._shared else agent.session_id
        return scope, call.name, agent.workspace.cwd, serde.dumps(call.input, pretty=True)
