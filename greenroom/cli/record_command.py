"""`greenroom drift` and `greenroom export-test`: recorded sessions against the agents of today."""

import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import TypeAlias, cast

import trio

from greenroom.cli.command_options import RecordOptions
from greenroom.cli.options import FAILED
from greenroom.cli.sessions_read import write_new_file
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store, traces_folder, working_folder
from greenroom.core import ConfigurationError
from greenroom.core._internal import describe_error, serde, visible
from greenroom.observability import Trace, read_trace
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession
from greenroom.testing import drift, export_test

AgentFunction: TypeAlias = Callable[[AgentInternals], Awaitable[object]]


async def show_drift(options: RecordOptions) -> int:
    """Say at which request an agent would ask its model something else than in a session.

    The exit code is 1 if it would.

    Raises:
        ConfigurationError: the agent can't be imported, or the trace has no content.
        SessionError: the session is unknown, or has no trace.
        OSError: standard output can't be written.
    """
    session, trace = await _read(options)
    agent = await trio.to_thread.run_sync(import_agent, options.agent, str(working_folder()))
    found = await drift(session, trace, agent)
    output = OutputWriter()
    if options.json:
        await output.line(serde.encode(found and {"step": found.step, "diff": found.diff}))
    elif found is None:
        await output.text("nothing differs")
    else:
        await output.text(f"request {found.step} differs\n{visible(found.diff)}")
    return 0 if found is None else FAILED


async def write_test(options: RecordOptions) -> int:
    """Write a test file of a session to standard output, or to a new file.

    Raises:
        ConfigurationError: the agent's place makes no sense, the trace has no content, or the file
            exists.
        SessionError: the session is unknown, or has no trace.
        OSError: the file or standard output can't be written.
    """
    source = await export_test(*await _read(options), options.agent)
    if options.output is None:
        await OutputWriter().text(source.removesuffix("\n"))
        return 0
    write = partial(write_new_file, options.output, source, force=options.force)
    await trio.to_thread.run_sync(write)
    tell(f"written: {options.output}; run it with pytest")
    return 0


async def _read(options: RecordOptions) -> tuple[AgentSession, Trace]:
    store = open_store(options)
    session = await load_session(options.ids[0], store, keep_open=True)
    return session, await read_trace(session.session_id, store=store, folder=traces_folder())


def import_agent(place: str, folder: str) -> AgentFunction:
    """Import an agent or an agent function; it runs the module, and blocks.

    Args:
        place: "MODULE:NAME".
        folder: a folder that modules are looked for in first.

    Raises:
        ConfigurationError: the module or the name does not exist, importing it failed, or the
            value can't be an agent.
    """
    found = import_value(place, folder)
    if not callable(found):
        raise ConfigurationError(
            f"{place} is not an agent: its type is {type(found).__name__}",
            hint="name an Agent, or an async function that takes an AgentInternals",
        )
    return cast("AgentFunction", found)


def import_value(place: str, folder: str) -> object:
    """Import what a program has under a name; it runs the module, and blocks.

    Raises:
        ConfigurationError: the module or the name does not exist, or importing it failed.
    """
    module, _, name = place.partition(":")
    if module.endswith(".py"):
        path = os.path.relpath(os.path.join(folder, module), folder)
        dotted = path.removesuffix(".py").replace("/", ".")
        hint = f"write {dotted}:{name or 'NAME'}"
        raise ConfigurationError(f"{module} is a file, not a module", hint=hint)
    if not (module and name):
        raise ConfigurationError(
            f"{place!r} does not say where the agent is", hint="write MODULE:NAME, as shop.bots:ann"
        )
    if folder not in map(os.path.abspath, sys.path):
        sys.path.insert(0, folder)
    try:
        found: object = getattr(import_module(module), name)
    except Exception as error:  # the module may raise anything
        raise ConfigurationError(
            f"{place} can't be imported: {describe_error(error)}",
            hint=f"modules are looked for in {folder}, and where Python finds them",
        ) from error
    return found
