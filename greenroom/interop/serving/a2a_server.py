"""`A2AServer`: one agent, for other people's programs alone."""

from collections.abc import Iterable, Mapping

import trio

from greenroom.core._internal import JSON
from greenroom.interop.serving.asgi import App
from greenroom.interop.serving.client_tools import AgentFunction
from greenroom.interop.serving.guard import LOCAL
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.tokens import Tokens
from greenroom.interop.serving.web_server import WebServer
from greenroom.runtime import AgentRuntime


class A2AServer:
    """Serves one agent by A2A 1.0, the protocol between agents, and nothing else.

    A client finds the agent's card at `/.well-known/agent-card.json`, and speaks to the agent at
    `/a2a`, in JSON-RPC, or below `/a2a/v1`, in HTTP and JSON. Its contexts are sessions, and its
    tasks are turns: they belong to the name of its token, and nobody else finds them. What the
    agent asks is answered by the client's next message to the task. A `WebServer` with `a2a=True`
    does the same beside its own API.

    Args:
        runtime: runs the agent, and has the store of the sessions; it must be entered first.
        agent: an async function that takes the agent's internals alone, such as an `Agent`.
        card: fields of the card that replace ours, such as `skills`, or `supportedInterfaces` where
            clients know the server by another address.
        tokens: who may come in; None makes one token for an operator, for this machine alone.
        hosts: the names in the header `Host` that are ours.
        limits: the bounds of the server.

    Raises:
        TypeError: it is not an agent function.

    Example:
        ```python
        async with AgentRuntime(FileStore("sessions")) as runtime:
            await A2AServer(runtime, Agent("anthropic:", name="helper")).serve(port=8080)
        ```
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        agent: AgentFunction,
        *,
        card: Mapping[str, JSON] | None = None,
        tokens: Tokens | None = None,
        hosts: Iterable[str] = LOCAL,
        limits: ServerLimits | None = None,
    ) -> None:
        name = str(getattr(agent, "name", "") or getattr(agent, "__name__", "agent"))
        self._server = WebServer(
            runtime,
            {name: agent},
            tokens=tokens,
            hosts=hosts,
            limits=limits,
            page=False,
            a2a=True,
            card=card,
            api=False,
        )

    @property
    def app(self) -> App:
        """The server as an ASGI application, to be run on trio in the runtime's event loop."""
        return self._server.app

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        grace: float = 3.0,
        task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen until this is cancelled; the arguments and errors are those of `WebServer.serve`.

        Without tokens it prints the link with the token that it has made to standard error, and
        `nursery.start` returns it: `http://HOST:PORT/#token=TOKEN`.
        """
        await self._server.serve(host, port, grace=grace, task_status=task_status)
