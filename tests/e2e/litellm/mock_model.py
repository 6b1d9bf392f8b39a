"""A model inside LiteLLM's proxy: it reads a file by a tool call, then quotes what it was given.

Loaded by the proxy, in its own environment; nothing of Greenroom is there.
"""

import json

import litellm

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "Read", "arguments": json.dumps({"file_path": "notes.txt"})},
    "index": 0,
}


class MockModel(litellm.CustomLLM):
    async def astreaming(self, model, messages, *args, **kwargs):
        last = messages[-1]
        is_answered = last["role"] == "tool"
        said = f"The file says: {last['content']}" if is_answered else "I look."
        for word in said.split(" "):
            yield piece(text=word + " ")
        if not is_answered:
            yield piece(tool_use=CALL)
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reason = "stop" if is_answered else "tool_calls"
        yield piece(is_finished=True, finish_reason=reason, usage=usage)


def piece(**fields):
    empty = {"text": "", "is_finished": False, "finish_reason": None, "usage": None, "index": 0}
    return {**empty, "tool_use": None, **fields}


model = MockModel()
