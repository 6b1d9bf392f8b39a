"""A provider as others would write it: with a client of its own, for an API of lines of JSON.

Each mutant overrides one of its small methods.
"""

import json
from contextlib import asynccontextmanager

import httpx

from greenroom.core import (
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import new_id
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    Endpoint,
    ModelConnectionError,
    ModelStream,
    ModelStreamError,
    StreamEnd,
)
from greenroom.llm._internal import (
    BlockStart,
    UsageUpdate,
    collect,
    decode_event,
    error_in_band,
    error_of_response,
    merge_messages,
    tool_use,
)
from greenroom.testing._internal import ProviderUnderTest
from greenroom.testing.provider_server import RecordedAnswer


class ParrotStream(ModelStream):
    """Reads the lines of a reply; those of thinking are signed."""

    def __init__(self, llm, response):
        super().__init__(llm.name)
        self.llm, self.pieces, self.rest = llm, response.aiter_bytes(), b""
        self.blocks, self.usage = [], None

    async def receive(self):
        try:
            piece = await anext(self.pieces)
        except StopAsyncIteration:
            return self.close()
        except httpx.HTTPError:
            raise ModelStreamError("parrot broke off", provider=self.llm.name) from None
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [event for line in lines for event in self.read(line)]

    def close(self):
        raise ModelStreamError("parrot fell silent", provider=self.llm.name)

    def read(self, line):
        value = decode_event(self.llm.endpoint.conceal(line).decode(errors="replace"), "parrot")
        match value:
            case {"say": str(text)}:
                yield from self.add(TextBlock(text), "text", text)
            case {"think": str(text), "sign": str(signature)}:
                yield from self.add(ThinkingBlock(text, signature), "thinking", text)
            case {"call": str(name), "with": str(arguments)}:
                call_id = value.get("id") or new_id("call")
                yield from self.add(tool_use(call_id, name, arguments), "tool_input", arguments)
            case {"read": int(read), "wrote": int(wrote)}:
                self.usage = self.count(Usage(read, wrote))
                yield UsageUpdate(self.usage)
            case {"over": str(reason)}:
                yield StreamEnd(self.complete(reason))
            case _:
                raise error_in_band("parrot", value)

    def add(self, block, kind, text):
        index = len(self.blocks)
        self.blocks.append(block)
        yield BlockStart(index, kind)
        for half in (text[: len(text) // 2], text[len(text) // 2 :]):
            yield BlockDelta(index, kind, half)
        yield BlockEnd(index, block)

    def count(self, usage):
        return usage

    def complete(self, reason):
        why = StopReason(reason)
        blocks = tuple(self.blocks)
        return Message("assistant", blocks, "grey-1", self.llm.name, why, reason, usage=self.usage)


class Parrot:
    name, model, stream_class = "parrot", "grey-1", ParrotStream

    def __init__(self, url, key):
        self.endpoint = Endpoint("parrot", url, {"authorization": f"Bearer {key}"}, (key,))
        self.client = httpx.AsyncClient(headers=self.endpoint.headers, timeout=None, verify=False)

    @asynccontextmanager
    async def stream(self, request):
        body = {"talk": self.encode(request), "tools": [tool.name for tool in request.tools]}
        try:
            async with self.client.stream("POST", self.endpoint.url, json=body) as response:
                if response.status_code != 200:
                    raise self.error(response, await response.aread())
                yield self.stream_class(self, response)
        except httpx.HTTPError:
            raise ModelConnectionError("parrot can't be reached", provider=self.name) from None

    def error(self, response, body):
        headers = {n: self.endpoint.conceal_text(v) for n, v in response.headers.items()}
        body = self.endpoint.conceal(body)
        return error_of_response("parrot", response.status_code, headers, body)

    def encode(self, request):
        merged = merge_messages(request.messages, self.name)
        return [self.line(m.role, block) for m in merged for block in m.blocks]

    def line(self, role, block):
        match block:
            case TextBlock(text):
                return {"who": role, "say": text}
            case ThinkingBlock(text, signature):
                return {"think": text, "sign": signature}
            case ToolUseBlock(call_id, name, arguments):
                return {"call": name, "id": call_id, "with": arguments}
            case ToolResultBlock(call_id, content):
                return {"answers": call_id, "say": [self.line(role, each) for each in content]}
            case _:
                return {"who": role, "say": "(a picture)"}

    async def generate(self, request):
        return await collect(self.stream(request))

    async def aclose(self):
        await self.client.aclose()


def lines(*values):
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


USAGE = [{"read": 12, "wrote": 1}, {"read": 12, "wrote": 5}]
ANSWERS = [
    (
        Message(
            "assistant", (TextBlock("Schöne Grüße! 🦜"),),
            stop_reason=StopReason.END_TURN, usage=Usage(12, 5),
        ),
        lines({"say": "Schöne Grüße! 🦜"}, *USAGE, {"over": "end_turn"}),
        {"content-type": "application/x-ndjson"},
    ),
    (
        Message(
            "assistant",
            (
                ThinkingBlock("A mast?", "signed"),
                TextBlock("Aye."),
                ToolUseBlock("c1", "fly", {"to": "mast"}),
                ToolUseBlock("c2", "fly", invalid="not usable as JSON", raw_input='{"to'),
                ToolUseBlock("", "land"),
            ),
            stop_reason=StopReason.TOOL_USE,
            usage=Usage(12, 5),
        ),
        lines(
            {"think": "A mast?", "sign": "signed"},
            {"say": "Aye."},
            {"call": "fly", "id": "c1", "with": '{"to": "mast"}'},
            {"call": "fly", "id": "c2", "with": '{"to'},
            {"call": "land", "with": "{}"},
            *USAGE,
            {"over": "tool_use"},
        ),
        {"content-type": "application/x-ndjson"},
    ),
]  # fmt: skip


def case_of(kind):
    return ProviderUnderTest(kind, [RecordedAnswer(*each) for each in ANSWERS])
