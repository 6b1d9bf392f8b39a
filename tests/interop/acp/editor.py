"""An editor in memory, which holds every message to the schema of the protocol."""

import json
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import jsonschema
import trio

from greenroom.agents import AskPerson
from greenroom.core import ConfigurationError, SessionNotFoundError
from greenroom.interop._internal import EditorCommand, EditorOption, EditorServer, SessionParts
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import ToolRegistry, builtin_tools

SCHEMA = json.loads((Path(__file__).parent / "schema.json").read_text())


def _find_form(method, kind):
    for name, each in SCHEMA["$defs"].items():
        if each.get("x-method") == method and name.endswith(kind):
            return name
    raise AssertionError(f"the schema has no {kind} of {method}")


UPDATES = {
    each["properties"]["sessionUpdate"]["const"]: each
    for each in SCHEMA["$defs"]["SessionUpdate"]["oneOf"]
}
"""The forms of updates by their names, which takes a tenth of the time of trying each."""


@cache
def _validator(name, kind):
    form = UPDATES[name] if kind == "update" else {"$ref": f"#/$defs/{name}"}
    return jsonschema.Draft202012Validator({"$defs": SCHEMA["$defs"], **form})


def check(value, form):
    """Hold a value to a form of the schema."""
    _validator(form, "form").validate(value)


def check_update(params):
    """Hold what is said of a session to the schema."""
    assert set(params) == {"sessionId", "update"}
    check(params["sessionId"], "SessionId")
    _validator(params["update"]["sessionUpdate"], "update").validate(params["update"])


class Refused(Exception):
    """The server has answered with an error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Editor:
    """The other side of a server.

    Attributes:
        updates: what the server has sent of sessions, in order: session and update.
        asked: the server's requests, in order: method and parameters.
        notes: its other notifications.
        answers: what answers a request of the server, by its method; it may wait.
    """

    def __init__(self, send, nursery):
        self.updates, self.asked, self.notes = [], [], []
        self.answers = {}
        self._send, self._nursery = send, nursery
        self._waiting, self._last_id = {}, 0
        self._changed = trio.Event()
        self.faults = []  # answers to nothing
        self.reads = trio.Event()
        self.reads.set()

    async def write(self, *lines):
        for each in lines:
            data = each if isinstance(each, bytes) else json.dumps(each).encode()
            await self._send.send(data + b"\n")

    async def begin(self, method, **params):
        """Send a request; return its id."""
        id_ = self._last_id = self._last_id + 1
        check(params, _find_form(method, "Request"))
        self._waiting[id_] = [method, trio.Event(), None]
        await self.write({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return id_

    def is_answered(self, id_):
        return self._waiting[id_][1].is_set()

    async def wait(self, id_):
        """Wait for the result of a request."""
        waiting = self._waiting[id_]
        await waiting[1].wait()
        if "error" in waiting[2]:
            raise Refused(waiting[2]["error"])
        return waiting[2]["result"]

    async def ask(self, method, **params):
        return await self.wait(await self.begin(method, **params))

    async def tell(self, method, **params):
        await self.write({"jsonrpc": "2.0", "method": method, "params": params})

    async def until(self, is_so):
        """Wait until the server has sent what makes this true."""
        while not is_so(self):
            self._changed = trio.Event()
            await self._changed.wait()

    def shown(self, *kinds, session=None):
        """Return the updates of these kinds, in order."""
        return [
            update
            for name, update in self.updates
            if update["sessionUpdate"] in kinds and session in (None, name)
        ]

    def text(self, kind="agent_message_chunk", session=None):
        return "".join(each["content"]["text"] for each in self.shown(kind, session=session))

    async def take(self, data):
        await self.reads.wait()
        for line in data.splitlines():
            await self._take(json.loads(line))
        self._changed.set()

    async def _take(self, message):
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            self._take_reply(message)
            return
        method, params = message["method"], message.get("params")
        if "id" in message:
            check(params, _find_form(method, "Request"))
            self.asked.append((method, params))
            self._nursery.start_soon(self._answer, message["id"], method, params)
        elif method == "session/update":
            check_update(params)
            self.updates.append((params["sessionId"], params["update"]))
        else:
            self.notes.append((method, params))

    def _take_reply(self, message):
        if "error" in message:
            check(message["error"], "Error")
        waiting = self._waiting.get(message.get("id"))
        if waiting is None:
            self.faults.append(message)
            return
        if "result" in message:
            check(message["result"], _find_form(waiting[0], "Response"))
        waiting[2] = message
        waiting[1].set()

    async def _answer(self, id_, method, params):
        try:
            result = await self.answers[method](params)
        except Refused as error:
            fault = {"code": error.code, "message": str(error)}
            await self.write({"jsonrpc": "2.0", "id": id_, "error": fault})
            return
        check(result, _find_form(method, "Response"))
        await self.write({"jsonrpc": "2.0", "id": id_, "result": result})


class Opener:
    """Opens sessions of an agent in memory.

    Attributes:
        store: where they are.
        opened: the requests, in order.
        handles: the agents, by session.
    """

    def __init__(self, agent, *, tools=None, limits=None):
        self.store = InMemoryStore()
        self.opened, self.handles = [], {}
        self._agent, self._tools = agent, tools
        self._limits = limits
        self.models = ["one", "two"]
        self.waiting, self.admitted, self.has_fault = (), [], ""

    def new(self):
        return AgentSession.new("coder", store=self.store)

    async def load(self, session_id):
        return await AgentSession.load(session_id, store=self.store)

    async def list_page(self, after):
        return await self.store.list_page(after, 2)

    async def delete(self, session_id):
        with suppress(SessionNotFoundError):
            await AgentSession.delete(session_id, store=self.store)

    async def admit(self, for_good):
        self.admitted.append(for_good)

    @asynccontextmanager
    async def open(self, request):
        self.opened.append(request)
        tools = ToolRegistry(self._tools or [*builtin_tools(), AskPerson()])
        rules = [PermissionRule.allow_tool("Read", "Glob", "Grep", "Task")]
        permissions = PermissionManager(rules)
        async with AgentRuntime(self.store, self._limits, request.folder) as runtime:
            runtime.resources.insert(request.files)
            handle = runtime.spawn(request.session, self._agent, tools, permissions)
            self.handles[request.session.session_id] = handle
            chosen = {"model": "one"}

            async def choose(option, value):
                if option == "mode" and value in ("default", "plan"):
                    permissions.mode = value
                elif option == "model" and value in self.models:
                    chosen["model"] = value
                else:
                    raise ConfigurationError(f"{option} can't be {value}")

            async def complete(text):
                return (), {}

            def begin():
                if request.session.session_id == self.has_fault:
                    raise RuntimeError("a fault of ours")
                request.session.set_metadata("workspace", str(request.folder))
                if request.session.get_metadata("title") is None:
                    request.session.set_metadata("title", "A title")

            yield SessionParts(
                handle=handle,
                session=request.session,
                tools=tools,
                folder=request.folder,
                currency="USD",
                window=lambda: 200_000,
                commands=lambda: [EditorCommand("greet", "say hello", "[NAME]")],
                options=lambda: (
                    EditorOption(
                        "mode",
                        "Permissions",
                        "mode",
                        permissions.mode,
                        (("default", "asks"), ("plan", "reads")),
                    ),
                    EditorOption(
                        "model", "Model", "model", chosen["model"], (("one", ""), ("two", ""))
                    ),
                ),
                choose=choose,
                warnings=("a warning",),
                waiting=self.waiting,
                admit=self.admit,
                begin=begin,
                complete=complete,
            )


@asynccontextmanager
async def open_editor(opener, *, initialize=True, **capabilities):
    """Yield an editor that is connected with a server; at the end its side is closed."""
    with trio.fail_after(60):  # a net: nothing waits for it
        async with _connect(opener, initialize, capabilities) as editor:
            yield editor


@asynccontextmanager
async def _connect(opener, initialize, capabilities):
    to_server, from_editor = trio.open_memory_channel(100)
    async with trio.open_nursery() as nursery:
        editor = Editor(to_server, nursery)
        ended = trio.Event()

        async def receive():
            try:
                return await from_editor.receive()
            except trio.EndOfChannel:
                return b""

        async def serve():
            await EditorServer(opener, receive, editor.take).run()
            ended.set()

        nursery.start_soon(serve)
        if initialize:
            await editor.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        yield editor
        to_server.close()
        await ended.wait()
        nursery.cancel_scope.cancel()
