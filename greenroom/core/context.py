"""The context that the tools of an agent receive.

It says who calls, and in which folder; it carries resources, which agents share, and credentials.
The model never sees any of it: it appears in no schema and in no result.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from greenroom.core import serde
from greenroom.core.errors import ToolError
from greenroom.core.frozen import freeze
from greenroom.core.kept_files import KeptFiles
from greenroom.core.late_pattern import compile_later
from greenroom.core.resources import ResourceMap
from greenroom.core.secrets import map_texts
from greenroom.core.tooling import Approval, ToolResult, ToolRun

T = TypeVar("T")


def _copy(value: T) -> T:
    """Return a copy with the same attributes: `copy.copy`, in a fifth of the calls."""
    other = object.__new__(type(value))
    other.__dict__.update(value.__dict__)
    return other


class Workspace:
    """A root folder and a working directory that may move, as a shell's does.

    Relative paths of tool inputs start at `cwd`; relative patterns of permission rules are anchored
    at `root`, so that `cd` can't widen a rule.

    Example:
        >>> Workspace("/srv/project").absolute("src/a.py").as_posix()
        '/srv/project/src/a.py'
    """

    def __init__(self, root: str | Path, cwd: str | Path | None = None) -> None:
        """Make the root absolute; work begins there unless `cwd` says otherwise."""
        self.root = Path(os.path.abspath(root))
        self.cwd = self.root if cwd is None else Path(os.path.abspath(cwd))

    def copy(self) -> "Workspace":
        """Return a workspace at the same place that moves on its own; cheap."""
        return _copy(self)

    def absolute(self, path: str | Path) -> Path:
        """Make a path absolute from the working directory, `~` expanded, `..` removed as text.

        Symbolic links are not followed: that takes the disk, which this class never touches.
        """
        return Path(os.path.abspath(self.cwd / Path(path).expanduser()))


def _no_progress(_: str, __: str) -> None:
    pass


def _never_cut_off(_tool_use_id: str) -> bool:
    return False


def _no_abandon(_: str) -> None:
    pass


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    return nullcontext()


def _no_rules(_: str) -> None:
    return None


def _no_background(_: str, __: str, ___: Callable[[], Awaitable[str | None]]) -> None:
    raise ToolError(
        "nothing can stay here after the call",
        hint="a tool that leaves something running needs an agent",
    )


async def _just_run(
    _: ToolRun, run: Callable[[], Awaitable[ToolResult]], __: "AgentContext"
) -> ToolResult:
    return await run()


async def _no_client(_: str) -> ToolResult:
    raise ToolError(
        "no client runs this call",
        hint="a tool of the client runs within run_tools, in an agent",
    )


async def _no_artifacts(*_: object) -> int:
    raise ToolError(
        "nothing keeps artifacts here", hint="a tool saves one while it runs for an agent"
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
        allowed_paths: absolute paths beyond the workspace, symbolic links resolved, that its file
            tools may touch; a folder stands for all that lies in it. Each call's context has its
            own.
        command: the command of this call as it was judged, written so that bash runs nothing else;
            a tool with `runs_context_command` runs it instead of its input. Empty if the input runs
            as it is, as after a person's yes.
        metadata: the program's JSON values, saved with the session. `set_metadata` checks them;
            values set past it that are not JSON are logged and not saved.
        resources: run-time objects by class; never serialised, shared by all copies. Those of the
            runtime (`resources.shared`) are found here too.
        spill_folder: where results too long for the model are kept if `files` is None, or empty
            for a temporary folder; the newest 200 files there live as long as the session.
        files: the files of the session, set by the runtime; such results are kept there.
        on_progress: set by the runtime; called by `progress` with the call's id and the text.
        on_cleanup: set by the runtime; makes the scope for `cleanup` from the call's id, "" outside
            of any call, and the seconds.
        on_check_cleanup: set by the runtime; whether a clean-up of the call of this id was cut off.
        on_abandon: set by the runtime; called by `report_abandoned`.
        on_client_result: set by the runtime; waits for the result that `client_result` returns, by
            the call's id.
        on_background: set by the runtime; called by `start_background`.
        on_artifact: set by the runtime; called by `save_artifact`.
        on_run: set by the runtime; called with a valid call, what runs it, and the call's context;
            returns its result.
        approval: set by `run_tools`: what has allowed this call. A loop of your own that has judged
            a call sets it in the call's context.
        on_search: set by `run_tools`; makes what `screen_reads` returns.

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
    command: str = ""
    metadata: dict[str, object] = field(default_factory=dict)
    resources: ResourceMap = field(default_factory=ResourceMap)
    spill_folder: str = ""
    files: KeptFiles | None = field(default=None, repr=False)
    on_progress: Callable[[str, str], None] = field(default=_no_progress, repr=False)
    on_cleanup: Callable[[str, float], AbstractContextManager[object]] = field(
        default=_no_cleanup, repr=False
    )
    on_check_cleanup: Callable[[str], bool] = field(default=_never_cut_off, repr=False)
    on_abandon: Callable[[str], None] = field(default=_no_abandon, repr=False)
    on_client_result: Callable[[str], Awaitable[ToolResult]] = field(default=_no_client, repr=False)
    on_background: Callable[[str, str, Callable[[], Awaitable[str | None]]], None] = field(
        default=_no_background, repr=False
    )
    on_run: Callable[
        [ToolRun, Callable[[], Awaitable[ToolResult]], "AgentContext"], Awaitable[ToolResult]
    ] = field(default=_just_run, repr=False)
    on_artifact: Callable[[str, str, str | bytes, str | None, bool, bool], Awaitable[int]] = field(
        default=_no_artifacts, repr=False
    )
    approval: Approval | None = field(default=None, repr=False)
    on_search: Callable[[str], Callable[[str], str] | None] = field(default=_no_rules, repr=False)

    def with_tool_use_id(self, tool_use_id: str) -> "AgentContext":
        """Return a copy for one call; resources, metadata and workspace are shared."""
        other = _copy(self)
        other.current_tool_use_id = tool_use_id
        return other

    def snapshot(self) -> "AgentContext":
        """Return a copy as it is now, whose own fields can be set without any effect on this one.

        Its metadata are frozen. Resources are shared.
        """
        other = _copy(self)
        other.metadata = freeze(self.metadata)
        other.workspace = _copy(self.workspace)
        return other

    def approve(self, by: str = "rules", rule: str = "", digest: str = "") -> None:
        """Say what has allowed the call of this context; a loop of one's own does, for its gates.

        Args:
            by: "rules", "user", or the name of the person who answered.
            rule: the id of the rule that allowed it or let a person be asked.
            digest: binds it to tool, input, folder, words and resolved paths.
        """
        self.approval = Approval(by, rule, digest)

    @property
    def session_folder(self) -> str:
        """The folder of the session's own files; empty if its store has none."""
        return os.path.dirname(self.spill_folder)

    def progress(self, text: str) -> None:
        """Show output of the running tool at once; subscribers get a `ToolProgress`.

        A context that belongs to no call drops it.
        """
        if self.current_tool_use_id is not None:
            self.on_progress(self.current_tool_use_id, text)

    def cleanup(self, grace: float) -> AbstractContextManager[object]:
        """Open a scope for clean-up that a cancel can't abort, for at most `grace` seconds.

        Use it as `with context.cleanup(2.0):` inside a `finally`. If the block runs to its end, the
        report of an interrupt lists the call as cleaned.

        Raises:
            ValueError: the grace is negative, or not a number.
        """
        return self.on_cleanup(self.current_tool_use_id or "", grace)

    @property
    def was_cut_off(self) -> bool:
        """Whether a kill, or the end of an interrupt's grace, cut off a `cleanup` of this call."""
        return self.on_check_cleanup(self.current_tool_use_id or "")

    def report_abandoned(self, what: str) -> None:
        """Report something that could not be stopped, such as a thread; the interrupt lists it."""
        self.on_abandon(what)

    def start_background(
        self, run: Callable[[], Awaitable[str | None]], *, sender: str, label: str
    ) -> None:
        """Run an async function beside the agent's turns, until it returns or the agent ends.

        An interrupt leaves it running. The text that it returns becomes an input of the agent; if
        it returns None, the agent knows of its end already. When the agent ends it is cancelled,
        and should then clean up; that it has ended is told when the session goes on. An exception
        that it raises crashes the agent.

        Args:
            run: the function.
            sender: who tells of its end, such as the tool's name.
            label: what it is, for people and for the model, such as "the command `npm run dev`".

        Raises:
            ToolError: the context is not that of an agent.
            AgentNotRunningError: the agent's function has returned.
            EventLoopError: called from another thread.
        """
        self.on_background(sender, label, run)

    async def client_result(self) -> ToolResult:
        """Wait for the result of this call, which the client sends by `handle.send_tool_result`.

        Raises:
            ToolError: there is no client, or another task already waits for this result.
        """
        return await self.on_client_result(self.current_tool_use_id or "")

    async def save_artifact(
        self,
        name: str,
        data: str | bytes,
        *,
        media_type: str | None = None,
        append: bool = False,
        complete: bool = True,
    ) -> int:
        """Save something that the agent makes for people, such as a report: a new version of it.

        It is kept with the session, and told to readers as a `Custom` chunk of the kind "artifact";
        `session.artifacts()` lists all versions. It is stored when this returns.

        Args:
            name: up to 200 printable characters without a slash.
            data: the content; a version has at most 16 MB.
            media_type: what it is, such as "image/png"; None goes by the name, else it is text or
                bytes.
            append: add the data to the newest version, unless that is complete.
            complete: whether nothing more will be appended to this version.

        Returns:
            The number of the version, from 1.

        Raises:
            ToolError: the context is not that of an agent, or its store keeps no files.
            ValueError: the name or the media type is not usable.
            SessionError: it is too long, or the session has too many, or the store refused.
        """
        call = self.current_tool_use_id or ""
        return await self.on_artifact(call, name, data, media_type, append, complete)

    def screen_reads(self, folder: str | Path) -> Callable[[str], str] | None:
        """Ask the rules which of the files that this call finds in a folder must be left out.

        A search is judged by its folder, so a tool that shows names or contents of files that it
        finds there has to leave out those that a rule denies or asks about. It looks at the disk:
        call it in a thread.

        Args:
            folder: the folder as the call names it, absolute or relative to the working directory.

        Returns:
            A function of the path of a file from that folder, with `/`, where no folder in between
            is a link. It returns what a rule does about reading the file: "denies", "asks about",
            or "" if the file may be shown. None if all of them may be.

        Raises:
            ValueError: the folder is not usable as a path.

        Example:
            >>> context = AgentContext(session_id="s-1", agent_type="coder")
            >>> context.screen_reads(".") is None  # no rules hold outside of `run_tools`
            True
        """
        return self.on_search(str(folder))

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
        """Return what can be serialised: identity, parent, turn, call and metadata.

        Workspace, allowed paths, resources, spill folder and the runtime's hooks are left out: they
        mean nothing in another process.
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


_NAME = compile_later(r"[A-Za-z0-9](?:[A-Za-z0-9 _.-]{0,62}[A-Za-z0-9])?")
_FORGOTTEN = 100  # dropped values that are still concealed
_SHORTEST = 4  # characters of a value that is concealed where it turns up
_BINARY = frozenset({"data"})  # of images and documents, in base64


class Credentials:
    """The values that a person has given, as a resource; no output or record shows one of them.

    Each tree of agents has its own; those among the runtime's resources hold for all trees.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        # Concealed like the others: a call that dropped one may still print it.
        self._forgotten = deque[tuple[str, str]](maxlen=_FORGOTTEN)

    def give(self, name: str, value: str) -> None:
        """Keep a value, and forget the one before it.

        Raises:
            ValueError: it is empty.
        """
        if not value.strip():
            raise ValueError(f"the value of the credential {name!r} is empty")
        self.forget(name)
        self._values[name] = value

    def find(self, name: str) -> str | None:
        """Return the value of this name, or None."""
        return self._values.get(name)

    def forget(self, name: str) -> None:
        """Drop a value, such as one that a service has refused."""
        if name in self._values:
            self._forgotten.append((name, self._values.pop(name)))

    def conceal(self, text: str) -> str:
        """Replace each value by its name in brackets, even where it is quoted or escaped."""
        for name, value in (*self._values.items(), *self._forgotten):
            if len(value) >= _SHORTEST:
                for written in (value, serde.encode(value)[1:-1].decode(), repr(value)[1:-1]):
                    text = text.replace(written, f"[{name}]")
        return text

    def __bool__(self) -> bool:
        return bool(self._values or self._forgotten)

    def __repr__(self) -> str:
        return f"<credentials: {', '.join(self._values) or 'none'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials are not copied out of the process")


class Credential(msgspec.Struct, frozen=True):
    """A value that a person gives once, such as a token: named here, held among the resources.

    A tool with `@tool(credentials=[…])` runs once the person has given them all; for each missing
    one, a `PermissionRequest` with its name in `credential` asks. The value comes in by
    `handle.give_credential`, never in an answer, so no input, message, chunk, record or file holds
    it.

    Attributes:
        name: 1 to 64 letters, digits, blanks, `_`, `.` and `-`.
        hint: shown to the person, such as where to get it.

    Example:
        ```python
        GITHUB = Credential("github token", hint="Settings > Developer settings; read-only will do")


        @tool(credentials=[GITHUB])
        async def issues(repo: str, context: AgentContext) -> str:
            return await fetch(repo, headers={"Authorization": f"Bearer {GITHUB.value(context)}"})
        ```
    """

    name: str
    hint: str = ""

    def __post_init__(self) -> None:
        """Refuse a name that can't be shown or written as it is."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a name for a credential")

    def find(self, context: AgentContext) -> str | None:
        """Return the value, or None if it was not given."""
        for credentials in _credentials_in(context.resources):
            value = credentials.find(self.name)
            if value is not None:
                return value
        return None

    def value(self, context: AgentContext) -> str:
        """Return the value.

        Raises:
            ToolError: it was not given.
        """
        value = self.find(context)
        if value is None:
            raise ToolError(f"the credential {self.name!r} is missing", hint=self.hint)
        return value

    def forget(self, context: AgentContext) -> None:
        """Drop the value, such as one that a service has refused; the next call asks again."""
        for credentials in _credentials_in(context.resources):
            credentials.forget(self.name)

    def give(self, resources: ResourceMap, value: str) -> None:
        """Put the value among these resources; in `runtime.resources` it holds for all agents.

        Raises:
            ValueError: it is empty.
        """
        own = resources.remove(Credentials)  # `get` would find those of the shared map, too
        credentials = Credentials() if own is None else own
        resources.insert(credentials)
        credentials.give(self.name, value)


def conceal(value: T, context: AgentContext) -> T:
    """Return a text, or a value made of texts, with each credential replaced by its name."""
    found = tuple(filter(None, _credentials_in(context.resources)))
    return map_texts(value, partial(_conceal, found), leave=_BINARY) if found else value


def _conceal(found: Sequence[Credentials], text: str) -> str:
    for credentials in found:
        text = credentials.conceal(text)
    return text


def _credentials_in(resources: ResourceMap) -> tuple[Credentials, ...]:
    """Return the credentials of the tree of agents, and those of the runtime."""
    own, shared = resources.get(Credentials), resources.shared.get(Credentials)
    if own is None:
        return ()
    return (own,) if shared is None or shared is own else (own, shared)
