"""`greenroom acp`: the coding agent in an editor, which starts this program and speaks with it.

Standard output belongs to the protocol alone: whatever else writes there, such as a library or a
program that is started, reaches standard error.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast, get_args

import trio

from greenroom.cli.commands import COMMANDS
from greenroom.cli.diagnostics import serve_tree
from greenroom.cli.editor_servers import agree, find_new
from greenroom.cli.mcp_inputs import list_prompt_commands, name_prompts, read_server_parts
from greenroom.cli.mcp_setup import OpenServers, open_connections
from greenroom.cli.modes import DESCRIPTIONS
from greenroom.cli.options import DONE, Options
from greenroom.cli.run_setup import (
    RunPlace,
    RunSetup,
    describe_untrusted,
    open_model_of_run,
    open_setup,
)
from greenroom.cli.settings_layers import read_layers, resolve
from greenroom.cli.stdio import OutputWriter, read_some, tell, wait_for_hang_up
from greenroom.cli.stored_sessions import HEADLESS, describe_session, open_configured_store
from greenroom.core import ConfigurationError, ContentBlock, SessionNotFoundError
from greenroom.core._internal import Effort
from greenroom.interop import MCPServer
from greenroom.interop._internal import (
    EditorCommand,
    EditorOption,
    EditorServer,
    SessionParts,
    SessionRequest,
)
from greenroom.llm import model_profile
from greenroom.llm._internal import MODELS, VENDORS, window_of
from greenroom.memory._internal import COMPACT
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime
from greenroom.session import AgentSession, SessionPage

if TYPE_CHECKING:
    from greenroom.interop._internal import MCPPrompt

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAGE = 50  # sessions
_USUAL = "as set up"  # the effort until one is chosen


async def run_acp(options: Options) -> int:
    """Serve an editor until it closes standard input, or a signal comes; return the exit code.

    Raises:
        OSError: standard output can't be written.
    """
    if os.isatty(0):
        tell("this waits for an editor, which starts it and speaks with it; Ctrl-D ends it")
    code, failure = DONE, None
    with _own_streams() as (read_from, write_to):
        out = OutputWriter(write_to)
        server = EditorServer(EditorSessions(options), partial(read_some, read_from), out.raw)

        async def end_on_signal() -> None:
            nonlocal code
            with trio.open_signal_receiver(*_ENDS) as signals:
                async for number in signals:
                    if code:  # a second one does not wait
                        nursery.cancel_scope.cancel()
                    code = 128 + number
                    server.stop()

        async def end_without_reader() -> None:
            await wait_for_hang_up(write_to)
            server.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_on_signal)
            nursery.start_soon(end_without_reader)
            try:
                await server.run()
            except OSError as error:
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


@contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """Take standard input and output for the protocol; yield descriptors that nothing else has.

    Meanwhile what reads standard input finds its end, and what writes standard output reaches
    standard error.
    """
    read_from, write_to = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield read_from, write_to
    finally:
        with suppress(OSError):  # standard error may be closed
            sys.stdout.flush()
        os.dup2(read_from, 0)
        os.dup2(write_to, 1)
        for each in (nothing, read_from, write_to):
            os.close(each)


class EditorSessions:
    """Opens sessions of the coding agent, each in a folder of its own, with its settings."""

    def __init__(self, options: Options) -> None:
        """Open them as the command line says, and the settings of their folders."""
        self._options = options
        self._store = open_configured_store(options)

    def new(self) -> AgentSession:
        """Make a session, which nothing has stored yet."""
        return AgentSession.new("coder", store=self._store)

    async def load(self, session_id: str) -> AgentSession:
        """Load a session; questions still open count as unanswered."""
        return await AgentSession.load(session_id, store=self._store)

    async def list_page(self, after: str | None) -> SessionPage:
        """Describe some of the sessions that a person has used, the last changed first."""
        page = await self._store.list_page(after, _PAGE, agent_type="coder", archived=False)
        people = tuple(each for each in page.sessions if not each.metadata.get(HEADLESS))
        return SessionPage(people, page.after)

    async def delete(self, session_id: str) -> None:
        """Remove a session for good, with those of its subagents."""
        try:
            await AgentSession.delete(session_id, store=self._store, children=True)
        except SessionNotFoundError:
            await trio.lowlevel.checkpoint()  # nothing is left to do

    @asynccontextmanager
    async def open(self, request: SessionRequest) -> AsyncIterator[SessionParts]:
        """Open the parts of a session as its folder's settings say, and start its agent."""
        in_thread, folder = trio.to_thread.run_sync, request.folder
        options = resolve(self._options, await in_thread(read_layers, folder, os.environ))
        new = await in_thread(find_new, request.servers, folder)
        known = [each for each in request.servers if each not in new]
        if options.mode in ("bypass", "deny"):  # which ask nothing
            known, new = [*known, *(new if options.mode == "bypass" else ())], ()
        place = RunPlace(folder, request.session, known)
        async with open_setup(options, place=place) as setup:
            tell(*setup.warnings, *describe_untrusted(setup.untrusted), *setup.notes)
            async with AgentRuntime(
                setup.store,
                workspace=setup.workspace,
                gates=setup.gates,
                instruments=setup.instruments,
            ) as runtime:
                runtime.resources.insert(request.files)
                handle = await _spawn(runtime, setup)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(setup.watch, handle)
                    nursery.start_soon(serve_tree, runtime)
                    yield _Session(setup, options, new, nursery).parts(handle)
                    nursery.cancel_scope.cancel()


async def _spawn(runtime: AgentRuntime, setup: RunSetup) -> AgentHandle:
    """Start the agent, and wait until it has its session.

    Raises:
        GreenroomError: it can't have it, since another process does.
    """
    has_begun, agent = trio.Event(), setup.bind_coder()

    async def begin(internals: AgentInternals) -> None:
        has_begun.set()
        await agent(internals, setup.model, setup.tools, setup.permissions)

    handle = runtime.spawn(setup.session, begin, unattended="ask", name="coder")
    async with trio.open_nursery() as nursery:

        async def await_end() -> None:
            await handle.wait()
            has_begun.set()

        nursery.start_soon(await_end)
        await has_begun.wait()
        nursery.cancel_scope.cancel()
    if handle.state.is_final:
        await handle.wait(check=True)
    return handle


@dataclass(frozen=True)
class _Session:
    """What an editor shows of a run, and lets a person choose."""

    setup: RunSetup
    options: Options
    new: Sequence[MCPServer]
    nursery: trio.Nursery
    late: list[OpenServers] = field(default_factory=list)

    def parts(self, handle: AgentHandle) -> SessionParts:
        """Return the parts of the session of this agent."""
        setup = self.setup
        return SessionParts(
            handle=handle,
            session=setup.session,
            tools=setup.tools,
            folder=setup.workspace,
            currency=setup.currency,
            window=self.find_window,
            commands=self.list_commands,
            options=self.list_options,
            choose=self.choose,
            warnings=setup.warnings,
            waiting=tuple(f"{each.name}: {each.place}" for each in self.new),
            admit=self.admit,
            begin=partial(describe_session, setup.session, setup.workspace),
            complete=self.complete,
        )

    def find_window(self) -> int | None:
        """Return the tokens that the model takes, as the settings or the catalogue have it."""
        model = self.setup.model
        return window_of(model.llm) or model_profile(model).context_window

    @property
    def _servers(self) -> tuple[OpenServers, ...]:
        return (self.setup.servers, *self.late)

    def _name(self, servers: OpenServers) -> Mapping[str, "MCPPrompt"]:
        """Name the prompts of servers by their commands."""
        own = self.setup.own.commands if self.setup.own is not None else ()
        return name_prompts(servers.prompts, tuple(own))

    def list_commands(self) -> list[EditorCommand]:
        """List the commands in files, the prompts of servers, and `/compact`."""
        setup = self.setup
        own = setup.own.commands.values() if setup.own is not None else ()
        compact = next(each for each in COMMANDS if each.name == "compact")
        prompts = {name: each for one in self._servers for name, each in self._name(one).items()}
        ours = (compact, *list_prompt_commands(prompts))
        return [
            *(EditorCommand(each.name, each.description, each.hint) for each in own),
            *(EditorCommand(each.name, each.summary, each.argument) for each in ours),
        ]

    def list_options(self) -> Sequence[EditorOption]:
        """List the mode, the model and the effort, with what they can be."""
        setup, about = self.setup, DESCRIPTIONS
        mode, model, effort = setup.modes.current, setup.model_name, setup.model.effort
        offered = [each for each in setup.modes.modes if self._is_offered(each)]
        modes = [(each, about[each]) for each in dict.fromkeys([*offered, mode])]
        models = [(each, "") for each in _list_models(setup)]
        efforts = [(each, "") for each in (*([] if effort else [_USUAL]), *get_args(Effort))]
        return (
            EditorOption("mode", "Permissions", "mode", mode, tuple(modes)),
            EditorOption("model", "Model", "model", model, tuple(models)),
            EditorOption("effort", "Effort", "thought_level", effort or _USUAL, tuple(efforts)),
        )

    def _is_offered(self, mode: str) -> bool:
        """Whether a person may switch to a mode; to the one that asks nothing if it began so."""
        return mode != "bypass" or self.options.mode == "bypass"

    async def choose(self, option: str, value: str) -> None:
        """Choose a value of an option.

        Raises:
            ConfigurationError: the option or the value does not exist.
        """
        setup = self.setup
        match option:
            case "mode" if self._is_offered(value):
                setup.modes.choose(value)
            case "model" if value in _list_models(setup):
                if value != setup.model_name:
                    opened, notes = open_model_of_run(
                        value, setup.session, os.environ, setup.settings
                    )
                    setup.model.exchange(opened)
                    tell(*notes)
            case "effort" if value in get_args(Effort):
                setup.model.effort = cast("Effort", value)
            case "effort" if value == _USUAL and not setup.model.effort:
                pass
            case _:
                raise ConfigurationError(f"{option} can't be {value[:80]!r}")

    async def admit(self, for_good: bool) -> None:
        """Connect to the servers of the editor that a person has agreed to now."""
        if for_good:
            try:
                await trio.to_thread.run_sync(agree, self.new, self.setup.workspace)
            except ConfigurationError as error:
                tell(str(error))  # it is asked again next time
        await self.nursery.start(self._connect)

    async def _connect(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep the connections, in the task that has opened them, to the end of the session."""
        connected = self.setup.servers.connected
        taken = {each.name.casefold() for each in connected.status} if connected else set[str]()
        wanted = [each for each in self.new if each.name.casefold() not in taken]
        async with open_connections(wanted, self.setup.tools) as opened:
            tell(*opened.notes)
            self.late.append(opened)
            task_status.started()
            await trio.sleep_forever()

    async def complete(self, text: str) -> tuple[Sequence[ContentBlock], dict[str, object]]:
        """Return what servers add to an input that names their prompts; see `/compact`."""
        first, _, words = text.strip().partition(" ")
        if first == "/compact":
            return (), {**COMPACT, **({"about": words} if words else {})}
        blocks = list[ContentBlock]()
        for each in self._servers:
            if each.connected is not None:
                more, notes = await read_server_parts(text, each.connected, self._name(each))
                blocks += more
                tell(*notes)
        return blocks, {}


def _list_models(setup: RunSetup) -> list[str]:
    """List the models whose keys are set, the present one first."""
    usable = [
        name
        for name in MODELS
        if (vendor := VENDORS.get(name.partition(":")[0]))
        and (vendor.key_in(os.environ) or not vendor.needs_key(os.environ))
    ]
    return list(dict.fromkeys([setup.model_name, *usable]))
