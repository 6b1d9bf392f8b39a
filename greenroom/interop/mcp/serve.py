"""`serve_mcp`: tools of ours, or an agent, for the clients of the Model Context Protocol."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

import trio

from greenroom.agents import Runnable, Tools
from greenroom.agents._internal import Toolbox
from greenroom.core._internal import leaves
from greenroom.interop.mcp.server import require_sdk
from greenroom.interop.serving.guard import LOCAL
from greenroom.interop.serving.tokens import Tokens
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime
from greenroom.session import InMemoryStore

if TYPE_CHECKING:
    from greenroom.interop.mcp.served import ServedTools

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


async def serve_mcp(
    tools: "Tools | Runnable[DepsT, OutputT]",
    *,
    runtime: AgentRuntime | None = None,
    permissions: PermissionManager | None = None,
    http: tuple[str, int] | None = None,
    tokens: Tokens | None = None,
    hosts: Iterable[str] = LOCAL,
    origins: Iterable[str] = (),
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Offer tools to clients of the protocol, such as editors and other agents.

    On standard streams it serves the one client that has started this process, and returns when
    that leaves. What else is printed goes to standard error meanwhile. With `http` it listens until
    it is cancelled, and lets in only requests with a token.

    Each call is an agent of its own: rules, gates and instruments see it as they see a model's
    call. What the rules leave open is asked at the client, if it shows forms to a person
    (elicitation), each time anew; else it is denied. A cancel ends the call, and progress is shown
    to a client that wants it. The calls of one client, or one token, share a working folder and
    what their tools remember. It needs `pip install 'greenroom[mcp]'`, and over HTTP
    `'greenroom[serve]'`.

    Args:
        tools: functions, tools and providers of tools, as for an `Agent`; or an agent, which is one
            tool that takes a text.
        runtime: runs the calls; by default a runtime of its own, which keeps nothing.
        permissions: the rules; without any, functions may be called and files read, and all else
            is asked about.
        http: the host and the port to listen at; port 0 takes a free one.
        tokens: who may come in over HTTP: operators and admins. None makes one token for this
            machine alone, and prints it to standard error.
        hosts: the names in the header `Host` that are ours.
        origins: the origins of other sites whose pages may call the tools.
        task_status: for `nursery.start`, which returns the URL, or "" on standard streams.

    Raises:
        ToolError: something in `tools` can't be a tool.
        ConfigurationError: the SDK is not installed, the address can't be had, or it is not this
            machine's alone and there are no tokens.

    Example:
        ```python
        def add(a: int, b: int) -> int:
            \"\"\"Add two numbers.\"\"\"
            return a + b

        trio.run(serve_mcp, [add])  # on standard streams: name this program in `.mcp.json`
        ```
    """
    make = await trio.to_thread.run_sync(_load)
    toolbox = Toolbox.of([tools.as_tool()] if isinstance(tools, Runnable) else tools)
    try:
        async with AsyncExitStack() as stack:
            if runtime is None:
                own = AgentRuntime(store=InMemoryStore())
                runtime = await stack.enter_async_context(own)
            calls = await stack.enter_async_context(trio.open_nursery())
            served = make(runtime, toolbox, permissions, calls)
            if http is None:
                from greenroom.interop.mcp.stdio import open_standard_streams

                streams = await stack.enter_async_context(open_standard_streams())
                task_status.started("")
                await served.serve(streams)
            else:
                from greenroom.interop.mcp.serve_http import serve_http

                await serve_http(
                    served,
                    http,
                    tokens=tokens,
                    hosts=hosts,
                    origins=origins,
                    task_status=task_status,
                )
            calls.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        found = leaves(group)
        if len(found) > 1:
            raise
        raise found[0] from found[0].__cause__


def _load() -> "type[ServedTools]":
    """Load the SDK, which takes a while."""
    require_sdk()
    from greenroom.interop.mcp.served import ServedTools

    return ServedTools
