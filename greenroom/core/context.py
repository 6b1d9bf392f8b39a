"""The context that a tool is given: who calls, what the runtime does for it, resources, and its folder.

The model never sees it: it is in no schema and in no result.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

from greenroom.core import serde
from greenroom.core.errors import ToolError
from greenroom.core.tooling import ToolResult

# ---- Resources: objects that an agent's tools share, or all agents of a runtime, found by their class.

T = TypeVar("T")


class ResourceMap:
    """Objects keyed by their class: never serialised, never shown to the model.

    An agent's map stands on that of its runtime: what it does not hold itself is looked up there.

    Example:
        >>> resources = ResourceMap()
        >>> resources.insert([1, 2])
        >>> resources.get(list)
        [1, 2]
        >>> resources.get(dict) is None
        True
        >>> ResourceMap(shared=resources).get(list)
        [1, 2]
    """

    def __init__(self, *, shared: "ResourceMap | None" = None) -> None:
        """Start empty, on top of the map that others share, if any."""
        self._values: dict[type, object] = {}
        self._shared = shared

    @property
    def shared(self) -> "ResourceMap":
        """The map that all agents of the runtime share; this one where it stands alone."""
        return self if self._shared is None else self._shared

    def insert(self, value: object) -> None:
        """Hold a value under its class, in place of one that was there."""
        self._values[type(value)] = value

    def get(self, kind: type[T]) -> T | None:
        """Return the value of this class, or None."""
        if kind not in self._values and self._shared is not None:
            return self._shared.get(kind)
        return cast("T | None", self._values.get(kind))

    def contains(self, kind: type) -> bool:
        """Whether a value of this class is held, here or in the shared map."""
        return kind in self._values or (self._shared is not None and self._shared.contains(kind))

    def remove(self, kind: type[T]) -> T | None:
        """Take the value of this class out and return it, or None; the shared map keeps its own."""
        return cast("T | None", self._values.pop(kind, None))

    def clear(self) -> None:
        """Let go of every value; the shared map keeps its own."""
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[object]:
        return iter(tuple(self._values.values()))


# ---- The folder that an agent works in, and where in it the agent stands.


class Workspace:
    """A root folder and a working directory that may move, as a shell's does.

    Relative paths of tool inputs start at `cwd`; relative patterns of permission rules are anchored
    at `root`, so that `cd` can't widen a rule.

    Example:
        >>> Workspace("/srv/project").absolute("src/a.py").as_posix()
        '/srv/project/src/a.py'
    """

    def __init__(self, root: str | Path, cwd: str | Path | None = None) -> None:
        """Take the root, by its absolute path; work begins there unless `cwd` says otherwise."""
        self.root = Path(os.path.abspath(root))
        self.cwd = self.root if cwd is None else Path(os.path.abspath(cwd))

    def copy(self) -> "Workspace":
        """Return one that begins at the same place and moves on its own; it costs next to nothing."""
        return copy(self)

    def absolute(self, path: str | Path) -> Path:
        """Make a path absolute from the working directory, `~` expanded, `..` removed as text.

        Symbolic links are not followed: that takes the disk, which this class never touches.
        """
        return Path(os.path.abspath(self.cwd / Path(path).expanduser()))


def _no_progress(_: str, __: str) -> None:
    pass


def _no_abandon(_: str) -> None:
    pass


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    return nullcontext()


async def _no_client(_: str) -> ToolResult:
    raise ToolError(
        "no client runs this call",
        hint="a tool of the client's is called by an agent, with run_tools",
    )


@dataclass(kw_only=True)
class AgentContext:
    """Identity, lineage and resources of the agent on whose behalf a tool runs.

    Attributes:
        session_id: the agent's session.
        agent_type: its type, such as "coder".
        name: its name, by default its type.
        description: what it is for.
        lineage: the names of the agents from the root down to this one.
        parent_session_id: the session of the agent that spawned it, or None.
        parent_tool_use_id: the call that spawned it, or None.
        current_turn: how many turns have begun, this one included.
        current_tool_use_id: the call that this context was made for, or None.
        workspace: the folder it works in; shared by all copies of this context.
        allowed_paths: absolute paths beyond the workspace, symbolic links resolved, that its file tools
            may touch; a folder stands for all that lies in it. Each call's context has its own.
        metadata: JSON values of the programmer's, saved with the session; `set_metadata` checks
            them, and what got in unchecked and is not JSON is logged and not saved.
        resources: run-time objects by class; never serialised, shared by all copies. What is not
            here is looked up among those of the runtime (`resources.shared`).
        spill_folder: where results too long for the model are kept, or empty for a temporary file
            folder; the newest 200 files there live as long as the session.
        on_progress: put in by the runtime; takes what `progress` is told: the call's id, the text.
        on_cleanup: put in by the runtime; makes the scope that `cleanup` gives: the call's id, or
            "" outside of any, and the seconds.
        on_abandon: put in by the runtime; takes what `abandoned` is told.
        on_client_result: put in by the runtime; waits for what `client_result` returns, by the call's id.

    Example:
        >>> context = AgentContext(session_id="s-1", agent_type="coder")
        >>> context.with_tool_use_id("toolu_1").current_tool_use_id
        'toolu_1'
    """

    session_id: str
    agent_type: str
    name: str = ""
    description: str = ""
    lineage: tuple[str, ...] = ()
    parent_session_id: str | None = None
    parent_tool_use_id: str | None = None
    current_turn: int = 0
    current_tool_use_id: str | None = None
    workspace: Workspace = field(default_factory=lambda: Workspace("."))
    allowed_paths: tuple[str | Path, ...] = ()
    metadata: dict[str, object] = field(default_factory=dict)
    resources: ResourceMap = field(default_factory=ResourceMap)
    spill_folder: str = ""
    on_progress: Callable[[str, str], None] = field(default=_no_progress, repr=False)
    on_cleanup: Callable[[str, float], AbstractContextManager[object]] = field(
        default=_no_cleanup, repr=False
    )
    on_abandon: Callable[[str], None] = field(default=_no_abandon, repr=False)
    on_client_result: Callable[[str], Awaitable[ToolResult]] = field(default=_no_client, repr=False)

    def with_tool_use_id(self, tool_use_id: str) -> "AgentContext":
        """Return a copy for one call; resources, metadata and workspace are shared."""
        return replace(self, current_tool_use_id=tool_use_id)

    def progress(self, text: str) -> None:
        """Show output of the running tool at once; subscribers get a `ToolProgress`.

        In a context that was made for no call there is nothing to show it with, and it is dropped.
        """
        if self.current_tool_use_id is not None:
            self.on_progress(self.current_tool_use_id, text)

    def cleanup(self, grace: float) -> AbstractContextManager[object]:
        """Open a scope for clean-up that a cancel can't abort, for `grace` seconds at the most.

        Use it as `with context.cleanup(2.0):` inside a `finally`. The report of an interrupt names
        the call as cleaned when the block has run to its end.

        Raises:
            ValueError: the grace is negative, or not a number.
        """
        return self.on_cleanup(self.current_tool_use_id or "", grace)

    def abandoned(self, what: str) -> None:
        """Report something that could not be stopped, such as a thread; the interrupt lists it."""
        self.on_abandon(what)

    async def client_result(self) -> ToolResult:
        """Wait for the result of this call, which the client runs: `handle.send_tool_result` brings it.

        Raises:
            ToolError: there is no client, or another task waits for this result already.
        """
        return await self.on_client_result(self.current_tool_use_id or "")

    def set_metadata(self, key: str, value: object) -> None:
        """Keep a JSON value under a key; it is copied, and saved with the session.

        Raises:
            InvalidJSONError: it is not a JSON value; the message names the key.
        """
        self.metadata[key] = serde.plain(value, f"metadata {key!r}")

    def get_metadata(self, key: str) -> object:
        """Return the JSON value of this key, or None."""
        return self.metadata.get(key)

    def to_json(self) -> dict[str, object]:
        """Return what can be serialised: identity, lineage, turn, call and metadata.

        Left out is what means something in this process alone: workspace and allowed paths,
        resources, spill folder and the runtime's hooks.
        """
        return {
            "session_id": self.session_id,
            "agent_type": self.agent_type,
            "name": self.name,
            "description": self.description,
            "parent_session_id": self.parent_session_id,
            "parent_tool_use_id": self.parent_tool_use_id,
            "current_turn": self.current_turn,
            "current_tool_use_id": self.current_tool_use_id,
            "metadata": dict(self.metadata),
        }
