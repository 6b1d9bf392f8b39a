"""Requests in the words of both wire formats."""

import base64
import re

import pytest
from msgspec import UNSET

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import NamedTool
from greenroom.llm import AnthropicProvider, ModelBadRequestError, ModelRequest
from greenroom.llm._internal import HOSTS
from tests.llm.dialects import encode_anthropic, encode_openai

READ = ToolDefinition("Read", "Reads a file.", {"type": "object", "properties": {}})
PNG = ImageBlock("image/png", "aGk=")
CALL = ToolUseBlock("t1", "Read", {"file_path": "a.py"})


def anthropic(*messages, cache=False, **fields):
    request = ModelRequest(messages=messages or [Message.user("hi")], cache=cache, **fields)
    return encode_anthropic(request, model="m", max_tokens=100)


def openai(*messages, host="openai", **fields):
    request = ModelRequest(messages=messages or [Message.user("hi")], **fields)
    return encode_openai(request, model="m", host=HOSTS[host])


def own(provider, *blocks):
    return Message("assistant", blocks, provider=provider)


# Everything besides the messages


def test_a_bare_request_says_nothing_that_was_not_asked():
    assert anthropic() == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }
    assert openai() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("prompt", ["Be brief.", "  two\n\nlines \u2028 ", "😀" * 3])
def test_the_system_prompt_reaches_the_wire_unchanged(prompt):
    assert anthropic(system=prompt)["system"] == prompt
    assert openai(system=prompt)["messages"][0] == {"role": "system", "content": prompt}


def test_a_system_prompt_of_blocks_keeps_its_cache_marker():
    blocks = [TextBlock("a", {"cache_control": {"type": "ephemeral"}}), TextBlock("b")]
    parts = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b"},
    ]
    assert anthropic(system=blocks)["system"] == parts
    assert openai(system=blocks)["messages"][0]["content"] == parts


def test_tools_are_written_in_each_form():
    assert anthropic(tools=[READ])["tools"] == [
        {"name": "Read", "description": "Reads a file.", "input_schema": READ.parameters}
    ]
    function = {"name": "Read", "description": "Reads a file.", "parameters": READ.parameters}
    assert openai(tools=[READ])["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("choice", "theirs", "others"),
    [
        ("auto", None, None),
        ("any", {"type": "any"}, "required"),
        ("none", {"type": "none"}, "none"),
        (
            NamedTool("Read"),
            {"type": "tool", "name": "Read"},
            {"type": "function", "function": {"name": "Read"}},
        ),
    ],
)
def test_the_choice_of_a_tool_is_written_in_each_form(choice, theirs, others):
    assert anthropic(tools=[READ], tool_choice=choice).get("tool_choice") == theirs
    assert openai(tools=[READ], tool_choice=choice).get("tool_choice") == others
    assert "tool_choice" not in anthropic(tool_choice=choice)
    assert "tool_choice" not in openai(tool_choice=choice)


def test_sampling_is_written_in_each_form_and_zero_is_a_value():
    fields = {"temperature": 0.0, "top_p": 0.5, "stop_sequences": ["END"], "max_tokens": 5}
    theirs, others = anthropic(**fields), openai(**fields)
    assert (theirs["temperature"], theirs["top_p"]) == (0.0, 0.5)
    assert (others["temperature"], others["top_p"]) == (0.0, 0.5)
    assert theirs["stop_sequences"] == others["stop"] == ["END"]
    assert theirs["max_tokens"] == others["max_completion_tokens"] == 5


def test_other_servers_know_the_limit_by_its_old_name():
    body = encode_openai(ModelRequest(messages=()), model="m", max_tokens=7, host=HOSTS["ollama"])
    assert body["max_tokens"] == 7
    assert "max_completion_tokens" not in body


def test_a_thinking_budget_comes_on_top_of_the_default_limit():
    assert anthropic(thinking=50)["thinking"] == {"type": "enabled", "budget_tokens": 50}
    assert anthropic(thinking=50)["max_tokens"] == 150
    assert anthropic(thinking=50, max_tokens=60)["max_tokens"] == 60
    assert anthropic(thinking=0)["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("budget", "effort"),
    [(None, None), (0, "none"), (1000, "low"), (2048, "low"), (8000, "medium"), (32_000, "high")],
)
def test_a_thinking_budget_becomes_an_effort(budget, effort):
    assert openai(thinking=budget).get("reasoning_effort") == effort


def test_options_have_the_last_word():
    options = {"max_tokens": 1, "service_tier": "flex", "stream_options": None}
    assert anthropic(options=options)["max_tokens"] == 1
    assert openai(options=options)["service_tier"] == "flex"
    assert openai(options=options)["stream_options"] is None


def test_stream_options_are_added_to_those_that_ask_for_token_counts():
    def sent(**given):
        return openai(options={"stream_options": given})["stream_options"]

    assert sent(include_obfuscation=False) == {"include_usage": True, "include_obfuscation": False}
    assert sent(include_usage=False) == {"include_usage": False}


def test_an_option_that_is_unset_takes_a_field_out():
    assert "stream_options" not in openai(options={"stream_options": UNSET})
    assert "system" not in anthropic(system="Be brief.", options={"system": UNSET}, cache=True)
    assert "messages" not in anthropic(options={"messages": UNSET}, cache=True)


def test_a_conversation_has_a_key_of_its_own_where_the_server_takes_one():
    def key(conversation, host="openai", model="m"):
        request = ModelRequest(messages=[Message.user("hi")], conversation=conversation)
        return encode_openai(request, model=model, host=HOSTS[host]).get("prompt_cache_key")

    assert key("s-1") == key("s-1")
    assert key("s-1") != key("s-2")
    assert key("") is None
    assert key("s-1", "groq") is None
    assert key("s-1", "azure", "my-gpt-5.4") == key("s-1", "mistral") == key("s-1")
    assert key("s-1", "azure", "grok-4") is None  # Azure serves other vendors' models, too
    assert "s-1" not in key("s-1")


# Messages for Anthropic


def test_each_block_has_its_form_for_anthropic():
    message = own(
        "anthropic",
        ThinkingBlock("hm", "sig"),
        ThinkingBlock("", "only-a-signature"),
        RedactedThinkingBlock("xyz"),
        TextBlock("a", {"citations": [1]}),
        CALL,
        UnknownBlock({"type": "server_tool_use", "id": "s1"}),
    )
    assert anthropic(message)["messages"] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "thinking", "thinking": "", "signature": "only-a-signature"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "a", "citations": [1]},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}},
                {"type": "server_tool_use", "id": "s1"},
            ],
        }
    ]


def test_images_and_documents_are_written_by_source_for_anthropic():
    plain = base64.b64encode("Grüße".encode()).decode()
    message = Message.user(
        [
            PNG,
            ImageBlock(url="https://a/b.png"),
            DocumentBlock("application/pdf", "cGRm", title="A paper"),
            DocumentBlock("text/markdown", plain),
            DocumentBlock(url="https://a/b.pdf", extra={"citations": {"enabled": True}}),
        ]
    )
    assert anthropic(message)["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
            "title": "A paper",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
        },
        {
            "type": "document",
            "source": {"type": "url", "url": "https://a/b.pdf"},
            "citations": {"enabled": True},
        },
    ]


def test_tool_results_hold_texts_images_and_failures_for_anthropic():
    message = Message.user(
        [
            ToolResultBlock("t1", (TextBlock("ok"), PNG)),
            ToolResultBlock("t2", (TextBlock(" "),), is_error=True),
        ]
    )
    assert anthropic(message)["messages"][0]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [
                {"type": "text", "text": "ok"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                },
            ],
        },
        {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
    ]


def test_thinking_without_a_signature_is_not_sent_to_anthropic():
    messages = [Message.user("a"), own("anthropic", ThinkingBlock("hm")), Message.user("b")]
    assert anthropic(*messages)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_ids_of_other_vendors_are_written_with_the_letters_that_anthropic_takes():
    call, result = ToolUseBlock("functions.Read:0", "Read"), ToolResultBlock("functions.Read:0")
    sent = anthropic(own("openai", call), Message.user([result]))["messages"]
    assert sent[0]["content"][0]["id"] == sent[1]["content"][0]["tool_use_id"] == "functions_Read_0"


def calls_and_results(*turns):
    """Make a history in which each reply's calls are answered: its turns are lists of ids."""
    messages = [Message.user("go")]
    for turn, ids in enumerate(turns):
        texts = [f"{turn}.{place}" for place in range(len(ids))]
        messages.append(Message("assistant", tuple(ToolUseBlock(i, "Read") for i in ids)))
        results = [
            ToolResultBlock(call_id or "call", (TextBlock(text),))
            for call_id, text in zip(ids, texts, strict=True)
        ]
        messages.append(Message.user(results))
    return messages


def sent_calls(messages):
    """Return the ids of the calls, and the text of each id's result, as they are sent."""
    blocks = [block for message in messages for block in message["content"]]
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [
        (block["tool_use_id"], block["content"][0]["text"])
        for block in blocks
        if block["type"] == "tool_result"
    ]
    assert len(dict(results)) == len(results)
    return ids, dict(results)


@pytest.mark.parametrize(
    ("turns", "ids"),
    [
        ([["x"], ["x"]], ["x", "x_2"]),
        ([["x", "x"], ["x", "x"]], ["x", "x_2", "x_3", "x_4"]),
        ([["a.b", "a_b"], ["a:b"]], ["a_b", "a_b_2", "a_b_3"]),
        ([["x_2", "x", "x"]], ["x_2", "x", "x_3"]),
        ([[""]], ["call"]),
    ],
)
def test_each_call_has_an_id_of_its_own_and_its_result_has_the_same(turns, ids):
    sent, results = sent_calls(anthropic(*calls_and_results(*turns))["messages"])
    assert sent == ids
    texts = [f"{turn}.{place}" for turn, ids in enumerate(turns) for place in range(len(ids))]
    assert [results[call_id] for call_id in sent] == texts


def sent_chat_calls(messages):
    """Return the same of chat completions."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    told = [(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"]
    assert len(dict(told)) == len(told)
    return ids, dict(told)


@pytest.mark.parametrize(
    ("turns", "host", "ids"),
    [
        ([["x"], ["x"]], "openai", ["x", "x_2"]),
        ([["x", "x"], ["x", "x"]], "openai", ["x", "x_2", "x_3", "x_4"]),
        ([["x_2", "x", "x"]], "openai", ["x_2", "x", "x_3"]),
        ([["x"], ["x"]], "deepseek", ["x", "x_2"]),
    ],
)
def test_an_id_that_is_repeated_is_sent_as_one_of_its_own_with_its_result(turns, host, ids):
    sent, results = sent_chat_calls(openai(*calls_and_results(*turns), host=host)["messages"])
    assert sent == ids
    texts = [f"{turn}.{place}" for turn, ids in enumerate(turns) for place in range(len(ids))]
    assert [results[call_id] for call_id in sent] == texts


def test_a_repeated_id_of_nine_letters_stays_one_of_nine():
    history = calls_and_results(["x"], ["x"])
    sent, results = sent_chat_calls(openai(*history, host="mistral")["messages"])
    assert len(set(sent)) == 2
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in sent)
    assert [results[call_id] for call_id in sent] == ["0.0", "1.0"]


def test_a_call_without_a_result_does_not_take_that_of_a_later_one():
    lost = [Message.user("go"), Message("assistant", (ToolUseBlock("x", "Read"),))]
    ids, results = sent_calls(anthropic(*lost, *calls_and_results(["x"]))["messages"])
    assert ids == ["x", "x_2"]
    assert results == {"x_2": "0.0"}


def test_long_ids_are_cut_for_chat_completions_and_keep_their_letters():
    long = ["functions.Read:" + "0" * 40 + end for end in "ab"]
    sent = openai(*calls_and_results(long))["messages"]
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert ids == [("functions.Read:" + "0" * 25), ("functions.Read:" + "0" * 23 + "_2")]
    assert [message["tool_call_id"] for message in sent[2:]] == ids


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("multi_tool_use.parallel", "multi_tool_use__parallel"),
        ("", "unnamed"),
        ("x" * 64, "x" * 64),
        ("größe", "gr__e"),
    ],
)
def test_names_that_no_tool_can_have_are_sent_as_ones_that_are_taken(name, sent):
    call = own("", ToolUseBlock("t1", name))
    assert anthropic(call)["messages"][0]["content"][0]["name"] == sent
    assert openai(call)["messages"][0]["tool_calls"][0]["function"]["name"] == sent


def test_names_are_cut_where_each_vendor_does():
    call = own("", ToolUseBlock("t1", "x" * 200))
    assert len(anthropic(call)["messages"][0]["content"][0]["name"]) == 128
    assert len(openai(call)["messages"][0]["tool_calls"][0]["function"]["name"]) == 64


@pytest.mark.parametrize("blocks", [[], [TextBlock("so")]])
@pytest.mark.parametrize("thought", [ThinkingBlock("hm", "sig"), RedactedThinkingBlock("xyz")])
def test_thinking_never_ends_a_message_to_anthropic(thought, blocks):
    sent = anthropic(Message.user("a"), own("anthropic", *blocks, thought), Message.user("b"))
    kinds = [(m["role"], [part["type"] for part in m["content"]]) for m in sent["messages"]]
    if blocks:
        assert kinds == [("user", ["text"]), ("assistant", ["text"]), ("user", ["text"])]
    else:
        assert kinds == [("user", ["text", "text"])]


@pytest.mark.parametrize(
    "messages", [[], [Message.user("  ")], [Message.user(())], [Message.assistant(" ")]]
)
def test_a_conversation_is_never_empty(messages):
    request = ModelRequest(messages=messages, cache=False)
    theirs = encode_anthropic(request, model="m", max_tokens=1)["messages"]
    assert theirs == [{"role": "user", "content": [{"type": "text", "text": "(empty)"}]}]
    assert encode_openai(request, model="m")["messages"] == [{"role": "user", "content": "(empty)"}]


@pytest.mark.parametrize("encode", [anthropic, openai])
def test_a_blank_text_that_was_answered_keeps_its_place(encode):
    sent = encode(Message.user(" "), Message.assistant("Yes?"), Message.user("b"))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]


def test_a_document_that_is_not_base64_is_refused_with_a_reason():
    with pytest.raises(ModelBadRequestError, match="not base64"):
        anthropic(Message.user([DocumentBlock("text/plain", "é")]))


# Messages for Chat Completions


def test_a_reply_goes_back_with_its_calls_and_its_reasoning_where_it_came():
    signature = {"extra_content": {"google": {"thought_signature": "s"}}}
    message = own(
        "openrouter",
        ThinkingBlock("hm, ", extra={"field": "reasoning_content"}),
        TextBlock("One. "),
        ThinkingBlock("so", extra={"field": "reasoning_content"}),
        TextBlock("Two."),
        ToolUseBlock("c1", "Read", {"file_path": "ü"}, extra=signature),
    )
    function = {"name": "Read", "arguments": '{"file_path":"ü"}'}
    assert openai(message, host="openrouter")["messages"] == [
        {
            "role": "assistant",
            "content": "One. Two.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function} | signature],
            "reasoning_content": "hm, so",
        }
    ]


def test_details_of_reasoning_go_back_merged():
    def detail(**fields):
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}]}

    message = own(
        "openrouter",
        ThinkingBlock("a", extra={"field": "reasoning", **detail(text="a")}),
        TextBlock("x"),
        ThinkingBlock("", extra=detail(signature="sig")),
    )
    assert openai(message, host="openrouter")["messages"][0] == {
        "role": "assistant",
        "content": "x",
        "reasoning": "a",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "a", "signature": "sig"}
        ],
    }


def test_a_content_that_came_as_a_list_goes_back_as_one():
    message = own(
        "openai",
        ThinkingBlock("hm", extra={"field": "content"}),
        TextBlock("so"),
        UnknownBlock({"type": "reference", "ids": [1]}),
    )
    assert openai(message)["messages"][0]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
        {"type": "reference", "ids": [1]},
    ]


def test_a_call_alone_has_no_content_and_thinking_alone_an_empty_one():
    assert openai(own("openrouter", CALL), host="openrouter")["messages"][0]["content"] is None
    thought = ThinkingBlock("hm", extra={"field": "reasoning"})
    assert openai(own("openrouter", thought), host="openrouter")["messages"][0] == {
        "role": "assistant",
        "content": "",
        "reasoning": "hm",
    }


def test_a_refusal_goes_back_as_one():
    assert openai(own("openai", TextBlock("No.", {"refusal": True})))["messages"][0] == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
    }


def test_an_invalid_call_goes_back_as_valid_json():
    call = ToolUseBlock("c1", "Read", invalid="no JSON", raw_input='{"file')
    assert openai(own("openai", call))["messages"][0]["tool_calls"][0]["function"] == {
        "name": "Read",
        "arguments": "{}",
    }


def test_tool_results_become_messages_of_their_own_with_images_after_them():
    message = Message.user(
        [
            TextBlock("And now?"),
            ToolResultBlock("c1", (TextBlock("one"), PNG)),
            ToolResultBlock("c2", (TextBlock("gone"),), is_error=True),
            ToolResultBlock("c3", (PNG,)),
            ToolResultBlock("c4"),
        ]
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert openai(message)["messages"] == [
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: gone"},
        {"role": "tool", "tool_call_id": "c3", "content": "The result follows below."},
        {"role": "tool", "tool_call_id": "c4", "content": ""},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From call c1:"},
                image,
                {"type": "text", "text": "From call c3:"},
                image,
                {"type": "text", "text": "And now?"},
            ],
        },
    ]


@pytest.mark.parametrize("is_error", [False, True])
def test_the_extra_of_texts_in_a_tool_result_is_sent_in_parts(is_error):
    mark = {"cache_control": {"type": "ephemeral"}}
    texts = (TextBlock("one"), TextBlock("two", mark))
    [sent] = openai(Message.user([ToolResultBlock("c1", texts, is_error)]))["messages"]
    error = [{"type": "text", "text": "Error:"}] if is_error else []
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"} | mark]
    assert sent == {"role": "tool", "tool_call_id": "c1", "content": [*error, *parts]}


def test_images_and_documents_are_parts_for_chat_completions():
    message = Message.user(
        [
            ImageBlock(url="https://a/b.png", extra={"detail": "low"}),
            DocumentBlock("application/pdf", "cGRm", title="a.pdf"),
            DocumentBlock(url="https://a/b.pdf"),
            UnknownBlock({"type": "input_audio", "input_audio": {}}),
        ]
    )
    assert openai(message)["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}, "detail": "low"},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        },
        {"type": "text", "text": "Document: https://a/b.pdf"},
        {"type": "input_audio", "input_audio": {}},
    ]


# Messages for either


@pytest.mark.parametrize("encode", [anthropic, openai])
def test_messages_of_one_side_are_merged_and_empty_ones_left_out(encode):
    sent = encode(
        Message.user("a"),
        Message.user("  "),
        Message.user(()),
        Message.user("b"),
        Message.assistant(()),
        Message.assistant("c"),
    )["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant"]
    assert [part["text"] for part in sent[0]["content"]] == ["a", "b"]


@pytest.mark.parametrize(("encode", "other"), [(anthropic, "openai"), (openai, "anthropic")])
def test_what_another_provider_alone_understands_stays_here(encode, other):
    sent = encode(
        Message.user("a"),
        own(
            other,
            ThinkingBlock("hm", "sig", {"field": "reasoning"}),
            RedactedThinkingBlock("xyz"),
            UnknownBlock({"type": "server_tool_use"}),
            TextBlock("said", {"citations": [1]}),
        ),
        own(other, ThinkingBlock("hm", "sig")),
    )["messages"]
    assert len(sent) == 2
    assert sent[1]["content"] in ("said", [{"type": "text", "text": "said"}])
    assert sent[1].keys() == {"role", "content"}


@pytest.mark.parametrize("encode", [anthropic, openai])
def test_tool_results_lead_their_turn(encode):
    sent = encode(
        own("", CALL),
        Message.user("wait"),
        Message.user([ToolResultBlock("t1", (TextBlock("x"),))]),
    )["messages"]
    first = sent[1]["content"][0]["type"] if encode is anthropic else sent[1]["role"]
    assert first in ("tool_result", "tool")


# What has no typed place


def test_extra_of_a_tool_reaches_both_vendors():
    late = ToolDefinition("late", "d", {"type": "object"}, {"defer_loading": True})
    assert anthropic(tools=[late])["tools"][0]["defer_loading"] is True
    strict = ToolDefinition("s", "d", {"type": "object"}, {"function": {"strict": True}})
    [sent] = openai(tools=[strict])["tools"]
    assert sent["function"] == {
        "name": "s", "description": "d", "parameters": {"type": "object"}, "strict": True
    }  # fmt: skip


def test_tools_of_the_options_join_the_typed_ones():
    tools = [ToolDefinition(name, "d", {"type": "object"}) for name in ("a", "b", "c")]
    search = {"type": "web_search_20260318", "name": "web_search"}
    options = {"tools": [search, {"name": "b", "defer_loading": True}]}
    sent = anthropic(tools=tools, options=options)["tools"]
    assert [tool["name"] for tool in sent] == ["a", "c", "web_search", "b"]
    assert sent[3] == {"name": "b", "description": "d", "input_schema": {"type": "object"},
                       "defer_loading": True}  # fmt: skip
    [strict] = openai(tools=tools[:1], options={"tools": [{"name": "a", "strict": True}]})["tools"]
    assert strict["function"]["strict"] is True
    assert strict.keys() == {"type", "function"}
    custom = {"type": "custom", "custom": {"name": "sql"}}
    assert openai(tools=tools[:1], options={"tools": [custom]})["tools"][1] == custom
    assert anthropic(options={"tools": [search]}, tool_choice="any")["tool_choice"] == {
        "type": "any"
    }


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_message_may_have_a_role_of_its_own_in_the_middle(role):
    said = Message("user", (TextBlock("Now be brief."),), extra={"role": role})
    messages = [Message.user("a"), said, Message.user("b"), Message.user("c")]
    plain = [message["role"] for message in openai(*messages)["messages"]]
    assert plain == [message["role"] for message in anthropic(*messages)["messages"]]
    assert plain == ["user", role, "user"]


def test_fields_of_a_message_go_to_the_provider_that_it_came_from_and_to_no_other():
    fields = {"name": "Ann", "role": "developer"}
    named = Message("user", (TextBlock("hi"),), extra=fields, provider="openai")
    assert openai(named)["messages"] == [{"role": "developer", "content": "hi", "name": "Ann"}]
    assert set(anthropic(named)["messages"][0]) == {"role", "content"}
    assert anthropic(named)["messages"][0]["role"] == "user"


def test_of_a_reply_only_what_its_server_takes_back_goes_back():
    extra = {"extra_content": {"google": {"thought_signature": "s"}}, "system_fingerprint": "f"}
    reply = Message("assistant", (TextBlock("a"),), provider="gemini-openai", extra=extra)
    [sent] = openai(reply, host="gemini-openai")["messages"]
    assert sent == {"role": "assistant", "content": "a", "extra_content": extra["extra_content"]}
    assert openai(reply)["messages"] == [{"role": "assistant", "content": "a"}]


def test_what_openrouter_sent_is_not_sent_to_openai():
    details = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}]}
    thought = ThinkingBlock("hm", extra={"field": "reasoning"} | details)
    reply = own("openrouter", thought, TextBlock("a"))
    assert openai(reply, host="openrouter")["messages"][0]["reasoning_details"]
    assert openai(reply)["messages"] == [{"role": "assistant", "content": "a"}]


def test_a_server_that_takes_no_reasoning_back_gets_none_of_its_own():
    reply = own(
        "perplexity", ThinkingBlock("hm", extra={"field": "reasoning_content"}), TextBlock("a")
    )
    assert openai(reply, host="perplexity")["messages"] == [{"role": "assistant", "content": "a"}]


def test_an_id_that_holds_a_signature_goes_back_whole():
    call_id = "call_1__thought__" + "x" * 900
    messages = [
        own("litellm", ToolUseBlock(call_id, "Read")),
        Message.user([ToolResultBlock(call_id)]),
    ]
    sent = openai(*messages, host="litellm")["messages"]
    assert sent[0]["tool_calls"][0]["id"] == sent[1]["tool_call_id"] == call_id


def test_mistral_gets_ids_of_nine_letters():
    calls = [ToolUseBlock(call_id, "Read") for call_id in ("call_abcdefgh", "abcDEF123")]
    results = [ToolResultBlock(call.id) for call in calls]
    messages = [own("openai", *calls), Message.user(results)]
    sent = openai(*messages, host="mistral")["messages"]
    ids = [call["id"] for call in sent[0]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in sent[1:]]
    assert re.fullmatch("[a-zA-Z0-9]{9}", ids[0])
    assert ids[1] == "abcDEF123"


def test_a_custom_call_goes_back_as_one_and_elsewhere_as_a_call_with_its_text():
    call = ToolUseBlock("c1", "sql", {"input": "SELECT 1"}, extra={"type": "custom"})
    assert openai(own("openai", call))["messages"][0]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    ]
    [elsewhere] = openai(own("openai", call), host="groq")["messages"][0]["tool_calls"]
    assert elsewhere["function"] == {"name": "sql", "arguments": '{"input":"SELECT 1"}'}


def test_results_hold_blocks_of_unknown_kinds_and_fields_of_their_own():
    reference = UnknownBlock({"type": "tool_reference", "tool_name": "x"})
    result = ToolResultBlock("t1", (reference,), extra={"cache_control": {"type": "ephemeral"}})
    assert anthropic(Message.user([result]))["messages"][0]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": [reference.raw],
         "cache_control": {"type": "ephemeral"}}
    ]  # fmt: skip
    named = ToolResultBlock("t1", (TextBlock("a"),), extra={"name": "Read"})
    assert openai(Message.user([named]))["messages"][0]["name"] == "Read"


def test_a_file_that_lies_with_one_provider_goes_to_no_other():
    there = ImageBlock(extra={"source": {"type": "file", "file_id": "f1"}})
    message = Message("user", (TextBlock("a"), there), provider="anthropic")
    assert anthropic(message)["messages"][0]["content"][1]["source"]["file_id"] == "f1"
    assert openai(message)["messages"] == [{"role": "user", "content": "a"}]
    known = DocumentBlock(extra={"file": {"file_id": "f2"}})
    sent = openai(Message.user([TextBlock("a"), known]))["messages"][0]["content"]
    assert sent[1] == {"type": "file", "file": {"file_id": "f2"}}


def test_what_a_newer_version_of_ours_wrote_goes_to_no_provider():
    message = Message("user", (TextBlock("a"),), extra={"unknown_fields": {"x": 1}})
    assert openai(message)["messages"] == [{"role": "user", "content": "a"}]


# The version of the API of 2026-10-21


def later(*messages, **fields):
    provider = AnthropicProvider("m", api_key="sk-1", version="2026-10-21", env={})
    return provider.encode(ModelRequest(messages=messages or [Message.user("hi")], **fields))


@pytest.mark.parametrize(
    "fields", [{"temperature": 0.0}, {"top_p": 1.0}, {"options": {"top_k": 5}}]
)
def test_the_later_version_has_no_sampling_parameters(fields):
    with pytest.raises(ModelBadRequestError, match="2026-10-21"):
        later(**fields)
    assert anthropic(**fields)


def test_the_later_version_takes_no_citations_in_what_the_user_says():
    cited = TextBlock("a", {"citations": [{"cited_text": "b"}]})
    assert later(Message.user([cited]))["messages"][0]["content"][0]["text"] == "a"
    assert "citations" not in later(Message.user([cited]))["messages"][0]["content"][0]
    assert later(own("anthropic", cited))["messages"][0]["content"][0]["citations"]


def test_the_version_is_named_in_a_header():
    for version in ("2023-06-01", "2026-10-21"):
        provider = AnthropicProvider("m", api_key="sk-1", version=version, env={})
        assert provider._endpoint.headers["anthropic-version"] == version


@pytest.mark.parametrize("host", ["deepseek", "moonshot"])
@pytest.mark.parametrize(
    ("provider", "api"), [("anthropic", ""), ("openai", "responses"), (None, "")]
)
def test_calls_without_reasoning_are_accepted_by_servers_that_need_it(host, provider, api):
    thought = ThinkingBlock("hm", "signed")
    calls = ToolUseBlock("c1", "look_up", {}), ToolUseBlock("c2", "search", {})
    results = [ToolResultBlock(each.id, (TextBlock("found"),)) for each in calls]
    reply = Message("assistant", (thought, *calls), provider=provider or host, api=api)
    messages = [Message.user("hi"), reply, Message.user(results)]
    sent = openai(*messages, host=host)["messages"][1]
    assert sent["reasoning_content"] == "I call look_up, search."
    assert "reasoning_content" not in openai(*messages, host="openai")["messages"][1]
    own = Message("assistant", (ThinkingBlock("hm", extra=FIELD), *calls), provider=host)
    sent = openai(messages[0], own, messages[2], host=host)["messages"][1]
    assert sent["reasoning_content"] == "hm"
    plain = Message("assistant", (TextBlock("hello"),), provider=provider or host, api=api)
    sent = openai(messages[0], plain, messages[0], host=host)["messages"][1]
    assert "reasoning_content" not in sent


FIELD = {"field": "reasoning_content"}
