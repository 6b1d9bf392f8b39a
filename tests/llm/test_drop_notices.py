"""Telling what another provider said and this one is not sent."""

from greenroom.core import ImageBlock, Message, TextBlock, ThinkingBlock, UnknownBlock
from greenroom.llm import AnthropicProvider, ModelRequest, merged_messages
from greenroom.llm._internal import Announcement
from greenroom.llm.merged_messages import DropNotices
from tests.llm import wire
from tests.llm.server import Answer, model_server

REPLY = Message(
    "assistant",
    (
        ThinkingBlock("hm", "sig"),
        TextBlock("So.", {"citations": []}),
        ImageBlock(extra={"source": {"type": "file", "file_id": "f1"}}),
        UnknownBlock({"type": "server_tool_use"}),
    ),
    provider="acme",
)


def test_a_notice_counts_each_kind_by_its_provider():
    notice = DropNotices("other").notice(ModelRequest(messages=[REPLY, REPLY]))
    kinds = {"thinking": 2, "citations": 2, "file": 2, "server_tool_use": 2}
    assert notice.data == {"provider": "other", "from": {"acme": kinds}}
    assert notice.kind == "model.dropped"
    assert "2 thinking of acme" in notice.text


def test_a_block_without_a_type_is_told_of_by_its_field():
    code = UnknownBlock({"executableCode": {"code": "1"}})
    message = Message("assistant", (code, UnknownBlock({})), provider="google")
    notice = DropNotices("other").notice(ModelRequest(messages=[message]))
    assert notice.data["from"] == {"google": {"executableCode": 1, "unknown": 1}}


def test_what_is_ones_own_or_whole_is_not_told_of():
    assert DropNotices("acme").notice(ModelRequest(messages=[REPLY])) is None
    plain = Message("assistant", (TextBlock("a"),), provider="acme")
    assert DropNotices("other").notice(ModelRequest(messages=[plain, Message.user("b")])) is None


def test_what_was_searched_is_not_searched_again(monkeypatch):
    searched = 0

    def search(message):
        nonlocal searched
        searched += 1
        return ()

    monkeypatch.setattr(merged_messages, "_name_private_parts", search)
    notices = DropNotices("other")
    message = Message("assistant", (TextBlock("a"),), provider="acme")
    for count, expected in ((3, 3), (5, 5), (5, 5), (2, 7)):
        request = ModelRequest(messages=[message] * count, conversation="a")
        assert notices.notice(request) is None
        assert searched == expected


async def test_readers_are_told_once_of_a_conversation():
    messages = [Message.user("hi"), REPLY, Message.user("go on")]
    async with model_server(Answer.stream(wire.anthropic(*wire.text_block(0, "Yes.")))) as server:
        provider = AnthropicProvider("m", base_url=server.url, env={})
        told = []
        for conversation in ("a", "a", "b"):
            request = ModelRequest(messages=messages, conversation=conversation)
            async with provider.stream(request) as stream:
                told.append([e.kind async for e in stream if isinstance(e, Announcement)])
        await provider.aclose()
    assert told == [["model.dropped"], [], ["model.dropped"]]
