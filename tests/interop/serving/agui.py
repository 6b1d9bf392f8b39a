"""A client of AG-UI for tests: its runs, and what the protocol says of their events."""

import itertools
import json

import pydantic
from ag_ui.core import Event

from tests.interop.serving.services import until

EVENT = pydantic.TypeAdapter(Event)
_numbers = itertools.count()


def check_events(events):
    """Check that each event is one of the protocol, and that their order is."""
    open_, ends = set(), 0
    for event in events:
        EVENT.validate_python(event)
        kind = event["type"]
        assert ends == 0, f"{kind} behind the end"
        id_ = event.get("messageId") or event.get("toolCallId")
        match kind:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" | "REASONING_START":
                assert (kind[:-5], id_) not in open_
                open_.add((kind[:-5], id_))
            case "TOOL_CALL_START":
                assert not open_, f"a call inside of {open_}"
                open_.add((kind[:-5], id_))
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" | "TOOL_CALL_ARGS":
                assert (kind.rpartition("_")[0] + "_", id_) in open_
            case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" | "REASONING_END" | "TOOL_CALL_END":
                open_.remove((kind[:-3], id_))
            case "RUN_FINISHED" | "RUN_ERROR":
                assert not open_, open_
                ends += 1
    assert events[0]["type"] == "RUN_STARTED"
    assert ends == 1


class Client:
    """A client with a thread, which keeps the conversation as clients of AG-UI do."""

    def __init__(self, service, thread="t", tools=(), path="/ag-ui", who="ann"):
        self.service, self.thread, self.path, self.who = service, thread, path, who
        self.tools = [
            {"name": each, "description": f"does {each}", "parameters": {"type": "object"}}
            for each in tools
        ]
        self.messages, self.events = [], []

    async def post(self, body):
        whole = {
            "threadId": self.thread, "runId": f"r{next(_numbers)}", "protocolVersion": "1.0",
            "messages": self.messages, "tools": self.tools, "state": {}, "context": [],
            "forwardedProps": {}, **body,
        }  # fmt: skip
        async with self.service.client(self.who) as client:
            return await client.post(self.path, json=whole)

    async def run(self, text=None, *, results=None, resume=None):
        """Run with something new; return the run's last event."""
        if text is not None:
            self.add("user", content=text)
        for call, content in (results or {}).items():
            failed = {"error": "refused"} if content is None else {}
            self.add("tool", toolCallId=call, content=content or "", **failed)
        reply = await self.post({} if resume is None else {"resume": resume})
        assert reply.status_code == 200, reply.text
        lines = reply.text.splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        check_events(events)
        self.events += events
        return events[-1]

    def add(self, role, **fields):
        self.messages.append({"id": f"m{next(_numbers)}", "role": role, **fields})

    def texts(self, *kinds, field="delta"):
        return [each[field] for each in self.events if each["type"] in kinds]

    @property
    def text(self):
        return "".join(self.texts("TEXT_MESSAGE_CONTENT"))

    @property
    def session(self):
        return f"{self.who}:{self.thread}"

    async def history(self):
        async with self.service.client(self.who) as client:
            shown = await client.get(f"/api/sessions/{self.session}")
        return shown.json()

    async def is_idle(self):
        handle = self.service.runtime.get(self.session)
        return handle is not None and handle.state.kind == "idle"

    async def settle(self):
        await until(self.is_idle)


def decide(interrupts, decision="allow", **more):
    """Answer the questions of a run."""
    payload = {"decision": decision, **more}
    return [
        {"interruptId": each["id"], "status": "resolved", "payload": payload} for each in interrupts
    ]
