"""A server on the SDK of A2A's makers, in a thread with an event loop of its own."""

import asyncio
import socket
import threading

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette


class Obedient(AgentExecutor):
    """Does what the first word of a message says; the rest is what it speaks about."""

    def __init__(self):
        self.running, self.said, self.tokens = 0, [], []

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        self.said.append((context.context_id, text))
        word, _, rest = text.partition(" ")
        if word == "message":
            parts = [Part(text=rest)]
            message = Message(
                message_id="a", role=Role.ROLE_AGENT, parts=parts, context_id=context.context_id
            )
            await event_queue.enqueue_event(message)
            return
        if context.current_task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(
                Task(id=context.task_id, context_id=context.context_id, status=status)
            )
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work(_say(updater, "on it"))
        await getattr(self, f"do_{word}", self.do_echo)(updater, rest)

    async def do_echo(self, updater, rest):
        await updater.complete(_say(updater, f"echo {rest}"))

    async def do_draw(self, updater, rest):
        await updater.add_artifact([Part(text="one ")], artifact_id="x", name="a/b.txt")
        parts = [Part(text=rest)]
        await updater.add_artifact(parts, artifact_id="x", name="a/b.txt", append=True)
        await updater.complete()

    async def do_ask(self, updater, rest):
        await updater.requires_input(_say(updater, f"Which {rest}?"))

    async def do_authorize(self, updater, rest):
        await updater.requires_auth(_say(updater, "log in first"))

    async def do_fail(self, updater, rest):
        await updater.failed(_say(updater, f"no {rest}"))

    async def do_wait(self, updater, rest):
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def _say(updater, text):
    return updater.new_agent_message([Part(text=text)])


class SdkServer:
    """The server; `link` is its address while it runs."""

    def __init__(self, *, streaming=True):
        self.agent, self.link = Obedient(), ""
        self._streaming = streaming
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.link = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._config = Config()
        self._config.bind = [f"fd://{listener.detach()}"]
        self._config.errorlog = None
        self._config.graceful_timeout = self._config.shutdown_timeout = 0.1
        self._thread.start()
        self._has_begun.wait()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """End it, and wait for its end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    async def _run(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._has_begun.set()
        card = self._card()
        handler = DefaultRequestHandler(
            agent_executor=self.agent, task_store=InMemoryTaskStore(), agent_card=card
        )
        routes = [
            *create_agent_card_routes(agent_card=card),
            *create_jsonrpc_routes(request_handler=handler, rpc_url="/rpc"),
        ]
        app = Starlette(routes=routes)

        async def remember(scope, receive, send):
            if scope["type"] == "http":
                self.agent.tokens.append(dict(scope["headers"]).get(b"authorization", b"").decode())
            await app(scope, receive, send)

        await serve(remember, self._config, shutdown_trigger=self._end.wait)

    def _card(self):
        spoken = AgentInterface(
            url=f"{self.link}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"
        )
        return AgentCard(
            name="obedient",
            description="does as it is told",
            version="1",
            supported_interfaces=[spoken],
            capabilities=AgentCapabilities(streaming=self._streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
        )
