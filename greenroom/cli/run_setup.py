"""Opens the parts of a run: the session, the rules, the model, the tools, the instructions.

Each part may add notes for the user, such as what has changed since the session's last run.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from math import inf
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import trio
from msgspec.structs import replace

from greenroom.agents import AskPerson, Skills, coder
from greenroom.agents._internal import ProjectText, Skill, read_notes, user_rules_path
from greenroom.cli.argument_values import is_server
from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.hooks import Hooks, SessionSource
from greenroom.cli.mcp_inputs import name_prompts
from greenroom.cli.mcp_setup import OpenServers, named_files, open_servers
from greenroom.cli.modes import ModeSwitch
from greenroom.cli.options import Options
from greenroom.cli.own_setup import OwnSetup, open_own_files
from greenroom.cli.run_rules import load_run_rules
from greenroom.cli.settings import Settings, collect_advice
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.staying import RunningCommands
from greenroom.cli.stored_sessions import (
    load_newest,
    load_session,
    open_store,
    traces_folder,
    working_folder,
)
from greenroom.core import ConfigurationError
from greenroom.llm import LLMProvider
from greenroom.llm._internal import AfterOutput, price_of, window_of
from greenroom.observability import TraceFile, Tracer
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime
from greenroom.runtime._internal import Unattended
from greenroom.session import AgentSession, SessionStore
from greenroom.tools import Sandbox, Tool, ToolRegistry, builtin_tools

if TYPE_CHECKING:
    from greenroom.interop import MCPServer
    from greenroom.interop._internal import MCPPrompt
    from greenroom.observability import JsonLog
Coder: TypeAlias = Callable[
    [AgentInternals, LLMProvider, ToolRegistry, PermissionManager], Awaitable[None]
]
"""The coding agent, except its model, its tools and its rules."""

_MAX_NAMED, _MAX_RULE = 5, 80  # rules that a note names, and characters of each
_SHOWN_NOTES = 10  # on skills
_FOREIGN = (
    "{path}: the model is told that these are not your words; "
    "greenroom permissions trust shows the file, and lets it count as yours"
)


class RunSetup(msgspec.Struct, frozen=True):
    """The parts of a run.

    Attributes:
        workspace: the folder that the agent works in.
        store: where sessions are kept.
        session: the conversation, new or loaded.
        model: the model.
        tools: the tools.
        permissions: the rules.
        modes: switches the mode of the rules.
        max_steps: model calls in one turn at the most.
        max_cost: what one turn may cost, or None.
        currency: of what the model costs; empty where that is not known.
        window: the tokens that the model takes, if the settings say so.
        instructions: what the model reads after the agent's prompt.
        sources: the texts of which that is made, but for skills.
        skills: the skills that the model may read.
        untrusted: texts of the project that the user has not agreed to.
        own: what the files of the user and of a trusted project bring.
        settings: what the user's settings say.
        tracer: what writes the trace, or None.
        servers: the servers of tools that it is connected to, and what they offer.
        commands: the commands that agents have left running.
        notes: what the user should know before it begins, a line each.
        warnings: what the user must know before it begins, a line each.
    """

    workspace: Path
    store: SessionStore
    session: AgentSession
    model: ExchangeableModel
    tools: ToolRegistry
    permissions: PermissionManager
    modes: ModeSwitch
    max_steps: int
    max_cost: float | None = None
    currency: str = ""
    window: int | None = None
    instructions: str = ""
    sources: tuple[ProjectText, ...] = ()
    skills: tuple[Skill, ...] = ()
    untrusted: tuple[ProjectText, ...] = ()
    own: OwnSetup | None = None
    settings: Settings = msgspec.field(default_factory=Settings)
    tracer: Tracer | None = None
    servers: OpenServers = msgspec.field(default_factory=OpenServers)
    commands: RunningCommands = msgspec.field(default_factory=RunningCommands)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def model_name(self) -> str:
        """The model in the form in which `--model` takes it."""
        return f"{self.model.name}:{self.model.model}"

    @property
    def prompts(self) -> Mapping[str, "MCPPrompt"]:
        """The prompts that servers offer, by their commands."""
        own = self.own.commands if self.own is not None else ()
        return name_prompts(self.servers.prompts, tuple(own))

    @property
    def gates(self) -> tuple[Hooks, ...]:
        """What is asked about each call beside the rules, for the runtime."""
        return (self.own.hooks,) if self.own is not None and len(self.own.hooks) else ()

    @property
    def instruments(self) -> tuple[object, ...]:
        """What watches the agents of this run, for the runtime."""
        turns = self.own.turns if self.own is not None else None
        ends = (self.commands,) if turns is None else (self.commands, turns.ends)
        return ends if self.tracer is None else (*ends, self.tracer)

    async def watch(self, handle: AgentHandle, source: SessionSource | None = None) -> None:
        """Run what belongs to the session beside its agent, until it is cancelled.

        Args:
            handle: the agent.
            source: why the session begins; by default whether it has a history.
        """
        if self.own is not None and len(self.own.hooks):
            usual: SessionSource = "resume" if self.session.history else "startup"
            await self.own.hooks.watch(handle, source or usual)

    def spawn(self, runtime: AgentRuntime, unattended: Unattended) -> AgentHandle:
        """Start the coding agent of this run."""
        parts = (self.model, self.tools, self.permissions)
        agent = self.bind_coder()
        return runtime.spawn(self.session, agent, *parts, unattended=unattended, name="coder")

    def bind_coder(self) -> Coder:
        """Return the coding agent, except its model, its tools and its rules."""
        return partial(
            coder,
            max_steps=self.max_steps,
            max_cost=self.max_cost,
            checkpoints=True,
            notes=self.instructions,
            delegates=(self.own and self.own.helpers) or True,
            hooks=self.own.turns if self.own is not None else None,
        )


def describe_untrusted(texts: Iterable[ProjectText]) -> list[str]:
    """Say of each text of a project that it does not count as the user's words, a line each."""
    return [_FOREIGN.format(path=each.path) for each in texts]


class RunPlace(NamedTuple):
    """Where a run begins that is not of the command line alone.

    Attributes:
        workspace: the folder to work in.
        session: the conversation, new or loaded.
        servers: servers of tools beside those in files.
    """

    workspace: Path
    session: AgentSession
    servers: Sequence["MCPServer"] = ()


@asynccontextmanager
async def open_setup(
    options: Options,
    env: Mapping[str, str] | None = None,
    place: RunPlace | None = None,
    *,
    with_servers: bool = True,
) -> AsyncIterator[RunSetup]:
    """Open the parts of a run, here or in that place; the model is closed with the block.

    Without `with_servers` no server of tools is started.

    Raises:
        ConfigurationError: an unknown model, a missing key, a rule or a setting that can't be used.
        SessionError: the session to continue is unknown or can't be read.
    """
    env = os.environ if env is None else env
    workspace = place.workspace if place else working_folder()
    rules = await load_run_rules(options, workspace)
    store = open_store(options)
    session = place.session if place else await _open_session(options, store, workspace)
    instructions = await trio.to_thread.run_sync(read_instructions, workspace, options.memory)
    notes = [*options.notes, *rules.notes, *instructions.faults]
    notes += [str(session.repair)] if session.repair is not None else []
    notes += restore_grants(session, rules.manager, workspace, options)
    settings = await trio.to_thread.run_sync(read_run_settings, workspace, env)
    # A program that reads the pieces has them already; a person is told to forget them.
    after_output: AfterOutput = "raise" if options.output_format == "stream-json" else "restart"
    model, about_model = open_model_of_run(options.model, session, env, settings, after_output)
    registry, about_tools = await _make_tools(options, settings, env, instructions)
    notes += [*about_model, *about_tools]
    shared = ExchangeableModel(model)
    open_model = partial(_open_other, settings, env, after_output, notes)
    connecting: AbstractAsyncContextManager[OpenServers] = nullcontext(OpenServers())
    if with_servers:
        own = place.servers if place else ()
        connecting = open_servers(workspace, env, registry, named_files(options), own)
    parts = (connecting, workspace, settings, open_model, shared, registry, rules.manager)
    try:
        async with open_tracer(options) as tracer, _open_files(options, env, *parts) as files:
            yield RunSetup(
                workspace=workspace,
                store=store,
                session=session,
                model=shared,
                tools=registry,
                permissions=rules.manager,
                modes=rules.modes,
                max_steps=options.max_steps,
                max_cost=_check_max_cost(options.max_cost, model),
                currency=settings.currency,
                window=window_of(model),
                instructions=instructions.text,
                sources=instructions.sources,
                skills=instructions.skills,
                untrusted=instructions.untrusted,
                settings=settings,
                own=files.own,
                tracer=tracer,
                servers=files.servers,
                notes=(*notes, *files.notes),
                warnings=rules.warnings,
            )
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await shared.aclose()  # and those that were taken in its place


async def _make_tools(
    options: Options, settings: Settings, env: Mapping[str, str], instructions: "Instructions"
) -> tuple[ToolRegistry, list[str]]:
    """Make the tools of a run; return them with notes."""
    sandbox = _make_sandbox(options)
    notes = [*await _describe_gaps(sandbox)]
    search, about_search = await trio.to_thread.run_sync(_open_search, settings, env)
    # A person who has left the terminal may answer when they are back.
    tools = [*builtin_tools(sandbox=sandbox), AskPerson(timeout=inf), *instructions.tools, *search]
    return ToolRegistry(tools), [*notes, *about_search]


def _open_other(
    settings: Settings,
    env: Mapping[str, str],
    after_output: AfterOutput,
    notes: list[str],
    name: str,
) -> LLMProvider:
    """Open another model for a run, and add what is to be said about it to the notes."""
    with collect_advice() as advice:
        opened = settings.make_resilient(settings.open(name, env), after_output)
    notes.extend(advice)
    return opened


class _OpenFiles(msgspec.Struct, frozen=True):
    """What files bring to a run: servers of tools, hooks, commands, agents, and notes on them."""

    servers: OpenServers
    own: OwnSetup
    notes: tuple[str, ...]


@asynccontextmanager
async def _open_files(
    options: Options,
    env: Mapping[str, str],
    connecting: AbstractAsyncContextManager[OpenServers],
    workspace: Path,
    settings: Settings,
    open_model: Callable[[str], LLMProvider],
    model: ExchangeableModel,
    tools: ToolRegistry,
    permissions: PermissionManager,
) -> AsyncIterator[_OpenFiles]:
    """Connect to the servers of the run, and open what else files bring."""
    parts = (workspace, settings, open_model, model, tools, permissions)
    async with connecting as servers, open_own_files(*parts) as own:
        yield _OpenFiles(servers, own, (*servers.notes, *own.notes))


@asynccontextmanager
async def open_tracer(options: Options) -> AsyncIterator[Tracer | None]:
    """Open what writes the trace beside the session, and into the log, if either is wanted."""
    log = _make_log() if options.log else ()
    if options.trace == "off":
        yield Tracer(*log, content="none") if log else None
        return
    async with TraceFile(traces_folder()) as file:
        yield Tracer(file, *log, content=options.trace)


def _make_log() -> "tuple[JsonLog]":
    from greenroom.observability import JsonLog  # loads what few runs need

    return (JsonLog(),)


def _open_search(
    settings: Settings, env: Mapping[str, str]
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Open what searches the web, if the user has set it up; a missing key is a note. Blocks."""
    if settings.web_search is None:
        return (), ()
    try:
        return (settings.web_search.open(env),), ()
    except ConfigurationError as error:
        return (), (f"WebSearch is off: {error}",)


def _check_max_cost(most: float | None, model: LLMProvider) -> float | None:
    if most is not None and price_of(model) is None:
        raise ConfigurationError(
            f"--max-cost needs the price of {model.name}:{model.model}, which is not known",
            hint="write it into your settings; greenroom models shows which are known",
        )
    return most


def _make_sandbox(options: Options) -> Sandbox | None:
    if options.sandbox == "off":
        return None
    return Sandbox(options.sandbox, options.sandbox_network)


async def _describe_gaps(sandbox: Sandbox | None) -> list[str]:
    """Describe what the requested sandbox does not confine on this machine."""
    if sandbox is None:
        return []
    from greenroom.tools import examine_sandbox  # loads what few runs need

    report = await examine_sandbox(sandbox)
    return [f"sandbox: {report}; greenroom doctor says why"] if report.lacking else []


async def _open_session(options: Options, store: SessionStore, workspace: Path) -> AgentSession:
    if options.resume is not None:
        return await load_session(options.resume, store, keep_open=True)
    if options.continue_last:
        return await load_newest(store, workspace, is_headless=options.prompt is not None)
    return AgentSession.new("coder", store=store)


def open_model_of_run(
    name: str | None,
    session: AgentSession,
    env: Mapping[str, str],
    settings: Settings,
    after_output: AfterOutput = "restart",
) -> tuple[LLMProvider, tuple[str, ...]]:
    """Open the named model, else the session's own, else the default; return it with notes.

    What fails for a while is retried, and a reply that breaks off is as `after_output` says.

    Raises:
        ConfigurationError: it was asked for, and can't be used.
    """
    with collect_advice() as advice:
        model, notes = _open_model(name, session, env, settings)
    return settings.make_resilient(model, after_output), (*advice, *notes)


def _open_model(
    name: str | None, session: AgentSession, env: Mapping[str, str], settings: Settings
) -> tuple[LLMProvider, tuple[str, ...]]:
    if name is not None:
        return settings.open(name, env), ()
    note = ""
    if session.model:
        own = f"{session.provider}:{session.model}"
        try:
            return settings.open(own, env), _describe_session_model(session, env, settings)
        except ConfigurationError as error:
            note = f"the session's own model, {own}, can't be used: {error}; "
    model = settings.open(None, env)
    if note:
        return model, (f"{note}{model.name}:{model.model} answers",)
    return model, (_describe_offline(env, settings),) if model.name == "offline" else ()


def _describe_session_model(
    session: AgentSession, env: Mapping[str, str], settings: Settings
) -> tuple[str, ...]:
    """Suggest another model if a key was set since the session began offline."""
    if session.provider != "offline":
        return ()
    usual = settings.choose(env).name
    if usual.startswith("offline:"):
        return (_describe_offline(env, settings),)
    return (f"the session's own model is the offline one; --model {usual} takes another",)


def _describe_offline(env: Mapping[str, str], settings: Settings) -> str:
    """Say why the offline model answers, and how to get another."""
    reason = settings.choose(env).reason.removeprefix("since ")
    keys = "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"
    fix = f"; set {keys}" if reason == "no key is set" else ""
    return f"{reason}, so the offline model answers{fix}"


def restore_grants(
    session: AgentSession, permissions: PermissionManager, workspace: Path, options: Options
) -> tuple[str, ...]:
    """Apply the answers that the session remembers; return notes on them and on what has changed.

    A store inside the workspace may have come with the project, from anyone: what it grants counts
    for nothing.
    """
    notes = list[str]()
    before = session.get_metadata("workspace")
    if isinstance(before, str) and before != str(workspace):
        notes.append(f"this session worked in {before} before; now it works in {workspace}")
    if session.conversation.grants and _is_inside(workspace, options.sessions):
        session.conversation.revoke_grants()
        notes.append(
            "the answers remembered in this session do not count, since it is stored in the project"
        )
    notes += permissions.bind_session(session, workspace)
    if rules := [str(rule) for rule in permissions.rules if rule.session == session.session_id]:
        named = ", ".join(shorten(rule, _MAX_RULE, placeholder=" …") for rule in rules[:_MAX_NAMED])
        more = f" and {len(rules) - _MAX_NAMED} more" if len(rules) > _MAX_NAMED else ""
        notes.append(f"remembered for this session: {named}{more}")
    return tuple(notes)


def _is_inside(workspace: Path, store: str | None) -> bool:
    if store is None or is_server(store):
        return False
    store = os.path.realpath(os.path.expanduser(store))
    return Path(store).is_relative_to(os.path.realpath(workspace))


class Instructions(msgspec.Struct, frozen=True):
    """What the model reads after the prompt, from the user and from the project.

    Attributes:
        text: for the model.
        tools: the tools that the text speaks of.
        sources: the texts of which it is made, but for skills.
        skills: the skills.
        from_project: texts of the project, whether the user has agreed to them or not.
        faults: files that can't be used, and why, a line each.
    """

    text: str
    tools: tuple[Tool, ...] = ()
    sources: tuple[ProjectText, ...] = ()
    skills: tuple[Skill, ...] = ()
    from_project: tuple[ProjectText, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def untrusted(self) -> tuple[ProjectText, ...]:
        """Texts of the project that the user has not agreed to."""
        return tuple(each for each in self.from_project if not each.is_trusted)


def read_instructions(workspace: Path, memory: bool = False) -> Instructions:
    """Collect what the agent of a run in this folder reads, perhaps with a memory; it blocks."""
    notes = read_notes(workspace)
    users = user_rules_path().with_name("skills")
    skills = Skills(*([users] if users.is_dir() else []), workspace=workspace)
    texts = (*notes.texts, *(each.text for each in skills))
    instructions = Instructions(
        "\n\n".join(filter(None, (skills.instructions, str(notes)))),
        skills.tools,
        notes.texts,
        tuple(skills),
        tuple(each for each in texts if not each.is_users),
        (*notes.faults, *_shorten(skills.faults), *_shorten(skills.warnings)),
    )
    return _add_memory(instructions, workspace) if memory else instructions


def _shorten(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Keep the first notes on skills, and count the others."""
    more = len(notes) - _SHOWN_NOTES
    return notes if more <= 1 else (*notes[:_SHOWN_NOTES], f"… and {more} more notes on skills")


def _add_memory(instructions: Instructions, workspace: Path) -> Instructions:
    """Add the tools of the folder's memory, and when to use them."""
    from greenroom.cli.memory_command import MEMORY_TEXT, tools_of_memory

    text = "\n\n".join(filter(None, (instructions.text, MEMORY_TEXT)))
    tools = (*instructions.tools, *tools_of_memory(workspace))
    return replace(instructions, text=text, tools=tools)
