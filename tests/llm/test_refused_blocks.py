"""Images and documents that a provider refuses: left out, and not sent again."""

import pytest

from greenroom.agents import Agent
from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import serde
from greenroom.llm import (
    AnthropicProvider,
    GeminiProvider,
    ModelBadRequestError,
    ModelRequest,
    OpenAIProvider,
)
from greenroom.llm.failure import error_of_response
from greenroom.llm.refused_blocks import RefusedBlocks
from greenroom.session import AgentSession, InMemoryStore
from tests.llm import wire
from tests.llm.gemini_refusals import refuse_gemini
from tests.llm.server import Answer, model_server

GOOD, BAD, OTHER = (ImageBlock("image/png", data) for data in ("R09PRA==", "QkFE", "T1RIRVI="))
PDF = DocumentBlock("application/pdf", "UERG", title="a.pdf")

TALK = [
    Message.user([TextBlock("Look."), GOOD]),
    Message.assistant([ToolUseBlock("t1", "Read", {"type": "file", "content": "QkFE"})]),
    Message.user([ToolResultBlock("t1", (TextBlock("Here."), BAD)), OTHER, PDF]),
]

ANTHROPIC = AnthropicProvider("m", api_key="sk-secret-1", env={})
OPENAI = OpenAIProvider("m", api_key="sk-secret-1", env={})


def refuse(message, param=None, status=400):
    """The error of a vendor with these words."""
    body = {"error": {"type": "invalid_request_error", "message": message, "param": param}}
    return error_of_response("acme", status, {}, serde.dumps(body))


def left_out(provider, error):
    """The images and documents of the talk that are left out for an error."""
    content = serde.dumps(provider.encode(ModelRequest(messages=TALK)))
    refusal = RefusedBlocks("acme").find(content, error)
    after = content if refusal is None else refusal.content
    return [
        data
        for data in ("R09PRA", "QkFE", "T1RIRVI", "UERG")
        if after.count(data.encode()) < content.count(data.encode())
    ]


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("messages.2.content.0.tool_result.content.1.image.source.base64: broken", ["QkFE"]),
        ("messages.2.content.0.content.1.image.source.base64.data: broken", ["QkFE"]),
        ("messages.2.content.1.image.source.base64.data: over 8000 pixels", ["T1RIRVI"]),
        ("messages.2.content.2.document.source.base64.data: not a PDF", ["UERG"]),
        ("messages.2.content.0: broken", ["QkFE"]),
        ("messages.2: Could not process image", ["QkFE", "T1RIRVI"]),
        ("messages.2: no", ["QkFE", "T1RIRVI", "UERG"]),
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", ["R09PRA"]),
        ("Could not process image", ["QkFE", "T1RIRVI"]),
        ("Invalid file data", ["QkFE", "T1RIRVI", "UERG"]),
        ("this model does not support image input", ["R09PRA", "QkFE", "T1RIRVI"]),
        ("messages.0.content.0.text: is too rude for an image", []),
        ("messages.1.content.0.tool_use.input: no", []),
        ("messages.9.content.0.image: no", []),
        ("All messages must have content", []),
        ("max_tokens: must be positive", []),
    ],
)
def test_what_an_error_names_is_left_out(message, lost):
    assert left_out(ANTHROPIC, refuse(message)) == lost


@pytest.mark.parametrize(
    ("message", "param", "lost"),
    [
        ("Invalid value", "messages[3].content[2].image_url.url", ["T1RIRVI"]),
        ("Invalid 'messages[3].content[3].file'", None, ["UERG"]),
        ("{'loc': ('body', 'messages', 0, 'content', 1), 'msg': 'no'}", None, ["R09PRA"]),
        ("You uploaded an unsupported image.", None, ["QkFE", "T1RIRVI"]),
    ],
)
def test_paths_are_read_as_each_vendor_writes_them(message, param, lost):
    assert left_out(OPENAI, refuse(message, param)) == lost


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "gemini-2.5-flash"])
@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("Unable to process input image. Please retry.", ["QkFE", "T1RIRVI"]),
        ("Invalid value at 'contents[0].parts[1].inline_data.data'", ["R09PRA"]),
        ("The document has no pages.", ["QkFE", "T1RIRVI", "UERG"]),
        ("Invalid value at 'generation_config'", []),
    ],
)
def test_what_gemini_names_is_left_out_in_a_way_that_it_takes(model, message, lost):
    gemini = GeminiProvider(model, api_key="k", env={})
    assert left_out(gemini, refuse(message)) == lost
    content = serde.dumps(gemini.encode(ModelRequest(messages=TALK)))
    refusal = RefusedBlocks("acme").find(content, refuse(message))
    if lost:
        assert not refuse_gemini(model, serde.loads(refusal.content))


def test_a_picture_in_a_result_is_found_by_its_path():
    gemini = GeminiProvider("gemini-3.8-flash", api_key="k", env={})
    error = refuse("Invalid 'contents[2].parts[0].function_response.parts[0].inline_data'")
    assert left_out(gemini, error) == ["QkFE"]


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_errors_are_about_no_block(status):
    error = refuse("messages.0.content.1.image: no", status=status)
    if isinstance(error, ModelBadRequestError):
        assert left_out(ANTHROPIC, error) == []


class Vendor:
    """A server that refuses requests with certain data."""

    def __init__(self, answer, *bad):
        self.answer, self.bad = answer, bad
        self.bodies = []

    def __call__(self, request):
        self.bodies.append(request.body)
        for place, message in enumerate(request.body["messages"]):
            if any(data in serde.dumps(message).decode() for data in self.bad):
                error = {"type": "invalid_request_error", "message": f"messages.{place}: no image"}
                return Answer.error(400, {"error": error})
        return self.answer


TEXT = Answer.stream(wire.anthropic(*wire.text_block(0, "Fine.")))


async def test_a_refused_image_is_left_out_once_with_a_warning_and_never_sent_again():
    vendor = Vendor(TEXT, BAD.data)
    async with model_server(vendor) as server:
        agent = Agent(AnthropicProvider("m", api_key="k" * 12, base_url=server.url, env={}))
        session = AgentSession.new("a", store=InMemoryStore())
        first = await agent.run([TextBlock("Look."), BAD], session=session)
        second = await agent.run("Never mind.", session=session)
        await agent.llm.aclose()
    assert (first.output, second.output) == ("Fine.", "Fine.")
    [warning] = first.warnings
    assert warning == "1 image: anthropic refused it: no image"
    assert second.warnings == ()
    assert len(vendor.bodies) == 3
    [_, line] = vendor.bodies[1]["messages"][0]["content"]
    assert line["text"] == "[This image was left out: anthropic refused it: no image]"
    assert vendor.bodies[2]["messages"][0]["content"][1]["text"] == line["text"]
    assert session.history[0].content[1] == BAD  # the history keeps it


async def test_several_refused_images_are_left_out_one_by_one():
    vendor = Vendor(TEXT, BAD.data, OTHER.data)
    messages = [Message.user([BAD]), Message.assistant("Hm."), Message.user([OTHER, GOOD])]
    async with model_server(vendor) as server:
        llm = AnthropicProvider("m", api_key="k" * 12, base_url=server.url, env={})
        assert (await llm.generate(ModelRequest(messages=messages))).text == "Fine."
        await llm.aclose()
    assert len(vendor.bodies) == 3


async def test_where_that_does_not_help_nothing_is_left_out_later():
    vendor = Vendor(TEXT, "word")
    messages = [Message.user([TextBlock("word"), GOOD])]
    async with model_server(vendor) as server:
        llm = AnthropicProvider("m", api_key="k" * 12, base_url=server.url, env={})
        for count in (2, 4):
            with pytest.raises(ModelBadRequestError):
                await llm.generate(ModelRequest(messages=messages))
            assert len(vendor.bodies) == count
        await llm.aclose()
    assert GOOD.data in serde.dumps(vendor.bodies[2]).decode()


def test_the_reason_is_true_of_later_requests_too():
    content = serde.dumps(OPENAI.encode(ModelRequest(messages=TALK)))
    error = refuse("Invalid 'messages[3].content[2].image_url': it is no image_url.")
    refusal = RefusedBlocks("acme").find(content, error)
    text = "1 image: acme refused it: Invalid 'the block': it is no image."
    assert refusal.announcement.text == text
    assert b"image_url" not in refusal.content.partition(b"left out")[2].partition(b"}")[0]


def test_the_oldest_are_forgotten():
    refused, error = RefusedBlocks("acme"), refuse("messages.0: no")
    bodies = []
    for number in range(50):
        block = {"type": "image", "source": {"data": f"{number}"}}
        bodies.append(serde.dumps({"messages": [{"content": [block]}]}))
        refused.remember(refused.find(bodies[-1], error))
    kept = [body for body in bodies if refused.replace(body) != body]
    assert 0 < len(kept) < len(bodies)
    assert kept == bodies[-len(kept) :]
