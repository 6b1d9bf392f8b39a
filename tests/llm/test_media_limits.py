"""Images, documents and requests that a provider would refuse for their size."""

import pytest

from greenroom.core import DocumentBlock, ImageBlock, Message, ModelBadRequestError, ToolResultBlock
from greenroom.llm import HOSTS, AnthropicProvider, MediaLimits, ModelRequest, OpenAIProvider

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
    for provider in (openai("openai"), openai("groq"), anthropic(limits=MediaLimits())):
        assert provider.encode(request)
