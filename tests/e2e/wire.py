"""Two vendors' wire formats, as far as a server that plays them needs."""

from greenroom.core._internal import serde
from tests.llm.server import Answer


def split(data, sizes=(7, 1, 64, 3, 256)):
    """Cut a stream at places that no event respects."""
    pieces = []
    at = 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    return tuple(pieces)


def sse(*events):
    lines = []
    for name, value in events:
        if name:
            lines.append(b"event: " + name.encode())
        lines += [b"data: " + (value if isinstance(value, bytes) else serde.dumps(value)), b""]
    return split(b"\n".join([*lines, b""]))


class Anthropic:
    model = "anthropic:claude-e2e"
    path = "/v1/messages"

    @staticmethod
    def environment(url):
        return {"ANTHROPIC_API_KEY": "sk-e2e-anthropic", "ANTHROPIC_BASE_URL": url}

    @staticmethod
    def last_result(body):
        """Return the text of the last tool result of a request, or None, and check the pairing."""
        calls, answers = [], []
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] == "tool_use":
                    calls.append(block["id"])
                if block["type"] == "tool_result":
                    answers.append(block["tool_use_id"])
        assert calls == answers
        last = body["messages"][-1]["content"]
        if isinstance(last, str) or last[-1]["type"] != "tool_result":
            return None
        content = last[-1]["content"]
        return content if isinstance(content, str) else "".join(part["text"] for part in content)

    @staticmethod
    def answer(text, call, number):
        usage = {"input_tokens": 100, "output_tokens": 1}
        start = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-e2e",
        }
        events = [
            {"type": "message_start", "message": {**start, "content": [], "usage": usage}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "ping"},
            *(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": w},
                }
                for w in (text[:3], text[3:])
            ),
            {"type": "content_block_stop", "index": 0},
        ]
        if call:
            name, arguments = call
            encoded = serde.dumps(arguments).decode()
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
            events.append({"type": "content_block_start", "index": 1, "content_block": block})
            events += [
                {
                    "type": "content_block_delta",
                    "index": 1,
                    "delta": {"type": "input_json_delta", "partial_json": piece},
                }
                for piece in ("", encoded[:5], encoded[5:])
            ]
            events.append({"type": "content_block_stop", "index": 1})
        reason = "tool_use" if call else "end_turn"
        events.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 20},
            }
        )
        events.append({"type": "message_stop"})
        return Answer(sse(*((event["type"], event) for event in events)))


class OpenAI:
    model = "openai:gpt-e2e"
    path = "/v1/chat/completions"

    @staticmethod
    def environment(url):
        return {"OPENAI_API_KEY": "sk-e2e-openai", "OPENAI_BASE_URL": f"{url}/v1"}

    @staticmethod
    def last_result(body):
        calls, answers = [], []
        for message in body["messages"]:
            calls += [call["id"] for call in message.get("tool_calls") or ()]
            if message["role"] == "tool":
                answers.append(message["tool_call_id"])
        assert calls == answers
        last = body["messages"][-1]
        return last["content"] if last["role"] == "tool" else None

    @staticmethod
    def answer(text, call, number):
        def chunk(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return {"id": f"c_{number}", "model": "gpt-e2e", "choices": [choice]}

        events = [chunk({"role": "assistant", "content": ""})]
        events += [chunk({"content": piece}) for piece in (text[:3], text[3:])]
        if call:
            name, arguments = call
            encoded = serde.dumps(arguments).decode()
            head = {"name": name, "arguments": ""}
            first = {"index": 0, "id": f"call_{number}", "type": "function", "function": head}
            events.append(chunk({"tool_calls": [first]}))
            events += [
                chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
                for piece in (encoded[:5], encoded[5:])
            ]
        events.append(chunk({}, "tool_calls" if call else "stop"))
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        events.append({"id": f"c_{number}", "model": "gpt-e2e", "choices": [], "usage": usage})
        return Answer(sse(*(("", event) for event in events), ("", b"[DONE]")))
