"""Checks for providers: this project's own pass them, and so should yours.

`check_provider` runs all of them. A provider is checked with its own client, without a
network: the server of `provider_server` answers it with recorded bytes, cut anywhere.
"""

import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Literal, TypeAlias

import trio
from msgspec import structs

from greenroom import core
from greenroom.core import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from greenroom.core._internal import OutputSchema, serde
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    LLMProvider,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequest,
    ModelStreamError,
    StreamEnd,
    StreamEvent,
)
from greenroom.llm._internal import BlockStart, ContextWindow, UsageUpdate
from greenroom.testing.provider_server import (
    KEY,
    ProviderUnderTest,
    RecordedAnswer,
    Transmission,
    open_provider,
)
from greenroom.testing.session_stores import cancel_after

ProviderCheck: TypeAlias = Callable[[ProviderUnderTest], Awaitable[None]]
"""One check: it returns, or fails with an error that says what the provider did wrong."""

_MOST_CUTS = 40
_NO_ID = ToolUseBlock("", "any").id  # of a call to which the API gives none


def _require(is_right: bool, expected: str, found: object, advice: str) -> None:
    assert is_right, f"expected {expected}, found {found!r}; {advice}"


def _require_equal(found: object, expected: object, what: str, advice: str) -> None:
    _require(found == expected, f"{expected!r} as {what}", found, advice)


def _request(case: ProviderUnderTest, number: int, *before: Message) -> ModelRequest:
    """Return a request that the server gives the answer of this number."""
    calls = [call for answer in case.answers for call in answer.reply.tool_uses]
    names = sorted({"files.read", *(call.name for call in calls)})
    schema: dict[str, object] = {"type": "object", "properties": {}}
    tools = [core.ToolDefinition(name, "A tool.", schema) for name in names]
    return ModelRequest(messages=[*before, Message.user(f"question-{number}")], tools=tools)


def _cut(body: bytes, chance: Random, most: int) -> Iterator[bytes]:
    """Cut bytes into pieces of random sizes."""
    place = 0
    while place < len(body):
        size = chance.randint(1, most)
        yield body[place : place + size]
        place += size


def _tokens(usage: Usage | None) -> Usage | None:
    return usage and structs.replace(usage, cost=None, saved=None)


def _thinking(message: Message) -> str:
    blocks = (block for block in message.content if isinstance(block, ThinkingBlock))
    return "".join(block.thinking for block in blocks)


def _check_reply(llm: LLMProvider, answer: RecordedAnswer, reply: Message) -> None:
    """Check that a reply says what the answer does, and from whom it is."""
    wanted = answer.reply
    for found, expected, what, advice in (
        (reply.role, "assistant", "Message.role", "a reply is the assistant's"),
        (reply.provider, llm.name, "Message.provider", "it is the provider's name"),
        (reply.api, getattr(llm, "api", ""), "Message.api", "it is the `api` of the provider"),
        (reply.text, wanted.text, "the text", "take each piece once, and in order"),
        (_thinking(reply), _thinking(wanted), "the thinking", "keep it in ThinkingBlocks"),
        (reply.stop_reason, wanted.stop_reason, "the stop reason", "translate the API's word"),
        (_tokens(reply.usage), _tokens(wanted.usage), "the usage", "take the last, not the sum"),
    ):
        _require_equal(found, expected, what, advice)
    _require(reply.model != "", "the model that answered", reply.model, "set Message.model")
    calls = [(call.name, call.input, bool(call.invalid)) for call in reply.tool_uses]
    expected_calls = [(call.name, call.input, bool(call.invalid)) for call in wanted.tool_uses]
    advice = "make each of its whole argument text, as `HttpProvider.tool_use` does"
    _require_equal(calls, expected_calls, "the calls (name, input, is invalid)", advice)
    ids = [call.id for call in reply.tool_uses]
    is_unique = all(ids) and len({*ids}) == len(ids)
    _require(is_unique, "an id of its own for each call", ids, "make one where the API has none")
    pairs = zip(wanted.tool_uses, ids, strict=True)
    given = [found if call.id == _NO_ID else call.id for call, found in pairs]
    _require_equal(ids, given, "the ids of calls", "they are the API's, where it gives any")
    if isinstance(getattr(llm, "price", None), core.Price) and reply.usage:
        cost = reply.usage.cost
        _require(cost is not None, "the cost in the usage", cost, "charge it by the `price`")


def _check_events(events: Sequence[StreamEvent], message: Message) -> None:
    """Check that blocks begin, grow and end in order, and that they make the message."""
    begun, ended = set[int](), dict[int, core.ContentBlock]()
    grown: dict[tuple[int, str], str] = {}
    for event in events:
        if not isinstance(event, BlockStart | BlockDelta | BlockEnd):
            continue
        over = begun if isinstance(event, BlockStart) else ended.keys()
        expected = f"a start, deltas, an end of block {event.index}, each in its turn"
        _require(event.index not in over, expected, event, "give each block its own index")
        begun.add(event.index)
        if isinstance(event, BlockEnd):
            ended[event.index] = event.block
        elif isinstance(event, BlockDelta):
            key = (event.index, event.kind)
            grown[key] = grown.get(key, "") + event.text
    _require_equal({*ended}, begun, "the blocks that end", "send a BlockEnd of each")
    blocks = _stable([ended[index] for index in sorted(ended)], message)
    expected_blocks = _stable(message.content, message)
    _require_equal(blocks, expected_blocks, "the blocks", "send the same as in the StreamEnd")
    for (index, kind), text in grown.items():
        if kind != "tool_input":
            whole = getattr(ended[index], kind, None)
            _require_equal(text, whole, f"the deltas of the {kind}", "send each piece once")
    ends = [place for place, event in enumerate(events) if isinstance(event, StreamEnd)]
    _require_equal(ends, [len(events) - 1], "places of a StreamEnd", "send it once, at the end")
    for usage in [event.usage for event in events if isinstance(event, UsageUpdate)][-1:]:
        advice = "send the same as in the StreamEnd"
        _require_equal(_tokens(usage), _tokens(message.usage), "the last UsageUpdate", advice)


def _stable(blocks: Iterable[core.ContentBlock], known: Message) -> tuple[core.ContentBlock, ...]:
    """Return blocks without what may differ when they are read again.

    That is the id of a call, unless a known reply has it, and the reason why a call is invalid, of
    which the end of a reply may know more.
    """
    ids = {call.id for call in known.tool_uses}

    def stable(block: core.ContentBlock) -> core.ContentBlock:
        if not isinstance(block, ToolUseBlock):
            return block
        known_id = block.id if block.id in ids else ""
        return structs.replace(block, id=known_id, invalid=block.invalid and "for a reason")

    return tuple(map(stable, blocks))


def _as_read(reply: Message, answer: RecordedAnswer) -> Message:
    return structs.replace(reply, content=_stable(reply.content, answer.reply))


async def _attempt(reply: Awaitable[Message]) -> Message | Exception:
    """Return a reply, or the error that came instead of it."""
    try:
        return await reply
    except AssertionError:  # of a check
        raise
    except Exception as error:  # noqa: BLE001 -- the caller looks at it
        return error


async def _read(llm: LLMProvider, request: ModelRequest) -> Message:
    """Read a stream, check its events and return the message."""
    async with llm.stream(request) as stream:
        events = [event async for event in stream]
        _check_events(events, stream.message)
        advice = "return the message once it is complete"
        _require_equal(stream.partial(), stream.message, "`partial` after the end", advice)
        return stream.message


async def the_members_have_their_types(case: ProviderUnderTest) -> None:
    """It has the members of the protocol, and those that it may leave out are what they should."""
    async with open_provider(case) as (llm, _):
        _require(isinstance(llm, LLMProvider), "an LLMProvider", llm, "add the missing members")
        for name, text in (("name", llm.name), ("model", llm.model)):
            is_text = isinstance(text, str) and text != ""
            _require(is_text, f"a text as `{name}`", text, "messages and errors need it")
        members: dict[str, tuple[object, type]] = {
            name: (getattr(llm, name, None), kind)
            for name, kind in (("price", core.Price), ("account", str), ("window", int))
        }
        output = OutputSchema("answer", {"type": "object", "properties": {}})
        asked = (("accepts_output", output), ("accepts_forced_tool", _request(case, 0)))
        for name, argument in asked:
            if (method := getattr(llm, name, None)) is not None:
                members[name] = (method(argument), bool)
        if (find_window := getattr(llm, "find_window", None)) is not None:
            members["find_window"] = (await find_window(), ContextWindow)
        for name, (value, kind) in members.items():
            is_right = value is None or isinstance(value, kind)
            advice = "return one, or leave the member out"
            _require(is_right, f"{kind.__name__} as `{name}`", value, advice)
        _check_secrecy(f"{llm!r} {members}", "the repr and the members")


async def streamed_and_generated_replies_are_the_same(case: ProviderUnderTest) -> None:
    """The events of a stream make what `generate` returns, which is what the answer says."""
    streamed: list[Message] = []
    async with open_provider(case) as (llm, _):
        for number, answer in enumerate(case.answers):
            reply = await _read(llm, _request(case, number))
            _check_reply(llm, answer, reply)
            streamed.append(_as_read(reply, answer))
    async with open_provider(case) as (llm, _):
        for number, reply in enumerate(streamed):
            generated = _as_read(await llm.generate(_request(case, number)), case.answers[number])
            expected = structs.replace(reply, provider=llm.name)  # that may have the server's port
            advice = "return `collect(self.stream(request))`"
            _require_equal(generated, expected, "the reply of `generate`", advice)


async def a_reply_is_the_same_wherever_it_is_cut(case: ProviderUnderTest) -> None:
    """The bytes may arrive one by one, in the middle of a letter, or all together."""
    chance = Random(0)  # noqa: S311
    async with open_provider(case) as (llm, server):
        for number, answer in enumerate(case.answers):
            server.answer_with(answer.whole)
            whole = _as_read(await llm.generate(_request(case, number)), answer)
            for most in (3, 64):
                pieces = [*_cut(answer.body, chance, most)]
                server.answer_with(replace(answer.whole, pieces=pieces))
                reply = await _attempt(_read(llm, _request(case, number)))
                found = _as_read(reply, answer) if isinstance(reply, Message) else reply
                what = f"the reply in pieces of at most {most} bytes"
                _require_equal(found, whole, what, "keep the beginning of an event for its rest")


async def a_reply_cut_short_is_an_error(case: ProviderUnderTest) -> None:
    """Wherever an answer ends too early, cleanly or not, the reply is never complete."""
    chance = Random(0)  # noqa: S311
    async with open_provider(case) as (llm, server):
        for number, answer in enumerate(case.answers):
            server.answer_with(answer.whole)
            whole = _as_read(await llm.generate(_request(case, number)), answer)
            for size in _places(answer.body, chance):
                end: Literal["whole", "cut"] = "whole" if size % 2 else "cut"
                server.answer_with(replace(answer.whole, pieces=[answer.body[:size]], end=end))
                where = f"after {size} of {len(answer.body)} bytes"
                await _check_cut(llm, _request(case, number), whole, where)


def _places(body: bytes, chance: Random) -> Iterable[int]:
    """Yield where to cut: at the ends of lines, and anywhere else."""
    yield 0
    for places in ([m.end() for m in re.finditer(rb"\n", body)], range(len(body))):
        chosen = chance.sample(places, min(len(places), _MOST_CUTS))
        yield from (place for place in chosen if place < len(body))


async def _check_cut(llm: LLMProvider, request: ModelRequest, whole: Message, where: str) -> None:
    text = ""

    async def read() -> Message:
        nonlocal text
        async with llm.stream(request) as stream:
            async for event in stream:
                text += event.text if isinstance(event, BlockDelta) and event.kind == "text" else ""
            return stream.message

    found = await _attempt(read())
    expected = f"a ModelStreamError {where}"
    if isinstance(found, Message):  # some APIs send the usage after the end, some say the end twice
        content = _stable(found.content, whole)
        usage = found.usage or whole.usage
        rest = structs.replace(found, content=content, usage=usage, extra=whole.extra)
        advice = "send a StreamEnd only where the API says that the reply has ended"
        _require(rest == whole, expected, found, advice)
        return
    is_right = isinstance(found, ModelStreamError)
    _require(is_right, expected, found, "raise it where no more bytes come")
    provider = getattr(found, "provider", "")
    _require_equal(provider, llm.name, f"`provider` of the error {where}", "say whose error it is")
    partial = getattr(found, "partial", None) or Message("assistant")
    calls = _stable(partial.tool_uses, whole)
    is_part = whole.text.startswith(partial.text) and partial.text.startswith(text)
    expected = f"{text!r} and complete calls as `partial` of the error {where}"
    advice = "raise the error from `receive` of a ModelStream, which keeps the reply so far"
    _require(is_part and calls == whole.tool_uses[: len(calls)], expected, partial, advice)


async def leaving_early_closes_the_connection(case: ProviderUnderTest) -> None:
    """A block that is left after its first event keeps what was read, and hangs up."""
    async with open_provider(case) as (llm, server):
        for number, answer in enumerate(case.answers):
            is_held = case.has_wire and answer.is_stream
            if is_held:
                server.answer_with(replace(answer.whole, end="held"))
            async with llm.stream(_request(case, number)) as stream:
                await anext(aiter(stream))
            partial = stream.partial()
            is_right = partial.stop_reason is core.StopReason.INTERRUPTED
            _require(is_right, "an interrupted `partial`", partial, "use `Draft.partial`")
            if is_held:
                advice = "close the response as the block of `stream` ends"
                await server.check_closed("a block that was left", advice)


async def cancelling_closes_the_connection(case: ProviderUnderTest) -> None:
    """A request that is cancelled in the middle of its answer hangs up."""
    async with open_provider(case) as (llm, server):
        for number, answer in enumerate(case.answers):
            half = answer.body[: len(answer.body) // 2]
            server.answer_with(replace(answer.whole, pieces=[half], end="held"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(llm.generate, _request(case, number))
                await server.is_holding.wait()
                nursery.cancel_scope.cancel()
            advice = "close the response in a `finally` or an `async with`"
            await server.check_closed("a request that was cancelled", advice)


async def a_request_may_be_cancelled_at_any_moment(case: ProviderUnderTest) -> None:
    """After a cancel at each of its steps, the next request gets its reply."""
    async with open_provider(case) as (llm, _):
        for steps in count():
            with trio.CancelScope() as scope, cancel_after(scope, steps):
                await llm.generate(_request(case, 0))
            reply = await _attempt(llm.generate(_request(case, 0)))
            expected = f"a reply after a cancel at step {steps}"
            advice = "give back in a `finally` what a request has taken"
            _require(isinstance(reply, Message), expected, reply, advice)
            if not scope.cancelled_caught:
                return


async def requests_at_the_same_time_do_not_mix(case: ProviderUnderTest) -> None:
    """Each of several requests gets its own reply, though their bytes arrive in turns."""
    chance, together = Random(0), trio.Event()  # noqa: S311
    replies: list[tuple[int, Message]] = []

    def respond(content: bytes) -> Transmission:
        answer = case.answer_to(content) or case.answers[0]
        if len(server.requests) >= 2 * len(case.answers):
            together.set()
        pieces = [*_cut(answer.body, chance, 64)]
        return replace(answer.whole, pieces=pieces, after=together)

    async def ask(number: int) -> None:
        replies.append((number, await llm.generate(_request(case, number))))

    async with open_provider(case) as (llm, server):
        server.respond = respond
        async with trio.open_nursery() as nursery:
            for number in 2 * [*range(len(case.answers))]:
                nursery.start_soon(ask, number)
        for number, reply in replies:
            _check_reply(llm, case.answers[number], reply)


_FAILURES = (
    (400, ModelBadRequestError),
    (401, ModelAuthenticationError),
    (429, ModelRateLimitError),
    (500, ModelOverloadedError),
    (529, ModelOverloadedError),
    (200, ModelError),
    (0, ModelError),
)
_BODIES = {
    "an error": serde.dumps({"error": {"message": f"no: {KEY}", "type": KEY, "code": KEY}}),
    "a list": serde.dumps([{"error": {"message": KEY}}, None]),
    "a page": f"<!doctype html><html><body>{KEY}</body></html>".encode(),
    "garbage": b"data: \xff\xfe{[" + KEY.encode() + b"\n\n",
    "nothing": b"",
}


async def failures_are_typed_and_keep_the_key(case: ProviderUnderTest) -> None:
    """A status, or an answer that is not a reply, is an error of the tree, without the key."""
    async with open_provider(case) as (llm, server):
        for status, kind in _FAILURES:
            headers = {"content-type": "text/event-stream", "x-request-id": f"id {KEY}"}
            headers |= {"retry-after": "7"} if status == 429 else {}
            for name, body in _BODIES.items():
                server.answer_with(Transmission([body], headers, status))
                asked = len(server.requests)
                what = f"{name} with status {status}"
                error = await _fail(llm, _request(case, 0), kind, what)
                if status >= 400:
                    found = error.status, error.retry_after, len(server.requests) - asked
                    fields = f"`status`, `retry_after` and number of requests for {what}"
                    advice = "pass on what the answer says, and leave repeats to `resilient`"
                    wait = 7.0 if status == 429 else None
                    _require_equal(found, (status, wait, 1), fields, advice)


async def _fail(
    llm: LLMProvider, request: ModelRequest, kind: type[ModelError], what: str
) -> ModelError:
    """Return the error of a request, which has to be of this class and to keep the key."""
    found = await _attempt(llm.generate(request))
    advice = "raise the error of greenroom.llm for that status"
    _require(isinstance(found, kind), f"{kind.__name__} for {what}", found, advice)
    assert isinstance(found, kind)
    _require_equal(found.provider, llm.name, f"`provider` for {what}", "say whose error it is")
    trace = "".join(traceback.format_exception(found))
    _check_secrecy(f"{trace} {found!r} {vars(found)} {llm!r}", f"the error for {what}")
    return found


def _check_secrecy(text: str, where: str) -> None:
    is_secret = KEY not in text and KEY.replace("/", "\\/") not in text
    advice = "conceal it in all that the server says, and write a repr without it"
    _require(is_secret, f"no key in {where}", text, advice)


async def a_reply_can_be_sent_back(case: ProviderUnderTest) -> None:
    """A stored reply goes back with the results of its calls, and with what the API wants back."""
    async with open_provider(case) as (llm, server):
        for number, answer in enumerate(case.answers):
            asked = _request(case, number)
            reply = await llm.generate(asked)
            stored = serde.decode(serde.encode(reply), Message)
            _require_equal(stored, reply, "what is stored", "keep plain JSON values in `extra`")
            found = (TextBlock("found"),)
            results = [core.ToolResultBlock(call.id, found) for call in reply.tool_uses]
            history = [*asked.messages, stored, *([Message.user(results)] if results else [])]
            if case.has_wire:
                await llm.generate(_request(case, number, *history))
                sent = [*_values(serde.loads(server.requests[-1]))]
                for value in _list_wanted_back(reply):
                    is_sent = value in sent or any(str(value) in str(each) for each in sent)
                    advice = "send each block back with its signature, and unknown ones verbatim"
                    _require(is_sent, f"{value!r} in the next request", sent[0], advice)
                known = [call.id for call in answer.reply.tool_uses if call.id != _NO_ID]
                for call_id in known:
                    expected = f"{call_id!r} in a call and in a result of the next request"
                    advice = "send the ids that the API gave"
                    _require(sent.count(call_id) > 1, expected, sent[0], advice)


def _list_wanted_back(reply: Message) -> Iterator[object]:
    """Yield what the API has to find in the next request."""
    for block in reply.content:
        match block:
            case TextBlock(text=text):
                yield text.strip()
            case ThinkingBlock(signature=signature):
                yield signature
            case core.RedactedThinkingBlock(data=data):
                yield data
            case core.UnknownBlock(raw=raw):
                yield raw
            case _:
                pass


def _values(value: object) -> Iterator[object]:
    """Yield a JSON value, and everything in it."""
    yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each)


_CALL_ID = "call|é/1:" + "x" * 80
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
_FOREIGN_REPLY = (
    ThinkingBlock("foreign thinking", "private-signature"),
    core.RedactedThinkingBlock("private-data"),
    core.UnknownBlock({"type": "hologram", "data": "private-block"}),
    TextBlock("foreign text", {"citations": [{"title": "private-citation"}]}),
    ToolUseBlock(_CALL_ID, "files.read", {"path": "foreign argument"}),
)
_FOREIGN = (
    Message.user([TextBlock("foreign question"), core.ImageBlock("image/png", _PIXEL)]),
    Message("assistant", _FOREIGN_REPLY, "other-1", "other", core.StopReason.TOOL_USE),
    Message.user([core.ToolResultBlock(_CALL_ID, (TextBlock("foreign result"),))]),
)


async def messages_of_other_providers_are_accepted(case: ProviderUnderTest) -> None:
    """A conversation with another model goes on: nothing said is lost, and nothing private goes."""
    async with open_provider(case) as (llm, server):
        _check_reply(llm, case.answers[0], await llm.generate(_request(case, 0, *_FOREIGN)))
        for sent in server.requests:
            for word in ("question", "text", "argument", "result"):
                is_sent = f"foreign {word}".encode() in sent
                advice = "send what `HttpProvider.merge_messages` returns"
                _require(is_sent, f"the {word} of another provider's message", sent, advice)
            expected = "no signature, `extra` or unknown block of another provider in a request"
            _require(b"private-" not in sent, expected, sent, "leave them out")


_REPLY_CHECKS: Sequence[ProviderCheck] = (
    the_members_have_their_types,
    streamed_and_generated_replies_are_the_same,
    leaving_early_closes_the_connection,
    a_reply_can_be_sent_back,
    messages_of_other_providers_are_accepted,
)
_WIRE_CHECKS: Sequence[ProviderCheck] = (
    a_reply_is_the_same_wherever_it_is_cut,
    a_reply_cut_short_is_an_error,
    cancelling_closes_the_connection,
    a_request_may_be_cancelled_at_any_moment,
    requests_at_the_same_time_do_not_mix,
    failures_are_typed_and_keep_the_key,
)


def provider_checks(case: ProviderUnderTest) -> Sequence[ProviderCheck]:
    """Return all checks of a provider, to be run one by one; without a connection there are fewer.

    Example:
        ```python
        @pytest.mark.parametrize("check", provider_checks(CASE))
        async def test_my_provider(check):
            await check(CASE)
        ```
    """
    return (*_REPLY_CHECKS, *(_WIRE_CHECKS if case.has_wire else ()))


async def check_provider(
    open: Callable[[str, str], LLMProvider],  # noqa: A002 (what it does, as in `StoreUnderTest`)
    answers: Sequence[tuple[Message, bytes] | tuple[Message, bytes, Mapping[str, str]]],
) -> None:
    """Run every check on a provider, in turn; each opens it again.

    They wait for sockets, on the system's clock. What passes behaves as this project's providers
    do; whether the API accepts its requests, only the API can show.

    Args:
        open: opens the provider for an API at an address such as `http://127.0.0.1:8000`, with a
            key; it takes both by position. The API takes JSON. A provider without a connection
            ignores them.
        answers: what the API has answered: what the provider should make of it (its text, thinking,
            calls, stop reason and tokens are compared; a call with an empty id may get any), the
            bytes, not compressed, and the headers, if not those of server-sent events. The checks
            need a text, two calls in one reply, thinking where there is any, and a reply that
            reached its limit. Without a connection answers have no bytes, and requests get them in
            order each time the provider is opened.

    Raises:
        AssertionError: the provider did something wrong. It says what was expected, what came, and
            what to do.
        Exception: whatever the provider raised. Each has a note that names the check.

    Example:
        ```python
        trio.run(check_provider, open_mine, [(reply, body)])
        ```
    """
    case = ProviderUnderTest(open, [RecordedAnswer(*each) for each in answers])
    for check in provider_checks(case):
        try:
            await check(case)
        except Exception as error:
            error.add_note(f"in the check {check.__name__}")
            raise
