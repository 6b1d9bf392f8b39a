"""Requests to the Gemini API: written as it takes them, whatever came before."""

from itertools import product

import pytest
from msgspec.structs import replace

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import NamedTool, OutputSchema
from greenroom.llm import GeminiProvider, ModelBadRequestError, ModelRequest
from greenroom.llm._internal import MODELS, OutputModes, OutputType, with_output
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.request_rules import EFFORTS
from greenroom.testing._internal import request_from_wire, same_request
from tests.llm.gemini_refusals import refuse_gemini
from tests.llm.test_gemini import CALL, CODE, RESULT, read
from tests.llm.test_request_rules import combine_settings
from tests.llm.wire import function_part, gemini_response, text_part

MODEL = "gemini-test-1"  # of the replies above
UNCHECKED = "skip_thought_signature_validator"
HELLO = Message.user("hi")


def encode(*messages, model=MODEL, **fields):
    llm = GeminiProvider(model, api_key="k", env={})
    return llm.encode(ModelRequest(messages=[HELLO, *messages], **fields))


def sent(*messages, model=MODEL):
    """The parts of each message after the first, by its role."""
    return [
        (each["role"], each["parts"]) for each in encode(*messages, model=model)["contents"][1:]
    ]


def answer(call, *content, **fields):
    return Message.user([ToolResultBlock(call.id, content, **fields)])


PARTS = [
    text_part("First.", "s1", thought=True),
    CODE,
    RESULT,
    text_part("Hello"),
    text_part("", "s2"),
    CALL,
    function_part("look_up", {"n": 1}, "fc_2"),
]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_goes_back_as_it_came(streamed):
    if streamed:
        _, reply = read(*PARTS)
    else:
        [*_, end] = GeminiDecoder().whole(gemini_response(*PARTS, finish="STOP"))
        reply = end.message
    one, two = reply.tool_uses
    results = [ToolResultBlock(two.id, (TextBlock("2"),)), ToolResultBlock(one.id, is_error=True)]
    assert sent(reply, Message.user(results)) == [
        ("model", PARTS),
        (
            "user",
            [
                {
                    "functionResponse": {
                        "id": "fc_2",
                        "name": "look_up",
                        "response": {"output": "2"},
                    }
                },
                {"functionResponse": {"id": "fc_1", "name": "look_up", "response": {"error": ""}}},
            ],
        ),
    ]


def test_signatures_go_back_to_their_own_model_alone():
    _, reply = read(*PARTS)
    results = Message.user([ToolResultBlock(call.id) for call in reply.tool_uses])
    [(_, parts), _] = sent(reply, results, model="gemini-test-2")
    assert parts == [
        {k: v for k, v in CODE.items() if k != "thoughtSignature"},
        RESULT,
        text_part("Hello"),
        CALL | {"thoughtSignature": UNCHECKED},
        PARTS[-1],
    ]
    [(_, parts), _] = sent(reply, results, model="gemini-2.5-flash")
    assert "thoughtSignature" not in str(parts)
    asked = replace(reply, extra=reply.extra | {"requested_model": "gemini-flash-latest"})
    assert sent(asked, results, model="gemini-flash-latest") == sent(reply, results)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini-openai", ""])
def test_calls_of_another_vendor_pass_without_a_signature_of_theirs(provider):
    thought, text = ThinkingBlock("hm", "theirs"), TextBlock("Look.", {"citations": [1]})
    call = ToolUseBlock("toolu_1", "look_up", {}, extra={"caller": 1})
    reply = Message("assistant", (thought, text, call), provider=provider, model="theirs")
    [(role, parts), *_] = sent(reply, answer(call, TextBlock("It")))
    assert role == "model"
    assert parts[-1]["thoughtSignature"] == UNCHECKED
    assert "theirs" not in str(parts) or not provider
    [(_, parts), *_] = sent(reply, answer(call, TextBlock("It")), model="gemini-2.0-flash")
    assert UNCHECKED not in str(parts)


def test_media_are_sent_by_value_and_by_address():
    image, link = ImageBlock("image/png", "aGk="), ImageBlock(url="https://example.com/a.jpg")
    paper = DocumentBlock("application/pdf", "aGk=", title="Plan")
    [content] = encode(Message.user([image, link, paper]))["contents"]
    assert content["parts"][1:] == [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "https://example.com/a.jpg", "mimeType": "image/jpeg"}},
        {"text": "Document: Plan"},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
    ]


def test_the_pictures_of_a_result_are_in_it_or_beside_it():
    call, image = ToolUseBlock("c1", "draw"), ImageBlock("image/png", "aGk=")
    reply, result = Message.assistant([call]), answer(call, TextBlock("Done."), image)
    data = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    response = {"id": "c1", "name": "draw", "response": {"output": "Done."}}
    assert sent(reply, result)[-1][1] == [{"functionResponse": response | {"parts": [data]}}]
    older = sent(reply, result, model="gemini-2.5-flash")[-1][1]
    assert older == [{"functionResponse": response}, data]


TOOL = ToolDefinition("fs.read", "Reads.", {"type": "object", "properties": {}})


def test_the_settings_are_in_the_places_of_the_api():
    body = encode(
        system="Be brief.",
        tools=[TOOL],
        tool_choice=NamedTool("fs.read"),
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop_sequences=["END"],
        effort="max",
        output=OutputSchema("Answer", {"type": "object"}),
    )
    del body["contents"]
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "fs__read",
                        "description": "Reads.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "toolConfig": {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["fs__read"]}
        },
        "generationConfig": {
            "maxOutputTokens": 9,
            "temperature": 0.5,
            "topP": 0.9,
            "seed": 7,
            "stopSequences": ["END"],
            "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    }


def test_options_add_to_what_is_sent():
    options = {
        "tools": [{"googleSearch": {}}],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "generationConfig": {"topK": 5},
        "toolConfig": {"includeServerSideToolInvocations": True},
        "cachedContent": "cachedContents/1",
    }
    body = encode(tools=[TOOL], tool_choice="any", temperature=0.5, options=options)
    assert [*map(list, body["tools"])] == [["functionDeclarations"], ["googleSearch"]]
    assert body["generationConfig"]["topK"] == 5
    assert body["generationConfig"]["temperature"] == 0.5
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY"},
        "includeServerSideToolInvocations": True,
    }
    for name in ("safetySettings", "cachedContent"):
        assert body[name] == options[name]


RECORDED = {
    "system_instruction": {"parts": [{"text": "Be brief."}], "role": "user"},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}, {"inline_data": {"data": "aGk="}}]},
        {"parts": [{"text": "again"}]},
        {"role": "model", "parts": PARTS},
        {
            "role": "function",
            "parts": [
                {"functionResponse": {"name": "look_up", "response": {"result": [1], "type": "a"}}},
                {"function_response": {"id": "fc_2", "name": "look_up", "response": {}}},
            ],
        },
        {"role": "model", "parts": [{"functionCall": {"name": "look_up"}}, {"text": ""}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look_up", "response": {}}}]},
        {"role": "model", "parts": []},
        {"role": "user", "parts": [{"fileData": {"fileUri": "u", "mimeType": "video/mp4"}}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "look_up", "parameters": {"type": "OBJECT"}},
                {"name": "wait", "description": "Waits.", "parametersJsonSchema": {}},
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {
        "topK": 5,
        "maxOutputTokens": 9,
        "thinkingConfig": {"thinkingBudget": 128, "include_thoughts": True},
    },
    "safetySettings": [],
}


def test_a_recorded_request_is_written_again_as_it_was():
    request = request_from_wire(RECORDED, "gemini")
    assert len(request.messages) == 8
    assert [tool.name for tool in request.tools] == ["look_up", "wait"]
    assert request.tools[0].parameters == {"type": "object"}
    assert (request.system, request.max_tokens, request.thinking) == ("Be brief.", 9, 128)
    for model in ("gemini-2.5-pro", "gemini-2.5-flash"):
        assert same_request(GeminiProvider(model, api_key="k", env={}).encode(request), RECORDED)


@pytest.mark.parametrize(
    "thinking",
    [{"thinkingLevel": "LOW"}, {"thinkingBudget": -1}, {"includeThoughts": True}, None],
)
@pytest.mark.parametrize("contents", [{"parts": {"text": "hi"}}, [], [{"parts": [{"text": "hi"}]}]])
def test_a_short_recorded_request_is_written_again_as_it_was(thinking, contents):
    config = {"generationConfig": {"thinkingConfig": thinking}} if thinking else {}
    body = {"contents": contents, "tools": {"codeExecution": {}}} | config
    request = request_from_wire(body, "gemini")
    for model in ("gemini-3.5-flash", "gemini-2.0-flash", "m"):
        assert same_request(GeminiProvider(model, api_key="k", env={}).encode(request), body)


def test_a_recorded_result_without_a_name_is_written_again_as_it_was():
    call, result = {"functionCall": {"args": {"n": 1}}}, {"functionResponse": {"response": {}}}
    body = {"contents": [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]}
    llm = GeminiProvider("gemini-3.8-flash", api_key="k", env={})
    assert same_request(llm.encode(request_from_wire(body, "gemini")), body)


LISTED = [name.partition(":")[2] for name in MODELS if name.startswith("google:")]
NAMES = [
    *LISTED,
    *("gemini-2.0-flash", "gemini-3-pro-preview", "gemini-3.7-flash", "gemini-2.5-flash-001"),
    *("gemini-flash-latest", "gemini-9-xenon"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(3)
def test_every_model_takes_every_effort_and_budget_with_tools_and_without(name):
    llm = GeminiProvider(name, api_key="k", env={})
    for settings in combine_settings(llm):
        for tools in ((), (TOOL,)):
            body = llm.encode(ModelRequest(messages=[HELLO], tools=tools, **settings))
            assert not refuse_gemini(name, body), (body, settings)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_gives_a_value_of_any_type(name):
    llm = GeminiProvider(name, api_key="k", env={})
    for type_, effort, tools in product((int, dict[str, int]), (None, *EFFORTS), ((), (TOOL,))):
        request = ModelRequest(messages=[HELLO], effort=effort, tools=tools)
        output = OutputType(type_)
        modes = OutputModes(llm, request, output)
        body = llm.encode(with_output(request, output, modes.current))
        assert not refuse_gemini(name, body), body


def test_an_effort_is_the_nearest_level_and_a_budget_is_kept_where_the_model_takes_one():
    def think(name, **settings):
        body = encode(model=name, **settings)
        return body.get("generationConfig", {}).get("thinkingConfig")

    shown = {"includeThoughts": True}
    assert think("gemini-3.8-flash") == shown
    assert think("gemini-3.8-flash", effort="none") == {"thinkingLevel": "low"} | shown
    assert think("gemini-3.5-flash", effort="none") == {"thinkingLevel": "minimal"} | shown
    assert think("gemini-3-pro-preview", effort="medium") == {"thinkingLevel": "low"} | shown
    assert think("gemini-4-argon", thinking=8_000) == {"thinkingLevel": "medium"} | shown
    assert think("gemini-2.5-flash", thinking=8_000) == {"thinkingBudget": 8_000} | shown
    assert think("gemini-2.5-flash", effort="none") == {"thinkingBudget": 0}
    assert think("gemini-2.5-flash", effort="max") == {"thinkingBudget": 24_576} | shown
    assert think("gemini-2.5-pro", thinking=0) == {"thinkingBudget": 128} | shown
    assert think("gemini-2.0-flash", effort="high") is None
    assert think("gemma-3") is None


def test_a_reply_is_not_continued_by_a_model_that_refuses_that():
    part = Message.assistant("So")
    assert encode(part, model="gemini-3.5-flash")["contents"][-1]["role"] == "model"
    with pytest.raises(ModelBadRequestError, match="does not continue a reply"):
        encode(part, model="gemini-3.8-flash")


def test_a_tool_s_schema_of_results_is_sent():
    schema = {"type": "object", "properties": {"degrees": {"type": "number"}}}
    tool = ToolDefinition("weather", "Tells it.", {"type": "object"}, output_schema=schema)
    [declared] = encode(HELLO, tools=[tool])["tools"]
    assert declared["functionDeclarations"][0]["responseJsonSchema"] == schema
