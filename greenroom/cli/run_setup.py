"""Opens the parts of a run: the session, the rules, the model, the tools, the instructions.

Each part may add notes for the user, such as what has changed since the session's last run.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from textwrap import shorten

import trio

from greenroom.agents import AskPerson, Skills, coder
from greenroom.agents._internal import ProjectText, Skill, read_notes
from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.hooks import Hooks
from greenroom.cli.modes import ModeSwitch
from greenroom.cli.options import Options
from greenroom.cli.own_setup import OwnSetup, open_own_files
from greenroom.cli.run_rules import load_run_rules
from greenroom.cli.settings import Settings, collect_advice
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.stored_sessions import load_newest, load_session, open_store, working_folder
from greenroom.core import ConfigurationError
from greenroom.llm import LLMProvider
from greenroom.llm._internal import AfterOutput, price_of, window_of
from greenroom.observability import TraceFile, Tracer
from greenroom.permissions import PermissionManager
from greenroom.permissions._internal import user_rules_path
from greenroom.runtime import AgentHandle, AgentRuntime
from greenroom.runtime._internal import Unattended
from greenroom.session import AgentSession, SessionStore
from greenroom.tools import Sandbox, Tool, ToolRegistry, builtin_tools, examine_sandbox

_MAX_NAMED, _MAX_RULE = 5, 80  # rules that a note names, and characters of each
_SHOWN_NOTES = 10  # on skills
_FOREIGN = (
    "{path}: the model is told that these are not your words; "
    "greenroom permissions trust shows the file, and lets it count as yours"
)


@dataclass(frozen=True)
class RunSetup:
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
        own: what the files of the user and of a trusted project bring.
        settings: what the user's settings say.
        tracer: what writes the trace, or None.
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
    own: OwnSetup | None = None
    settings: Settings = field(default_factory=Settings)
    tracer: Tracer | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def model_name(self) -> str:
        """The model in the form in which `--model` takes it."""
        return f"{self.model.name}:{self.model.model}"

    @property
    def gates(self) -> tuple[Hooks, ...]:
        """What is asked about each call beside the rules, for the runtime."""
        return (self.own.hooks,) if self.own is not None and len(self.own.hooks) else ()

    @property
    def instruments(self) -> tuple[object, ...]:
        """What watches the agents of this run, for the runtime."""
        turns = self.own.turns if self.own is not None else None
        ends = () if turns is None else (turns.ends,)
        return ends if self.tracer is None else (*ends, self.tracer)

    async def watch(self, handle: AgentHandle) -> None:
        """Run what belongs to the session beside its agent, until it is cancelled."""
        if self.own is not None and len(self.own.hooks):
            await self.own.hooks.watch(handle, "resume" if self.session.history else "startup")

    def spawn(self, runtime: AgentRuntime, unattended: Unattended) -> AgentHandle:
        """Start the coding agent of this run."""
        agent = partial(
            coder,
            max_steps=self.max_steps,
            max_cost=self.max_cost,
            checkpoints=True,
            notes=self.instructions,
            delegates=(self.own and self.own.helpers) or True,
            hooks=self.own.turns if self.own is not None else None,
        )
        parts = (self.model, self.tools, self.permissions)
        return runtime.spawn(self.session, agent, *parts, unattended=unattended, name="coder")


@asynccontextmanager
async def open_setup(
    options: Options, env: Mapping[str, str] | None = None
) -> AsyncIterator[RunSetup]:
    """Open the parts of a run in the working directory; the model is closed with the block.

    Raises:
        ConfigurationError: an unknown model, a missing key, a rule or a setting that can't be used.
        SessionError: the session to continue is unknown or can't be read.
    """
    env = os.environ if env is None else env
    workspace = working_folder()
    rules = await load_run_rules(options, workspace)
    store = open_store(options)
    session = await _open_session(options, store, workspace)
    instructions = await trio.to_thread.run_sync(read_instructions, workspace, options.memory)
    notes = [*options.notes, *rules.notes, *instructions.notes]
    if session.repair is not None:
        notes.append(str(session.repair))
    notes += restore_grants(session, rules.manager, workspace, options)
    settings = await trio.to_thread.run_sync(read_run_settings, workspace, env)
    # A program that reads the pieces has them already; a person is told to forget them.
    after_output: AfterOutput = "raise" if options.output_format == "stream-json" else "restart"
    model, about_model = open_model_of_run(options.model, session, env, settings, after_output)
    sandbox = _make_sandbox(options)
    notes += [*about_model, *await _describe_gaps(sandbox)]
    # A person who has left the terminal may answer when they are back.
    tools = [*builtin_tools(sandbox=sandbox), AskPerson(timeout=inf), *instructions.tools]
    registry, shared = ToolRegistry(tools), ExchangeableModel(model)

    def open_model(name: str) -> LLMProvider:
        with collect_advice() as advice:
            opened = settings.make_resilient(settings.open(name, env), after_output)
        notes.extend(advice)
        return opened

    parts = (settings, open_model, shared, registry, rules.manager)
    try:
        async with _open_tracer(options) as tracer, open_own_files(workspace, *parts) as own:
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
                settings=settings,
                own=own,
                tracer=tracer,
                notes=(*notes, *own.notes),
                warnings=rules.warnings,
            )
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await model.aclose()


@asynccontextmanager
async def _open_tracer(options: Options) -> AsyncIterator[Tracer | None]:
    """Open what writes the trace beside the session, if it is wanted."""
    if options.trace == "off":
        yield None
        return
    async with TraceFile() as file:
        yield Tracer(file, content=options.trace)


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
    if store is None:
        return False
    return Path(os.path.realpath(store)).is_relative_to(os.path.realpath(workspace))


@dataclass(frozen=True)
class Instructions:
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
    def notes(self) -> tuple[str, ...]:
        """What the user should know, a line each."""
        foreign = (each.path for each in self.from_project if not each.is_trusted)
        return (*(_FOREIGN.format(path=path) for path in foreign), *self.faults)


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
