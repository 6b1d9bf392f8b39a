"""Servers of one's own for models, as a test's loopback server plays them."""

import re

from greenroom.core._internal import serde
from tests.llm.server import Answer


def as_json(value, status=200):
    return Answer((serde.dumps(value),), status, {"content-type": "application/json"})


MISSING = as_json({"error": "no such path"}, 404)


def count_tokens(body):
    """Count the tokens of a request as a tokenizer that nobody here knows does."""
    texts = [serde.dumps(body["messages"]).decode(), serde.dumps(body.get("tools", [])).decode()]
    return round(1.1 * sum(len(re.findall(r"\w{1,6}|[^\w\s]", text)) for text in texts))


def reply(text, read):
    usage = {"prompt_tokens": read, "completion_tokens": 50, "total_tokens": read + 50}
    message = {"role": "assistant", "content": text}
    return as_json(
        {"choices": [{"message": message, "finish_reason": "stop"}], "model": "m", "usage": usage}
    )


class LocalServer:
    """A server that answers paths, and chats: it drops what does not fit into its window.

    Attributes:
        asked: the paths of the requests, without the chats.
        sizes: the tokens of each chat that was sent.
    """

    def __init__(self, paths, window=None, text="Noted."):
        self.paths, self.window, self.text = paths, window, text
        self.asked: list[str] = []
        self.sizes: list[int] = []

    def __call__(self, request):
        if not request.path.endswith("/chat/completions"):
            self.asked.append(f"{request.method} {request.path}")
            answer = self.paths.get(request.path, MISSING)
            return answer(self) if callable(answer) else answer
        size = count_tokens(request.body)
        self.sizes.append(size)
        dropped = self.window is not None and size > self.window
        return reply(self.text, self.window // 2 + 2 if dropped else size)


def show(parameters="", **more):
    """What Ollama's `/api/show` says of a model."""
    info = {"general.architecture": "llama", "llama.context_length": 131_072}
    return as_json({"parameters": parameters, "model_info": info, **more})


def running(*models):
    """What Ollama's `/api/ps` says, given names and windows."""
    return as_json({"models": [{"name": n, "model": n, "context_length": w} for n, w in models]})
