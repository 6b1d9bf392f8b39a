"""What the vendors' APIs refuse of today's models, as their pages say, and a server that does.

Written from those pages, and apart from the catalogue: the two must agree.
"""

import hashlib
import json
import re

from greenroom.core._internal import serde
from tests.llm import wire
from tests.llm.server import Answer

EFFORTS = ("low", "medium", "high", "xhigh", "max")
ANTHROPIC_FIELDS = {
    "model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice", "thinking",
    "output_config", "temperature", "top_p", "top_k", "stop_sequences", "cache_control", "metadata",
}  # fmt: skip
CHAT_FIELDS = {
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "tools",
    "tool_choice", "temperature", "top_p", "stop", "reasoning_effort", "response_format", "seed",
    "parallel_tool_calls", "prompt_cache_key",
}  # fmt: skip


def refuse_messages(body, has_seen=lambda signature, prefix: True):
    """Why Anthropic's Messages API answers 400, or nothing."""
    model, thinking = body["model"], body.get("thinking") or {}
    kind, effort = thinking.get("type"), (body.get("output_config") or {}).get("effort")
    choice = (body.get("tool_choice") or {}).get("type")
    is_old = re.search(r"-4-5\b", model) is not None
    is_bound = re.search(r"(fable|mythos)-5-|-5-5\b", model) is not None
    is_always = re.search(r"fable-5|mythos-5|opus-5-5", model) is not None
    if unknown := body.keys() - ANTHROPIC_FIELDS:
        return f"{unknown}: extra inputs are not permitted"
    if kind == "enabled" and not is_old and "-4-6" not in model:
        return '"thinking.type.enabled" is not supported for this model'
    if kind == "disabled" and (is_always or "sonnet-5-5" in model):
        return '"thinking.type.disabled" is not supported for this model'
    if kind == "disabled" and effort in ("xhigh", "max"):
        return "thinking can't be disabled with this effort"
    if kind == "between_tools" and ("sonnet-5-5" not in model or effort in ("xhigh", "max")):
        return '"thinking.type.between_tools" is not supported here'
    if is_old and (kind == "adaptive" or effort):
        return "adaptive thinking and effort are not supported on this model"
    if effort and effort not in EFFORTS:
        return f"effort: {effort}"
    budget = thinking.get("budget_tokens")
    if kind == "enabled" and not 1024 <= budget < body["max_tokens"]:
        return f"thinking.enabled.budget_tokens: {budget}"
    sampled = [name for name in ("temperature", "top_p") if body.get(name) not in (None, 1)]
    if sampled and ("-4-6" in model or is_old) and kind not in (None, "disabled"):
        return "temperature may only be 1 when thinking is enabled"
    if sampled and "-4-6" not in model and not is_old:
        return f"{sampled}: not supported by this model"
    if choice in ("any", "tool") and re.search(r"(opus|sonnet)-5-5|(fable|mythos)-5-", model):
        return "tool_choice: forced tool use is not supported"
    if choice in ("any", "tool") and is_old and kind == "enabled":
        return "Thinking may not be enabled when tool_choice forces tool use."
    if body["max_tokens"] > (64_000 if is_old else 128_000):
        return f"max_tokens: {body['max_tokens']}"
    if any({"anyOf", "oneOf", "allOf"} & t["input_schema"].keys() for t in body.get("tools", ())):
        return "input_schema does not support oneOf, allOf, or anyOf at the top level"
    return _refuse_conversation(body, is_old and kind == "enabled", is_old, is_bound, has_seen)


def _refuse_conversation(body, must_think, is_old, is_bound, has_seen):
    messages = body["messages"]
    if messages[-1]["role"] == "assistant" and not is_old:
        return "This model does not support assistant message prefill"
    open_calls = []
    for place, message in enumerate(messages):
        blocks = message["content"]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            return f"messages.{place}: tool_use ids without tool_result blocks, or the other way"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_calls)) < len(open_calls):
            return f"messages.{place}: tool_use ids must be unique"
        for at, block in enumerate(blocks):
            if block["type"] == "text" and not block["text"].strip():
                return f"messages.{place}.content.{at}: text must be non-empty"
            is_thought = block["type"] == "thinking"
            if is_thought and is_bound and not has_seen(block["signature"], prefix_of(body, place)):
                return f"messages.{place}.content.{at}: bound to a different conversation"
    if open_calls:
        return "tool_use ids were found without tool_result blocks"
    last = [message["content"][0]["type"] for message in messages if message["role"] != "user"][-1:]
    is_answered = any(block["type"] == "tool_result" for block in messages[-1]["content"])
    if must_think and is_answered and last not in ([], ["thinking"], ["redacted_thinking"]):
        return f"Expected `thinking` or `redacted_thinking`, but found `{last[0]}`"
    return ""


def prefix_of(body, place):
    """What comes before the message at this place, without the marks of the cache."""

    def plain(part):
        if isinstance(part, dict):
            return {key: plain(value) for key, value in part.items() if key != "cache_control"}
        return [plain(each) for each in part] if isinstance(part, list) else part

    system = body.get("system") or []
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    before = [body["model"], system, body.get("tools") or [], body["messages"][:place]]
    return json.dumps(plain(before), sort_keys=True)


def refuse_chat(body):
    """Why OpenAI's Chat Completions answer 400, or nothing."""
    model, effort = body["model"], body.get("reasoning_effort")
    version = re.match(r"gpt-(\d+(?:\.\d+)?)", model)
    number = float(version[1]) if version else 5.0
    always = model.startswith(("gpt-6.1-sol", "gpt-6-astra"))
    if unknown := body.keys() - CHAT_FIELDS:
        return f"Unrecognized request argument supplied: {unknown}"
    if number < 5:
        return "Unrecognized request argument supplied: reasoning_effort" if effort else ""
    efforts = ("none", "low", "medium", "high", "xhigh")
    known = ("minimal", *efforts[1:4]) if number < 5.1 else efforts[1:] if always else efforts
    if effort is not None and effort not in known:
        return f"Unsupported value: reasoning_effort does not support {effort!r}"
    actual = effort or ("none" if 5.1 <= number <= 5.4 else "medium")
    if body.get("tools") and (always or (number >= 5.2 and actual != "none")):
        return "Function tools with reasoning_effort are not supported, use /v1/responses"
    sampled = [name for name in ("temperature", "top_p") if body.get(name) not in (None, 1)]
    if sampled and actual != "none":
        return f"Unsupported value: {sampled[0]} does not support {body[sampled[0]]}"
    return ""


class ClaudeServer:
    """Answers as Anthropic's API does: with signed thinking, a call now and then, or a refusal."""

    def __init__(self):
        self.refused = []
        self.asked = 0
        self.last = None
        self._prefixes = {}

    def __call__(self, request):
        body = self.last = serde.loads(request.content)
        self.asked += 1
        if why := refuse_messages(body, lambda s, prefix: self._prefixes.get(s, prefix) == prefix):
            self.refused.append(why)
            error = {"type": "invalid_request_error", "message": why}
            return Answer.error(400, {"type": "error", "error": error})
        prefix = prefix_of(body, len(body["messages"]))
        signature = hashlib.sha256(f"{self.asked} {prefix}".encode()).hexdigest()[:24]
        self._prefixes[signature] = prefix
        events = []
        if (body.get("thinking") or {}).get("type") != "disabled":
            events = wire.thinking_block(0, "hm", signature)
        is_answered = any(b["type"] == "tool_result" for b in body["messages"][-1]["content"])
        if body.get("tools") and not is_answered:
            events += wire.tool_block(1, f"toolu_{self.asked}", "look_up", '{"topic": "it"}')
        else:
            events += wire.text_block(1, f"Answer {self.asked}.")
        has_call = bool(body.get("tools")) and not is_answered
        end = wire.message_delta("tool_use" if has_call else "end_turn")
        start = wire.message_start(model=body["model"])
        return Answer.stream(wire.sse(start, *events, end, wire.STOP))


RESPONSES_FIELDS = {
    "model", "input", "stream", "store", "include", "instructions", "tools", "tool_choice",
    "parallel_tool_calls", "max_output_tokens", "temperature", "top_p", "reasoning", "text",
    "prompt_cache_key",
}  # fmt: skip


def refuse_responses(body):
    """Why OpenAI's Responses API answers 400, or nothing."""
    model, effort = body["model"], (body.get("reasoning") or {}).get("effort")
    version = re.match(r"gpt-(\d+(?:\.\d+)?)", model)
    number = float(version[1]) if version else 5.0
    always = model.startswith(("gpt-6.1-sol", "gpt-6-astra"))
    if unknown := body.keys() - RESPONSES_FIELDS:
        return f"Unknown parameter: {unknown}"
    if number < 5 and (effort or "include" in body):
        return "Unsupported parameter: reasoning is not supported with this model"
    known = ("none", *EFFORTS) if number >= 5.5 else ("none", *EFFORTS[:4])
    known = EFFORTS if always else known if number >= 5.1 else ("minimal", *EFFORTS[:3])
    if effort is not None and effort not in known:
        return f"Unsupported value: reasoning.effort does not support {effort!r}"
    actual = effort or ("none" if number < 5 or 5.1 <= number <= 5.4 else "medium")
    sampled = [name for name in ("temperature", "top_p") if body.get(name) not in (None, 1)]
    if sampled and actual != "none":
        return f"Unsupported parameter: {sampled[0]} is not supported with this model"
    return _refuse_items(body["input"])


def _refuse_items(items):
    open_calls, thought = [], None
    for item in items:
        kind = item.get("type", "message")
        is_reply = kind == "function_call" or item.get("role") == "assistant"
        if thought is not None and not is_reply and kind != "reasoning":
            return f"Item {thought!r} of type reasoning was provided without its following item"
        if kind == "reasoning":
            if not item.get("encrypted_content") or "summary" not in item:
                return "Encrypted content is missing"
            thought = item.get("id", "")
        elif is_reply:
            if item.get("id") and item["id"].endswith("_reasoned") and thought is None:
                return f"Item {item['id']!r} was provided without its required reasoning item"
            thought = None
        if kind == "function_call":
            open_calls.append(item["call_id"])
        if kind == "function_call_output":
            if item["call_id"] not in open_calls:
                return f"No tool call found for function call output {item['call_id']}"
            open_calls.remove(item["call_id"])
    if thought is not None:
        return f"Item {thought!r} of type reasoning was provided without its following item"
    return f"No tool output found for function call {open_calls[0]}" if open_calls else ""


class OpenAIServer:
    """Answers as OpenAI's Responses API does: with reasoning, a call now and then, or a refusal."""

    def __init__(self):
        self.refused = []
        self.asked = 0
        self.last = None

    def __call__(self, request):
        body = self.last = serde.loads(request.content)
        self.asked += 1
        if why := refuse_responses(body):
            self.refused.append(why)
            error = {"message": why, "type": "invalid_request_error", "code": None}
            return Answer.error(400, {"error": error})
        thinks = (body.get("reasoning") or {}).get("effort") != "none"
        suffix = "_reasoned" if thinks else ""
        items = [wire.reasoning_item(f"rs_{self.asked}", "hm", f"secret {self.asked}")] * thinks
        if body.get("tools") and body["input"][-1].get("type") != "function_call_output":
            arguments = '{"topic": "it"}'
            items.append(
                wire.call_item(
                    f"fc_{self.asked}{suffix}", f"call_{self.asked}", "look_up", arguments
                )
            )
        else:
            items.append(wire.message_item(f"msg_{self.asked}{suffix}", f"Answer {self.asked}."))
        return Answer.stream(wire.responses_stream(*items, model=body["model"]))


def refuse_messages_of_chat(messages):
    """Why Chat Completions refuse a conversation, or nothing: a call lacks its result, or one its
    call."""
    open_calls = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "messages with role 'tool' must be a response to a preceding message"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return "tool_call_ids did not have response messages"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if not message.get("content") and not open_calls:
            return "Invalid value for 'content': expected a string, got null."
    return "tool_call_ids did not have response messages" if open_calls else ""


class ChatServer:
    """Answers as OpenAI's Chat Completions do: with text, a call now and then, or a refusal."""

    def __init__(self):
        self.refused = []
        self.asked = 0
        self.last = None

    def __call__(self, request):
        body = self.last = serde.loads(request.content)
        self.asked += 1
        if why := refuse_chat(body) or refuse_messages_of_chat(body["messages"]):
            self.refused.append(why)
            error = {"message": why, "type": "invalid_request_error", "code": None}
            return Answer.error(400, {"error": error})
        last_said = [each["role"] for each in body["messages"] if each["role"] != "user"][-1:]
        if body.get("tools") and last_said != ["tool"]:
            made = wire.call(0, f"call_{self.asked}", "look_up", '{"topic": "it"}')
            return Answer.stream(wire.chat(made, finish="tool_calls"))
        return Answer.stream(wire.chat({"content": f"Answer {self.asked}."}))
