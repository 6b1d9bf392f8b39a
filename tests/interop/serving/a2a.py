"""A client of A2A that sends what it is told to, and reads what comes."""

import json
from contextlib import asynccontextmanager

from greenroom.net import HttpClient
from greenroom.net._internal import Timeouts

VERSION = {"A2A-Version": "1.0"}


class Client:
    """Speaks JSON-RPC to one agent of a service."""

    def __init__(self, service, who="ann", path="/a2a"):
        self.service, self.who, self.path = service, who, path
        self.count = 0

    def message(self, content, *, id=None, **fields):
        """Make a message of a text or of parts."""
        self.count += 1
        parts = [{"text": content}] if isinstance(content, str) else content
        id_ = id or f"{self.who}-{self.count}"
        return {"messageId": id_, "role": "ROLE_USER", "parts": parts, **fields}

    def body(self, method, params):
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    async def call(self, method, **params):
        """Return the result of a method, or the code of its error."""
        async with self.service.client(self.who) as http:
            body = self.body(method, params)
            reply = await http.post(self.path, json=body, headers=VERSION)
        assert reply.status_code == 200, reply.text
        told = reply.json()
        assert (told["jsonrpc"], told["id"]) == ("2.0", 1)
        return told["result"] if "result" in told else told["error"]["code"]

    async def send(self, content, *, configuration=None, **fields):
        """Send a message and return its task, or the code of the error."""
        params = {"message": self.message(content, **fields)}
        if configuration:
            params["configuration"] = configuration
        found = await self.call("SendMessage", **params)
        return found if isinstance(found, int) else found["task"]

    @asynccontextmanager
    async def stream(self, method, **params):
        """Open a stream, and yield what iterates over its results."""
        # Not by httpx itself, which leaves the generators of a stream that is not read to its end.
        http = HttpClient()
        headers = {"authorization": f"Bearer token-of-{self.who}", **VERSION}
        headers["content-type"] = "application/json"
        body = json.dumps(self.body(method, params)).encode()
        url = f"{self.service.link}{self.path}"
        try:
            async with http.stream(
                "POST", url, headers=headers, content=body, timeout=Timeouts()
            ) as reply:
                yield Results(reply)
        finally:
            await http.aclose()

    async def follow(self, content, **fields):
        """Send a message, and return all events of its stream."""
        message = self.message(content, **fields)
        async with self.stream("SendStreamingMessage", message=message) as events:
            return [each async for each in events]


class Results:
    """The results in the events of a stream."""

    def __init__(self, reply):
        self.reply, self.pieces, self.rest = reply, reply.chunks(), b""

    def __aiter__(self):
        return self

    async def __anext__(self):
        while b"\n\n" not in self.rest:
            self.rest += await anext(self.pieces)
            assert self.rest[:1] in b"d:", self.rest  # no stream, but a refusal
        event, _, self.rest = self.rest.partition(b"\n\n")
        return json.loads(event[6:])["result"] if event[:1] == b"d" else await anext(self)


def state_of(task):
    return task["status"]["state"].removeprefix("TASK_STATE_")


def text_of(message):
    return "".join(part.get("text", "") for part in message["parts"])


def said(task):
    """Return what the status of a task says."""
    return text_of(task["status"]["message"])


def outline(events):
    """Return what each event is, in a word or two."""
    found = []
    for each in events:
        ((kind, value),) = each.items()
        found.append(
            f"{kind} {state_of(value)}"
            if "status" in value
            else f"{kind} {value['artifact']['name']}"
        )
    return found
