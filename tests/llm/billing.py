"""A server of Anthropic's API that bills as its prompt cache does, by exact beginnings.

It is stricter than the real one: it finds no beginning but what a mark stands behind, now and in a
request before. A token is four characters.
"""

from greenroom.core._internal import serde
from tests.llm import wire
from tests.llm.server import Answer

MOST_MARKS = 4
LEAST_TOKENS = 1024


class BillingServer:
    """Answers each request with the next of some blocks' events, and the bill."""

    def __init__(self, replies):
        self._replies = iter(replies)
        self._written = set()
        self.bills = []  # (input, read, written) tokens of each request
        self.texts = []  # what was sent, without the marks

    def __call__(self, request):
        text, marks = canonical(request.body)
        self.texts.append(text)
        assert len(marks) <= MOST_MARKS, "refused: too many marks"
        cacheable = [end for end in marks if end // 4 >= LEAST_TOKENS]
        known = [end for end in cacheable if text[:end] in self._written]
        self._written.update(text[:end] for end in cacheable)
        read, last = max(known, default=0), max(cacheable, default=0)
        bill = (len(text) - last) // 4, read // 4, (last - read) // 4
        self.bills.append(bill)
        return Answer.stream(reply(next(self._replies), *bill))


def reply(events, plain, read, written):
    usage = {
        "input_tokens": plain,
        "output_tokens": 1,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    calls = any(b'"tool_use"' in serde.dumps(event) for event in events)
    ending = wire.message_delta("tool_use" if calls else "end_turn")
    return wire.sse(wire.message_start(usage=usage), *events, ending, wire.STOP)


def canonical(body):
    """A request in the order in which it is cached, and where in it its marks stand."""
    text, marks = "", []
    system = body.get("system") or []
    blocks = [
        *body.get("tools", ()),
        *([{"type": "text", "text": system}] if isinstance(system, str) else system),
    ]
    for message in body["messages"]:
        blocks.append({"role": message["role"]})
        blocks += message["content"]
    for block in blocks:
        mark = block.pop("cache_control", None)
        text += serde.dumps(block).decode()
        if mark is not None:
            assert block.get("type") not in ("thinking", "redacted_thinking"), "refused: thinking"
            assert block.get("text") != "", "refused: empty text"
            marks.append(len(text))
    return text, marks
