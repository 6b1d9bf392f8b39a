"""Tokens before a request is sent: estimates, and what reports make of them."""

import dataclasses
import random
import re
import statistics
import string

import pytest

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
    Usage,
)
from greenroom.core._internal import OutputSchema, serde
from greenroom.llm import (
    AnthropicProvider,
    EstimatedCounter,
    ModelBadRequestError,
    ModelError,
    ModelRateLimitError,
    ModelRequest,
    ModelStreamError,
    TokenCounter,
    tokens as module,
)
from greenroom.llm._internal import ModelNotFoundError
from greenroom.llm.token_correction import Correction, Habits, ReportedUsage, Setup
from greenroom.llm.tokens import estimate_text
from tests.llm.server import Answer, model_server

FIELD = {"type": "string", "description": "The path of the file."}
READ = ToolDefinition("Read", "Reads a file.", {"type": "object", "properties": {"path": FIELD}})


def make_request(*messages, **fields):
    return ModelRequest(messages=messages, **fields)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("Structured concurrency makes the lifetime of a task visible in its source.", 11, 20),
        ("def count(self, what):\n    return sum(map(len, what))\n", 12, 24),
        ('{"name": "Ada", "born": 1815, "tags": ["a", "b"]}', 16, 28),
        ("Быстрая бурая лиса прыгает через ленивую собаку.", 10, 26),
        ("敏捷的棕色狐狸跳过了懒狗。", 9, 16),
        ("빠른 갈색 여우가 게으른 개를 뛰어넘는다.", 10, 24),
        ("🦊🐕", 2, 6),
        ("\ud800", 0, 2),
    ],
)
def test_a_text_is_estimated_by_what_it_is_written_in(text, least, most):
    assert least <= estimate_text(text) <= most


def test_an_estimate_of_the_parts_is_about_that_of_the_whole():
    text = "Быстрая лиса, a quick fox, 敏捷的狐狸 🦊 42.\n" * 20
    assert estimate_text(text) == pytest.approx(20 * estimate_text(text[: len(text) // 20]))


BLOCKS = [
    TextBlock("What is in the file?"),
    ThinkingBlock("They want me to read the file.", "signed"),
    RedactedThinkingBlock("x" * 600),
    ToolUseBlock("t1", "Read", {"path": "README.md"}),
    ToolUseBlock("t1", "Read", invalid="no JSON", raw_input='{"path": "README.m'),
    ToolResultBlock("t1", (TextBlock("# A project"), ImageBlock("image/png", "aaaa"))),
    ImageBlock("image/png", "aaaa"),
    DocumentBlock("application/pdf", "a" * 400_000),
    DocumentBlock("text/plain", "a" * 400),
    UnknownBlock({"type": "server_tool_use", "input": {"query": "trio"}}),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_every_kind_of_block_counts(block):
    counter = EstimatedCounter()
    empty, full = counter.count([Message("user")]), counter.count([Message("user", (block,))])
    assert full > empty + 3


def test_thinking_that_does_not_go_back_does_not_count():
    counter = EstimatedCounter()
    thought = Message("assistant", (ThinkingBlock("a long thought " * 50),))
    assert counter.count([thought]) == counter.count([Message("assistant")])


def test_system_tools_and_form_count():
    counter = EstimatedCounter()
    bare = make_request(Message.user("hi"))
    counts = [
        counter.count(dataclasses.replace(bare, **more))
        for more in (
            {},
            {"system": "Be brief. " * 10},
            {"system": [TextBlock("Be brief. " * 10)]},
            {"tools": [READ]},
            {"tools": [READ, READ]},
            {"output": OutputSchema("City", READ.parameters)},
            {"options": {"tools": [{"type": "web_search"}], "seed": 7}},
        )
    ]
    nothing, text, blocks, tool, tools, form, server_tool = counts
    assert text == blocks > nothing + 15
    assert nothing < tool < tools
    assert nothing < server_tool < form
    claude = "claude-sonnet-5"
    extra = counter.count(dataclasses.replace(bare, tools=[READ]), model=claude) - counter.count(
        bare, model=claude
    )
    assert extra > 300  # Anthropic's own prompt for tools


class Session:
    """A conversation that grows, at a provider with a vocabulary and habits of its own."""

    def __init__(self, seed, *, tools=(), model="m"):
        self.chance = random.Random(seed)
        self.factor = self.chance.uniform(0.7, 1.8)
        self.overhead = self.chance.randrange(20, 900)
        self.fields = {"tools": tools, "system": self.words(200)}
        self.model = model
        self.messages = []

    def words(self, most):
        count = self.chance.randrange(1, most)
        return " ".join(
            "".join(self.chance.choices(string.ascii_lowercase, k=self.chance.randrange(1, 9)))
            for _ in range(count)
        )

    def step(self):
        """Return the next request, and what it really takes."""
        self.messages.append(Message.user(self.words(400)))
        request = make_request(*self.messages, **self.fields)
        self.messages.append(Message.assistant(self.words(300)))
        said = estimate_text(self.fields["system"]) + sum(
            5 + estimate_text(message.text) for message in request.messages
        )
        noise = self.chance.uniform(0.95, 1.05)
        return request, round(self.overhead + self.factor * said * noise)


def test_after_five_reports_counts_are_close_whatever_the_vocabulary():
    counter, close, errors = EstimatedCounter(), 0, []
    for seed in range(12):
        session = Session(seed, tools=[READ] if seed % 2 else (), model=f"m{seed}")
        for number in range(10):
            request, tokens = session.step()
            counted = counter.count(request, model=session.model)
            if number >= 5:
                errors.append(abs(counted - tokens) / tokens)
                close += abs(counted - tokens) <= max(50, 0.15 * tokens)
            counter.observe(request, Usage(input_tokens=tokens), model=session.model)
    assert close >= 57
    assert sum(errors) / len(errors) < 0.1
    assert counter.error < 0.15


# Vocabularies of other ideas: words in pieces of five, digits in threes, other signs in twos; short
# words whole, long ones in halves, each other sign by itself; and bytes.
PIECES = re.compile(
    r" ?[A-Za-z]{1,5}|\d{1,3}|[\u0400-\u04ff]{1,3}|\s+|[^A-Za-z\d\s\u0400-\u04ff]{1,2}"
)
WORDS = re.compile(r" ?[A-Za-z]{1,9}|\d+|\n+|\S")
BYTES = re.compile(rb"[^\n]{1,4}|\n")
SAYINGS = {
    "prose": "The committee deliberated extensively before postponing its announcement. ",
    "code": "def total(items: list[int]) -> int:\n    return sum(x * 2 for x in items if x > 10)\n",
    "table": "2027-03-14,88-1204,1750.50,EUR\n",
    "russian": "Быстрая бурая лиса прыгает через ленивую собаку. ",
    "japanese": "素早い茶色の狐がのろまな犬を飛び越える。",
    "emoji": "Well done! 🎉🦊 ",
}


class Work:
    """A conversation that grows by text of some kinds, calls with JSON, and their results."""

    def __init__(self, seed, vocabulary):
        self.chance = random.Random(seed)
        self.vocabulary = vocabulary
        self.kinds = self.chance.sample(sorted(SAYINGS), 1 + seed % 3)
        self.messages = []

    def text(self):
        kinds = (self.chance.choice(self.kinds) for _ in range(self.chance.randrange(1, 30)))
        return " ".join(SAYINGS[kind] for kind in kinds)

    def step(self):
        number = len(self.messages)
        if number and self.chance.random() < 0.6:
            call = f"c{number}"
            value = {
                "path": f"src/{number}.py",
                "query": self.text(),
                "flags": [1, 2.5, None, True],
            }
            row = {"id": number, "name": self.text(), "tags": ["a", "b"], "score": number / 7}
            found = serde.dumps([row] * self.chance.randrange(1, 9)).decode()
            self.messages += [
                Message.assistant([TextBlock("I look."), ToolUseBlock(call, "Read", value)]),
                Message.user([ToolResultBlock(call, (TextBlock(found),))]),
            ]
        else:
            self.messages += [Message.assistant(self.text())] if number else []
            self.messages.append(Message.user(self.text()))
        request = make_request(*self.messages, system=SAYINGS["prose"] * 20, tools=[READ])
        said = sum(4 + sum(map(self.written, message.content)) for message in self.messages)
        return request, 300 + self.pieces(request.system) + said

    def pieces(self, text):
        is_text = isinstance(self.vocabulary.pattern, str)
        return len(self.vocabulary.findall(text if is_text else text.encode()))

    def written(self, block):
        match block:
            case TextBlock(text):
                return self.pieces(text)
            case ToolUseBlock(name=name, input=given):
                return 20 + self.pieces(name) + self.pieces(serde.dumps(given).decode())
            case ToolResultBlock(content=content):
                return 12 + sum(map(self.written, content))


@pytest.mark.parametrize("vocabulary", [PIECES, WORDS, BYTES], ids=["pieces", "words", "bytes"])
def test_nine_of_ten_requests_are_within_15_percent_or_50_tokens(vocabulary):
    counted = close = 0
    for seed in range(9):
        counter, work = EstimatedCounter(), Work(seed, vocabulary)
        for number in range(12):
            request, tokens = work.step()
            if number >= 5 and tokens > 200:
                counted += 1
                close += abs(counter.count(request) - tokens) <= max(50, 0.15 * tokens)
            counter.observe(request, Usage(input_tokens=tokens))
        assert counter.error < 0.2
    assert counted == 9 * 7
    assert close >= 0.9 * counted, (close, counted)


def test_a_request_that_goes_on_is_what_the_last_one_took_and_what_is_new():
    counter = EstimatedCounter()
    first = [Message.user("hello " * 100)]
    counter.observe(
        make_request(*first), Usage(1_000, cache_read_tokens=500, cache_write_tokens=200)
    )
    more = [*first, Message.assistant("yes"), Message.user("go on")]
    assert counter.count(make_request(*first)) == 1_700
    assert 1_705 < counter.count(make_request(*more)) < 1_740
    other = [Message.user("hello " * 100), *more[1:]]  # the same words, of another conversation
    assert counter.count(make_request(*other)) == pytest.approx(
        counter.count(make_request(*more)), abs=2
    )


def test_models_do_not_learn_from_each_other():
    counter = EstimatedCounter()
    request = make_request(Message.user("hello"))
    before = counter.count(request, model="b")
    counter.observe(request, Usage(input_tokens=900), model="a")
    assert counter.count(request, model="a") == 900
    assert counter.count(request, model="b") == before


def test_a_report_without_input_teaches_nothing():
    counter = EstimatedCounter()
    request = make_request(Message.user("hello"))
    before = counter.count(request)
    counter.observe(request, Usage(output_tokens=7))
    assert (counter.count(request), counter.error) == (before, 0.3)


def test_a_report_that_can_not_be_of_the_whole_request_teaches_nothing():
    counter = EstimatedCounter()
    said = [Message.user(f"{number} " + "word " * 100) for number in range(9)]
    before = [counter.count(make_request(*said[:end])) for end in range(1, 10)]
    for end in range(1, 10):
        counter.observe(make_request(*said[:end]), Usage(input_tokens=10))
    assert [counter.count(make_request(*said[:end])) for end in range(1, 10)] == before
    picture = make_request(Message.user([ImageBlock("image/png", "aaaa")]))
    counter.observe(picture, Usage(input_tokens=85))  # a small one; its size is not looked at
    assert counter.count(picture) == 85


def test_a_conversation_that_goes_on_is_not_added_up_again(monkeypatch):
    counter, looked = EstimatedCounter(), []
    messages = [Message.user(str(number)) for number in range(100)]
    whole = counter.count(make_request(*messages))
    monkeypatch.setattr(
        counter, "_weigh", lambda message: looked.append(message) or (message, 5.0, 0)
    )
    counter.observe(make_request(*messages), Usage(input_tokens=whole))
    assert counter.count([]) == 0
    more = [*messages, Message.assistant("yes")]
    assert counter.count(make_request(*more)) == whole + 5
    assert counter.count(make_request(*messages[:50])) < whole
    assert counter.count(make_request(*messages)) == whole
    assert looked == more[100:]
    counter.count(make_request(Message.user("another"), *more[1:]))
    assert len(looked) == 102


def test_a_wild_report_moves_the_factor_within_bounds():
    counter = EstimatedCounter()
    for size, tokens in ((100, 40), (10_000, 9_000_000)):
        counter.observe(make_request(Message.user("word " * size)), Usage(input_tokens=tokens))
    plain = EstimatedCounter().count([Message.user("word " * 1_000)])
    assert counter.count([Message.user("word " * 1_000)]) == pytest.approx(3 * plain, rel=0.01)


def test_counts_of_messages_add_up():
    counter = EstimatedCounter()
    messages = [Message.user("word " * size) for size in (10, 200, 3_000)]
    parts = sum(counter.count([message]) for message in messages)
    assert counter.count(messages) == pytest.approx(parts, abs=2)
    assert counter.count([]) == 0


def test_a_message_is_looked_at_once_and_what_is_kept_is_bounded(monkeypatch):
    looked = []
    monkeypatch.setattr(module, "_count_block", lambda block, _count: looked.append(block) or 1.0)
    monkeypatch.setattr(module, "_MESSAGES", 10)
    counter = EstimatedCounter()
    messages = [Message.user(str(number)) for number in range(8)]
    for end in range(1, 9):
        counter.count(make_request(*messages[:end]))
    assert len(looked) == 8
    for number in range(40):
        request = make_request(Message.user(f"again {number}"))
        counter.count(request)
        counter.observe(request, Usage(input_tokens=5), model=str(number))
    assert len(counter._weights) == 10
    monkeypatch.setattr(module, "_MAX_TOKENS", 40.0)  # at 5 tokens for each
    counter.count([Message.user("once more"), Message.user([ImageBlock("image/png", "aaaa")])])
    assert len(counter._weights) == 8
    assert len(counter._models) == module._MODELS


def test_a_counter_is_one():
    assert isinstance(EstimatedCounter(), TokenCounter)
    assert repr(EstimatedCounter()) == "EstimatedCounter(<error 30%>)"


# What the provider counts itself


async def count_remotely(answer, request, **options):
    """Ask for a count; return it, or the error, and what the server saw."""
    async with model_server(answer) as server:
        llm = AnthropicProvider("m", base_url=server.url, api_key="sk-1", env={}, **options)
        try:
            count = await llm.count_tokens(request)
        except ModelError as error:
            count = error
        await llm.aclose()
    return count, server.requests


def plain(value):
    return Answer((serde.dumps(value),), headers={"content-type": "application/json"})


async def test_anthropic_counts_what_it_would_be_sent_without_what_it_does_not_count():
    request = make_request(
        Message.user("hello"),
        system="Be brief.",
        tools=[READ],
        max_tokens=9,
        temperature=0.5,
        stop_sequences=["x"],
        thinking=1_024,
        options={"service_tier": "auto", "speed": "fast"},
    )
    count, [sent] = await count_remotely(plain({"input_tokens": 2_095}), request)
    assert count == 2_095
    assert sent.path == "/v1/messages/count_tokens"
    assert sent.headers["x-api-key"] == "sk-1"
    whole = AnthropicProvider("m", api_key="sk-1", env={}).encode(request)
    same = {name: whole[name] for name in ("model", "messages", "system", "tools", "thinking")}
    assert sent.body == same | {"speed": "fast"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer.error(404, {"error": {"message": "no such path"}}), ModelNotFoundError),
        (Answer.error(429, {"error": {"message": "slow down"}}), ModelRateLimitError),
        (plain({"input_tokens": "many"}), ModelStreamError),
        (Answer.stream(b'data: {"type": "ping"}\n\n'), ModelStreamError),
        (Answer.stream(b"\n"), ModelStreamError),
    ],
    ids=["absent", "limited", "no number", "stream", "empty"],
)
async def test_a_count_fails_as_a_request_does(answer, kind):
    error, _ = await count_remotely(answer, make_request(Message.user("hello")))
    assert type(error) is kind
    assert error.provider == "anthropic"


async def test_what_can_not_be_written_can_not_be_counted():
    request = make_request(Message.user("hello"), options={"speed": object()})
    error, requests = await count_remotely(plain({}), request)
    assert isinstance(error, ModelBadRequestError)
    assert requests == []


def test_a_result_in_words_is_counted_as_one_in_blocks():
    made = [[Message.user([ToolResultBlock("t1", text)])] for text in ("a b", (TextBlock("a b"),))]
    assert EstimatedCounter().count(made[0]) == EstimatedCounter().count(made[1]) > 0


def test_the_factor_is_the_slope_among_the_last_reports_of_each_setup():
    chance, correction = random.Random(1), Correction(Habits(factor=1.2))
    setups = [Setup(0, 0), Setup(1, 0), Setup(1, 1)]
    for number in range(500):
        estimate = chance.uniform(10, 200_000)
        tokens = round(estimate * 1.4 + chance.uniform(-50, 50))
        correction.add(ReportedUsage(estimate, tokens, chance.choice(setups), number, estimate))
        spread, joint = 100.0**2, 100.0**2 * 1.2
        for setup in setups:
            alike = [each for each in correction.reports if each.setup == setup]
            if len(alike) < 2:
                continue
            middle = statistics.mean(each.estimate for each in alike)
            mean = statistics.mean(each.tokens for each in alike)
            spread += sum((each.estimate - middle) ** 2 for each in alike)
            joint += sum((each.estimate - middle) * (each.tokens - mean) for each in alike)
        assert correction.factor() == pytest.approx(joint / spread, rel=1e-6)
    assert len(correction.reports) == 16
