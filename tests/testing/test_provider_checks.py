"""The checks for providers can fail: each has broken providers that it catches."""

from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio
from msgspec.structs import replace

from greenroom.core import Price, StopReason, TextBlock, ThinkingBlock, ToolUseBlock
from greenroom.llm import BlockDelta, BlockEnd, ModelError, StreamEnd
from greenroom.llm._internal import (
    BlockStart,
    ModelNotFoundError,
    error_of_response,
    merge_messages,
)
from greenroom.testing import check_provider, provider_server
from greenroom.testing._internal import provider_checks
from tests.testing.parrot import ANSWERS, Parrot, ParrotStream, case_of

# Those of its client, httpx, where a stream is left.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")


async def test_a_provider_with_a_client_of_its_own_passes():
    await check_provider(Parrot, ANSWERS)


async def test_a_request_without_the_user_s_text_is_refused():
    with pytest.raises(ModelNotFoundError, match="no text of the user") as caught:
        await check_provider(with_members(encode=lambda self, request: []), ANSWERS)
    name = "streamed_and_generated_replies_are_the_same"
    assert caught.value.__notes__ == [f"in the check {name}"]


def with_members(**members):
    return type("Broken", (Parrot,), members)


def with_stream(**methods):
    return with_members(stream_class=type("BrokenStream", (ParrotStream,), methods))


def with_events(change):
    """A provider of which each event of a reply is replaced by these."""

    def read(self, line):
        for event in ParrotStream.read(self, line):
            yield from change(event)

    return with_stream(read=read)


def without(*kinds):
    return with_events(lambda event: [] if isinstance(event, kinds) else [event])


def twice(kind):
    return with_events(lambda event: [event] * (1 + isinstance(event, kind)))


def with_message(change):
    def complete(self, reason):
        return change(ParrotStream.complete(self, reason))

    return with_stream(complete=complete)


def with_blocks(change):
    return with_message(lambda m: replace(m, content=tuple(map(change, m.content))))


# Replies


def counts_every_report(self, usage):
    return usage if self.usage is None else self.usage + usage


def gives_every_call_the_same_id(self, block, kind, text):
    if isinstance(block, ToolUseBlock):
        block = replace(block, id="call")
    return ParrotStream.add(self, block, kind, text)


def gives_ids_of_its_own(self, block, kind, text):
    if isinstance(block, ToolUseBlock):
        block = replace(block, id=f"call_{len(self.blocks)}")
    return ParrotStream.add(self, block, kind, text)


def guesses_arguments(self, block, kind, text):
    if isinstance(block, ToolUseBlock):
        block = replace(block, invalid="", raw_input="")
    return ParrotStream.add(self, block, kind, text)


def uses_one_index(self, block, kind, text):
    for event in ParrotStream.add(self, block, kind, text):
        yield replace(event, index=0)


async def generates_something_else(self, request):
    reply = await Parrot.generate(self, request)
    return replace(reply, content=tuple(b for b in reply.content if isinstance(b, TextBlock)))


# Bytes


async def reads_lines_that_are_not_complete(self):
    try:
        piece = await anext(self.pieces)
    except StopAsyncIteration:
        return self.close()
    with suppress(ModelError):
        return [event for line in piece.splitlines() for event in self.read(line)]
    return []


async def decodes_each_piece(self):
    try:
        piece = (await anext(self.pieces)).decode(errors="replace").encode()
    except StopAsyncIteration:
        return self.close()
    *lines, self.rest = (self.rest + piece).split(b"\n")
    return [event for line in lines for event in self.read(line)]


def takes_any_end_for_the_end(self):
    return [StreamEnd(self.complete("end_turn"))]


def forgets_the_partial_reply(self):
    self._draft.so_far = lambda: None
    return ParrotStream.close(self)


def raises_something_of_python(self):
    raise EOFError("nothing more comes")


class HangsAtTheEnd(Parrot):
    class stream_class(ParrotStream):
        async def receive(self):
            try:
                return await super().receive()
            except ModelError:
                await trio.sleep_forever()


# Connections


class Leaky(Parrot):
    """Closes a response only after a complete reply, and the others with the provider."""

    def __init__(self, url, key):
        super().__init__(url, key)
        self.left = AsyncExitStack()

    @asynccontextmanager
    async def stream(self, request):
        inner = super().stream(request)
        stream = await inner.__aenter__()
        try:
            yield stream
        finally:
            if stream._draft.is_complete:
                await inner.__aexit__(None, None, None)
            else:
                self.left.push_async_exit(inner)

    async def aclose(self):
        with trio.CancelScope(shield=True):
            await self.left.aclose()
            await super().aclose()


async def goes_on_when_cancelled(self):
    with trio.CancelScope(shield=True):
        return await ParrotStream.receive(self)


async def keeps_another_connection(self, request):
    host, port = self.endpoint.url.removeprefix("http://").split(":")
    CONNECTIONS.append(await trio.open_tcp_stream(host, int(port)))
    return await Parrot.generate(self, request)


CONNECTIONS = []


@pytest.fixture
async def connections():
    yield
    for connection in CONNECTIONS:
        await connection.aclose()
    CONNECTIONS.clear()


async def runs_a_task_without_a_nursery(self, request):
    trio.lowlevel.spawn_system_task(trio.sleep, 1)
    return await Parrot.generate(self, request)


class HasOnePlace(Parrot):
    """Takes its place before it waits, and gives it back only where nothing fails."""

    def __init__(self, url, key):
        super().__init__(url, key)
        self.places = trio.CapacityLimiter(1)

    async def generate(self, request):
        token = object()
        self.places.acquire_on_behalf_of_nowait(token)
        reply = await super().generate(request)
        self.places.release_on_behalf_of(token)
        return reply


class KeepsOneState(Parrot):
    """Has the blocks of all its replies in one list."""

    def __init__(self, url, key):
        super().__init__(url, key)
        self.blocks = []

    class stream_class(ParrotStream):
        def __init__(self, llm, response):
            super().__init__(llm, response)
            self.blocks = llm.blocks

        def complete(self, reason):
            message = super().complete(reason)
            self.blocks.clear()
            return message


# Errors


def quotes_the_body(self, response, body):
    return error_of_response("parrot", response.status_code, response.headers, body)


def tells_a_server_error_of_everything(self, response, body):
    return error_of_response("parrot", 500, {}, b"")


def waits_by_no_header(self, response, body):
    return error_of_response("parrot", response.status_code, {}, self.endpoint.conceal(body))


def raises_of_its_client(self, response, body):
    response.raise_for_status()


class AsksAgain(Parrot):
    async def generate(self, request):
        try:
            return await super().generate(request)
        except ModelError:
            return await super().generate(request)


def shows_the_key(self):
    return f"Parrot({self.client.headers['authorization']!r})"


# Requests


def drops_signatures(self, role, block):
    return Parrot.line(self, role, replace(block, signature="") if has_thought(block) else block)


def has_thought(block):
    return isinstance(block, ThinkingBlock)


def renames_calls(self, role, block):
    is_call = isinstance(block, ToolUseBlock)
    return Parrot.line(self, role, replace(block, id="x") if is_call else block)


def sends_all(self, request):
    return [self.line(m.role, block) for m in request.messages for block in m.content]


def sends_no_other_replies(self, request):
    own = [m for m in request.messages if m.provider in ("", self.name)]
    return [self.line(m.role, block) for m in merge_messages(own, self.name) for block in m.blocks]


def sends_the_last_message(self, request):
    return [self.line("user", block) for block in request.messages[-1].content]


MUTANTS = {
    "the_members_have_their_types": {
        "as `price`": with_members(price=3),
        "as `model`": with_members(model=""),
        "no key in the repr": with_members(__repr__=shows_the_key),
        "as `accepts_output`": with_members(accepts_output=lambda self, output: "yes"),
    },
    "streamed_and_generated_replies_are_the_same": {
        "the usage": with_stream(count=counts_every_report),
        "an id of its own": with_stream(add=gives_every_call_the_same_id),
        "the ids of calls": with_stream(add=gives_ids_of_its_own),
        "the calls": with_stream(add=guesses_arguments),
        "an end of block 0": with_stream(add=uses_one_index),
        "the blocks that end": without(BlockEnd),
        "in its turn, found BlockStart": twice(BlockStart),
        "the deltas of the text": twice(BlockDelta),
        "in its turn, found BlockEnd": twice(BlockEnd),
        "places of a StreamEnd": twice(StreamEnd),
        "the blocks,": with_message(lambda reply: replace(reply, content=())),
        "Message.provider": with_message(lambda reply: replace(reply, provider="")),
        "Message.api": with_members(api="talk"),
        "the model that answered": with_message(lambda reply: replace(reply, model="")),
        "the last UsageUpdate": with_message(lambda reply: replace(reply, usage=None)),
        "the stop reason": with_message(
            lambda reply: replace(reply, stop_reason=StopReason.UNKNOWN)
        ),
        "the cost": with_members(price=Price(1, 2)),
        "the reply of `generate`": with_members(generate=generates_something_else),
        "no task after": with_members(generate=runs_a_task_without_a_nursery),
        "after `aclose`": with_members(generate=keeps_another_connection),
    },
    "leaving_early_closes_the_connection": {"a block that was left": Leaky},
    "a_reply_can_be_sent_back": {
        "'signed' in the next": with_members(line=drops_signatures),
        "'c1' in a call": with_members(line=renames_calls),
        "'Schöne Grüße! 🦜' in the next": with_members(encode=sends_the_last_message),
    },
    "messages_of_other_providers_are_accepted": {
        "no signature": with_members(encode=sends_all),
        "the text of another": with_members(encode=sends_no_other_replies),
    },
    "a_reply_is_the_same_wherever_it_is_cut": {
        "found ModelStreamError": with_stream(receive=reads_lines_that_are_not_complete),
        "the reply in pieces": with_stream(receive=decodes_each_piece),
    },
    "a_reply_cut_short_is_an_error": {
        "a ModelStreamError after \\d+ of \\d+ bytes, found Message": with_stream(
            close=takes_any_end_for_the_end
        ),
        "found EOFError": with_stream(close=raises_something_of_python),
        "as `partial`": with_stream(close=forgets_the_partial_reply),
        "an end of every request": HangsAtTheEnd,
    },
    "cancelling_closes_the_connection": {
        "an end of every request": with_stream(receive=goes_on_when_cancelled)
    },
    "a_request_may_be_cancelled_at_any_moment": {"after a cancel at step": HasOnePlace},
    "requests_at_the_same_time_do_not_mix": {"the (text|thinking)": KeepsOneState},
    "failures_are_typed_and_keep_the_key": {
        "no key in the error": with_members(error=quotes_the_body),
        "found ModelOverloadedError": with_members(error=tells_a_server_error_of_everything),
        "`retry_after`": with_members(error=waits_by_no_header),
        "found ModelConnectionError": with_members(error=raises_of_its_client),
        "number of requests": AsksAgain,
    },
}
LIMITS = {
    "an end of every request": ("_PATIENCE", 1.0),
    "a block that was left": ("_SOON", 0.1),
    "after `aclose`": ("_SOON", 0.1),
}
"""Seconds for those that would be waited for in vain."""

CHECKS = {check.__name__: check for check in provider_checks(case_of(Parrot))}


def test_every_check_has_a_provider_that_it_catches():
    assert MUTANTS.keys() == CHECKS.keys()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("name", "says"), [(name, says) for name, mutants in MUTANTS.items() for says in mutants]
)
async def test_a_broken_provider_is_told_what_to_do(name, says, monkeypatch, connections):
    if says in LIMITS:
        monkeypatch.setattr(provider_server, *LIMITS[says])
    with pytest.raises(AssertionError, match=rf"(?s)^expected .*{says}.*; \w"):
        await CHECKS[name](case_of(MUTANTS[name][says]))
