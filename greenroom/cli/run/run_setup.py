"""What every run is made of: the model, the tools, the rules, the session."""

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.agents import AskPerson, coder
from greenroom.cli.run.conversation import load_session, newest_session
from greenroom.cli.run.folders import memory_file, working_folder
from greenroom.cli.run.instructions import instructions_of_run, with_memory
from greenroom.cli.run.resumption import model_of_run, take_over
from greenroom.cli.run.rules import rules_of_run
from greenroom.cli.run.sandbox import sandbox_of_run
from greenroom.cli.run.settings import read_settings
from greenroom.cli.run.store import open_store
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentHandle, AgentRuntime, Unattended
from greenroom.session import AgentSession, SessionStore
from greenroom.tools import Sandbox, ToolRegistry, builtin_tools, examine_sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from greenroom.cli.options import Options


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
        max_steps: model calls in one turn at the most.
        currency: of what the model costs; empty where that is not known.
        instructions: what the model is told behind the agent's prompt.
        notes: what the user should be told before it begins, a line each.
        warnings: what the user must be told before it begins, a line each.
    """

    workspace: Path
    store: SessionStore
    session: AgentSession
    model: LLMProvider
    tools: ToolRegistry
    permissions: PermissionManager
    max_steps: int
    currency: str = ""
    instructions: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def model_name(self) -> str:
        """The model in the form in which `--model` takes it."""
        return f"{self.model.name}:{self.model.model}"

    def spawn(self, runtime: AgentRuntime, unattended: Unattended) -> AgentHandle:
        """Start the coding agent of this run."""
        agent = partial(coder, max_steps=self.max_steps, checkpoints=True, notes=self.instructions)
        parts = (self.model, self.tools, self.permissions)
        return runtime.spawn(self.session, agent, *parts, unattended=unattended, name="coder")


def open_setup(
    options: "Options", env: Mapping[str, str] = os.environ
) -> AbstractAsyncContextManager[RunSetup]:
    """Open the parts of a run in the working directory; the model is closed with the block.

    Raises:
        ConfigurationError: an unknown model, a missing key, a rule or a setting that can't be used.
        SessionError: the session to go on with is unknown or can't be read.
    """
    return _open(options, env)


@asynccontextmanager
async def _open(options: "Options", env: Mapping[str, str]) -> "AsyncIterator[RunSetup]":
    workspace = working_folder()
    rules = await trio.to_thread.run_sync(
        rules_of_run,
        workspace,
        options.allow,
        options.deny,
        options.mode,
        options.read_only,
        options.sandboxed,
    )
    store = open_store(options)
    session = await _session(options, store, workspace)
    instructions = await trio.to_thread.run_sync(instructions_of_run, workspace)
    if options.memory:
        from greenroom.memory import SQLiteMemory

        instructions = with_memory(instructions, SQLiteMemory(memory_file(workspace)))
    notes = [*rules.notes, *instructions.notes]
    if session.repair is not None:
        notes.append(str(session.repair))
    notes += take_over(session, rules.manager, workspace, options)
    settings = await trio.to_thread.run_sync(read_settings)
    model, about_model = model_of_run(options.model, session, env, settings)
    notes += about_model
    sandbox = sandbox_of_run(options)
    notes += await _not_held(sandbox)
    try:
        yield RunSetup(
            workspace=workspace,
            store=store,
            session=session,
            model=model,
            tools=ToolRegistry(
                # A person who has left the terminal may answer when they are back.
                [*builtin_tools(sandbox=sandbox), AskPerson(timeout=inf), *instructions.tools]
            ),
            permissions=rules.manager,
            max_steps=options.max_steps,
            currency=settings.currency,
            instructions=instructions.text,
            notes=tuple(notes),
            warnings=rules.warnings,
        )
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await model.aclose()


async def _not_held(sandbox: Sandbox | None) -> list[str]:
    """Say what a sandbox that was asked for does not hold on this machine."""
    if sandbox is None:
        return []
    report = await examine_sandbox(sandbox)
    return [f"sandbox: {report}; greenroom doctor says why"] if report.lacking else []


async def _session(options: "Options", store: SessionStore, workspace: Path) -> AgentSession:
    if options.resume is not None:
        return await load_session(options.resume, store, keep_open=True)
    if options.continue_last:
        return await newest_session(store, workspace)
    return AgentSession.new("coder", store=store)
