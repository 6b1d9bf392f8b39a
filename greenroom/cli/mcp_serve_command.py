"""`greenroom mcp serve`: the built-in tools and the coding agent, for clients of the protocol."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from greenroom.agents import AskPerson
from greenroom.agents._internal import user_rules_path
from greenroom.cli.command_options import MCPOptions
from greenroom.cli.run_rules import load_run_rules
from greenroom.cli.run_setup import RunSetup, describe_untrusted, open_setup
from greenroom.cli.stdio import tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core import AgentContext, ConfigurationError, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import leaves
from greenroom.interop import Tokens, serve_mcp
from greenroom.interop._internal import LOCAL
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime, spawn_subagent
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import Sandbox, Tool, builtin_tools


async def serve_tools(options: MCPOptions) -> int:
    """Serve until the client leaves, or a signal comes; return the exit code.

    Raises:
        ConfigurationError: the SDK is not installed, or a model, a rule, a token or the address
            can't be used.
    """
    address = _read_address(options.http)
    if address is not None and options.mode == "bypass":
        raise ConfigurationError(
            "a server never runs in the mode bypass, which asks nothing",
            hint="choose another with --permission-mode",
        )
    tokens = None if address is None else await _load_tokens(options)
    async with _open_parts(options) as parts:
        runtime = AgentRuntime(
            InMemoryStore(),
            workspace=working_folder(),
            gates=parts.gates,
            instruments=parts.instruments,
        )
        async with runtime:
            serve = partial(
                serve_mcp,
                parts.tools,
                runtime=runtime,
                permissions=parts.permissions,
                http=address,
                tokens=tokens,
                hosts=(*LOCAL, *options.allowed_hosts),
                origins=options.allowed_origins,
            )
            await _run_until_signal(serve)
    return 0


@dataclass(frozen=True)
class _Parts:
    """What is served, by which rules."""

    tools: tuple[Tool, ...]
    permissions: PermissionManager
    gates: tuple[object, ...] = ()
    instruments: tuple[object, ...] = ()


@asynccontextmanager
async def _open_parts(options: MCPOptions) -> AsyncIterator[_Parts]:
    """Open the tools, and the coding agent unless only they are wanted.

    It connects to no servers of tools: the client has its own, and one of them may be this.
    """
    if not options.agent:
        rules = await load_run_rules(options, working_folder())
        tell(*rules.warnings, *rules.notes)
        sandbox = None
        if options.sandbox != "off":
            sandbox = Sandbox(options.sandbox, options.sandbox_network)
        yield _Parts((*builtin_tools(sandbox=sandbox), AskPerson()), rules.manager)
        return
    async with open_setup(options, with_servers=False) as setup:
        tell(*setup.warnings, *describe_untrusted(setup.untrusted), *setup.notes)
        tools = [each for each in setup.tools if isinstance(each, Tool)]
        parts = (*tools, CodingAgent(setup))
        yield _Parts(parts, setup.permissions, setup.gates, setup.instruments)


class CodingAgent:
    """The coding agent as a tool: it is given a task, and returns what it said at the end.

    Args:
        setup: the parts of its run.
    """

    name = "coder"
    category = "agent"
    requires_permission = False  # what it does is judged call by call
    timeout = 24 * 3600.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "minLength": 1,
                "description": "The whole task: the agent knows nothing of your conversation.",
            }
        },
        "required": ["prompt"],
        "additionalProperties": False,
    }

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self.description = (
            f"Give a coding agent a task in {setup.workspace}: it reads, searches, edits and runs"
            " until it is done, and tells what it did."
        )

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the task."""
        return ToolInfo("Give the coding agent a task", str(input["prompt"]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the agent until its turn is over.

        Raises:
            ToolError: its turn failed, or there is no agent that calls.
        """
        setup = self._setup
        parts = (setup.model, setup.tools, setup.permissions)
        session = AgentSession.new("coder")
        handle = spawn_subagent(session, setup.bind_coder(), *parts, report=False, name="coder")
        if handle is None:
            raise ToolError("the coding agent runs within a call of an agent")
        result = await handle.ask(str(input["prompt"]))
        if result.error:
            raise ToolError(f"the coding agent has not finished: {result.error}")
        return ToolResult.ok(result.text)


async def _run_until_signal(serve: Callable[[], Awaitable[None]]) -> None:
    """Serve until that returns, or a signal comes."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_at_signal, nursery.cancel_scope)
            await serve()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        found = leaves(group)
        if len(found) > 1:
            raise
        raise found[0] from found[0].__cause__


async def _stop_at_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        await anext(aiter(signals))
        scope.cancel()


def _read_address(text: str | None) -> tuple[str, int] | None:
    """Read HOST:PORT, or a port of this machine.

    Example:
        >>> _read_address("127.0.0.1:8080"), _read_address("0"), _read_address("[::1]:80")
        (('127.0.0.1', 8080), ('127.0.0.1', 0), ('::1', 80))
    """
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"--http {text} can't be used", hint="write HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _load_tokens(options: MCPOptions) -> Tokens | None:
    path = Path(options.token_file) if options.token_file else user_rules_path().with_name("tokens")
    if options.token_file is None and not await trio.Path(path).exists():
        return None
    return await trio.to_thread.run_sync(Tokens.load, path)
