"""Images, documents and requests that a provider would refuse for their size."""

import pytest

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from greenroom.core._internal import serde
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelRequest,
    OpenAIProvider,
)
from greenroom.llm._internal import HOSTS
from greenroom.llm.responses import OpenAIResponsesProvider

MIB = 1024 * 1024
PDF = DocumentBlock("application/pdf", "a" * (67 * MIB), title="report.pdf")
PNG = ImageBlock("image/png", "a" * (5 * MIB + 1))


def anthropic(**options):
    return AnthropicProvider("m", api_key="sk-1", env={}, **options)


def openai(host):
    return OpenAIProvider("m", api_key="sk-1", host=HOSTS[host], env={})


@pytest.mark.parametrize(
    ("provider", "block", "named"),
    [
        (anthropic(), PNG, r"anthropic takes images .* block 0 of message 1 \(image/png\)"),
        (anthropic(), ToolResultBlock("t1", (PNG,)), r"block 0\.0 of message 1"),
        (anthropic(), PDF, r"requests of at most 32\.0 MiB"),
        (openai("openai"), PDF, r"openai takes documents .* \(application/pdf, report\.pdf\)"),
    ],
)
def test_what_is_too_large_is_named_before_it_is_sent(provider, block, named):
    request = ModelRequest(messages=[Message.user("look"), Message.user([block])])
    with pytest.raises(ModelBadRequestError, match=named) as caught:
        provider.encode(request)
    assert caught.value.hint


def test_what_a_provider_takes_is_sent():
    request = ModelRequest(messages=[Message.user([PNG])])
    for provider in (
        openai("openai"),
        openai("groq"),
        anthropic(max_image_bytes=1 << 40, max_request_bytes=1 << 40),
    ):
        assert provider.encode(request)


@pytest.mark.parametrize("block", [PNG, ToolResultBlock("t1", (TextBlock("Here:"), PNG))])
def test_what_is_too_large_does_not_fail_later_turns(block):
    request = ModelRequest(messages=[Message.user([block]), Message.user("never mind")])
    sent = serde.dumps(anthropic().encode(request)).decode()
    assert "[Left out: image/png; the image is larger than 5.0 MiB of base64]" in sent
    assert "never mind" in sent


SMALL = ImageBlock("image/png", "aGk=")
PAPER = DocumentBlock("application/pdf", "cGRm", title="a.pdf")
AGAIN = Message.user("So?")
WORDS = OpenAIProvider("openai/gpt-oss-20b", api_key="sk-1", host=HOSTS["groq"], env={})


def test_a_limit_of_no_bytes_lets_no_image_through():
    sent = anthropic(max_image_bytes=0).encode(ModelRequest(messages=[Message.user([SMALL])]))
    assert b"aGk=" not in serde.dumps(sent)


def test_a_model_that_reads_no_images_gets_lines_of_text():
    blocks = [SMALL, ImageBlock(url="https://a.test/b.png"), PAPER]
    result = ToolResultBlock("t1", (SMALL,))
    sent = WORDS.encode(ModelRequest(messages=[Message.user([TextBlock("Look:"), *blocks])]))
    assert [part["text"] for part in sent["messages"][0]["content"]] == [
        "Look:",
        "[Left out: image/png; this model reads no images]",
        "[Left out: https://a.test/b.png; this model reads no images]",
        "[Left out: application/pdf, a.pdf; this model reads no documents]",
    ]
    sent = WORDS.encode(ModelRequest(messages=[Message.user([result])]))
    assert sent["messages"][0]["content"] == "[Left out: image/png; this model reads no images]"


@pytest.mark.parametrize("make", [anthropic, lambda: openai("openai"), lambda: RESPONSES])
async def test_an_image_of_a_type_that_the_vendor_refuses_is_a_line_of_text(make):
    picture = ImageBlock("image/svg+xml", "PHN2Zy8+")
    encoded = await make().prepare(ModelRequest(messages=[Message.user([picture, SMALL]), AGAIN]))
    says = "images may be image/png, image/jpeg, image/gif, image/webp"
    assert f"[Left out: image/svg+xml; {says}]" in encoded.content.decode()
    assert b"PHN2Zy8" not in encoded.content
    assert b"aGk=" in encoded.content
    assert encoded.changes == (f"not sent to {make().name}: {says}",)


async def test_readers_are_told_once_that_a_model_reads_no_images():
    messages = [Message.user([SMALL, SMALL])]
    for request in (ModelRequest(messages=messages), ModelRequest(messages=[*messages, AGAIN])):
        encoded = await WORDS.prepare(request)
        assert encoded.changes == ("not sent to groq: this model reads no images",)
        assert (await anthropic().prepare(request)).changes == ()


RESPONSES = OpenAIResponsesProvider("m", api_key="sk-1", env={})


@pytest.mark.parametrize("provider", [anthropic(), openai("openai"), RESPONSES])
async def test_thinking_that_names_no_provider_is_not_dropped_unsaid(provider):
    thought = Message.assistant([ThinkingBlock("Hm."), TextBlock("Yes.")])
    encoded = await provider.prepare(ModelRequest(messages=[Message.user("So?"), thought]))
    text = f"not sent to {provider.name}: thinking of a message that names no provider"
    assert encoded.changes == (text,)
    assert b"Hm." not in encoded.content


async def test_thinking_that_can_be_sent_is_not_told_of():
    for provider, block in (
        (anthropic(), ThinkingBlock("Hm.", "sig")),
        (openai("openai"), ThinkingBlock("Hm.", extra={"field": "reasoning"})),
    ):
        thought = Message.assistant([block, TextBlock("Yes.")])
        encoded = await provider.prepare(ModelRequest(messages=[Message.user("So?"), thought]))
        assert encoded.changes == ()
        assert b"Hm." in encoded.content
