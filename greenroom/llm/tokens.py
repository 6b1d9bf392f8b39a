"""Estimates how many tokens a request takes before it is sent, and learns from reported usage."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import mul
from typing import Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from greenroom import core
from greenroom.core import ContentBlock, Message, ModelRequest, ToolDefinition, Usage
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm.json_fields import as_dict
from greenroom.llm.token_correction import (
    VISIBLE_OPTIONS,
    Correction,
    Estimate,
    Habits,
    ReportedUsage,
    Setup,
    habits_of,
)


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the input tokens of a request; any object with these members is one."""

    def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
        """Return the input tokens of a request, or of messages alone, for this model."""

    def observe(self, request: ModelRequest, usage: Usage, *, model: str = "") -> None:
        """Learn from what the provider reported for a request."""

    @property
    def error(self) -> float:
        """How wrong its counts are, as a share: 0.1 is ten percent."""


Tokenizer: TypeAlias = Callable[[str], float]
"""Returns how many tokens a text takes."""

_LONGEST = 65_536
"""The most characters that are encoded of one text; they take some 20 ms in the worst case."""


# Tokens by the characters of a text. Vocabularies differ; these weights are about right for most of
# them, up to a factor that each model's reports correct. The first byte of a character in UTF-8
# tells its script, so a text is weighed by counting bytes, without a loop over its characters.

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_ASCII: tuple[tuple[bytes, float], ...] = (
    (_LETTERS, 0.06),
    (b"0123456789", 0.4),
    (b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 0.4),
    (b"\n", 0.5),
    (b" \t", 0.03),
)
_BEYOND: tuple[tuple[bytes, float], ...] = (
    (bytes(range(0xC2, 0xE0)), 0.4),  # accents, Greek, Cyrillic, Hebrew, Arabic
    (bytes([0xE0]), 0.6),  # the scripts of India, Thai
    (bytes([0xE1, 0xE2]), 0.8),  # signs, and smaller scripts
    (bytes(range(0xE3, 0xEA)), 0.9),  # Chinese, Japanese
    (bytes(range(0xEA, 0xF0)), 0.8),  # Korean
    (bytes(range(0xF0, 0xF5)), 2.0),  # emoji
)
_PER_RUN = 0.75  # of Latin letters: a word, or a piece of a name
_RUNS = bytes(97 if byte in _LETTERS else 32 for byte in range(256))


def _kinds() -> bytes:
    kinds = bytearray(256)
    for number, (members, _) in enumerate(_ASCII + _BEYOND, 1):
        for byte in members:
            kinds[byte] = number
    return bytes(kinds)


_KINDS = _kinds()
_WEIGHTS = tuple(weight for _, weight in _ASCII + _BEYOND)
_ASCII_NUMBERS = range(1, len(_ASCII) + 1)
_NUMBERS = range(1, len(_WEIGHTS) + 1)


def estimate_text(text: str) -> float:
    """Return about how many tokens a text takes, depending on its scripts.

    Example:
        >>> round(estimate_text("The quick brown fox jumps over the lazy dog."))
        9
        >>> round(estimate_text("素早い茶色の狐がのろまな犬を飛び越える。"))
        18
    """
    data = text.encode("utf-8", "replace")
    kinds, runs = data.translate(_KINDS), data.translate(_RUNS)
    counts = map(kinds.count, _ASCII_NUMBERS if text.isascii() else _NUMBERS)
    words = runs.count(b" a") + runs.startswith(b"a")
    return sum(map(mul, counts, _WEIGHTS), _PER_RUN * words)


_MESSAGE = 4
_PROPERTY = 8
_TOOL = 8
_IMAGE = 1_200  # about 950 by 950 pixels, whatever its real size
_DOCUMENT = 1_500  # a page
_BYTES_PER_TOKEN = 40  # of a longer document that is not text


def _count_block(block: ContentBlock, count: Tokenizer) -> float:
    match block:
        case core.TextBlock(text):
            return count(text)
        case core.ToolUseBlock(name=name, input=arguments, raw_input=raw):
            return count(name) + (count(raw) or _count_json(arguments, count))
        case core.ToolResultBlock(content=content):
            return sum(_count_block(each, count) for each in content)
        case core.ThinkingBlock(thinking, signature):
            # Without a signature it is not sent back, or does not count.
            return count(thinking) if signature else 0.0
        case core.RedactedThinkingBlock(data):
            return len(data) / 6
        case core.ImageBlock():
            return _IMAGE
        case core.DocumentBlock(media_type=kind, data=data):
            size = len(data) * 3 / 4  # base64
            return size / 4 if kind.startswith("text/") else max(_DOCUMENT, size / _BYTES_PER_TOKEN)
        case core.UnknownBlock(raw):
            return _count_json(raw, count)


_CALLS = (core.ToolUseBlock, core.ToolResultBlock)
_MEDIA = (core.ImageBlock, core.DocumentBlock)
_WITHOUT_MEDIA: frozenset[type] = frozenset(
    {core.TextBlock, core.ToolUseBlock, core.ThinkingBlock, core.RedactedThinkingBlock}
)


def holds_media(blocks: Iterable[ContentBlock]) -> bool:
    """Whether there is an image or a document among these blocks, or in a result among them."""
    for block in blocks:
        if type(block) in _WITHOUT_MEDIA:
            continue
        if isinstance(block, core.ToolResultBlock):
            if holds_media(block.content):
                return True
        elif isinstance(block, _MEDIA):
            return True
    return False


def shows_media(messages: Iterable[Message]) -> bool:
    """Whether messages have images or documents, whose tokens are hard to estimate."""
    return any(holds_media(message.content) for message in messages)


def _count_json(value: object, count: Tokenizer) -> float:
    try:
        return count(serde.encode(value).decode()) if value else 1.0
    except InvalidJSONError:
        return 0.0  # it can't be sent either


def _count_schema(part: object, count: Tokenizer) -> float:
    """Count the names and texts of a schema; vendors shorten its keywords."""
    if isinstance(part, list):
        return sum(_count_schema(each, count) for each in part)
    total = 0.0
    for key, value in as_dict(part).items():
        if key in {"properties", "$defs"}:
            for name, inner in as_dict(value).items():
                total += _PROPERTY + count(name) + _count_schema(inner, count)
        elif key in {"description", "enum", "const", "default", "pattern", "format"}:
            total += _count_json(value, count)
        else:
            total += _count_schema(value, count)
    return total


class _Frame(msgspec.Struct, frozen=True):
    """The tokens of what surrounds the messages of a request, which rarely changes.

    Attributes:
        parts: the system prompt, tools, schema of the output, and options.
        texts: the tokens of the system prompt.
        definitions: those of the rest.
        setup: what the rest is.
    """

    parts: tuple[object, ...]
    texts: float
    definitions: float
    setup: Setup


class _Sums(msgspec.Struct, frozen=True):
    """The tokens of a conversation, from its beginning to each of its messages."""

    messages: tuple[Message, ...] = ()
    sums: tuple[float, ...] = (0.0,)
    call: float = 0.0


# The least share of the estimate; fewer tokens are a partial count, as of a server that omits those
# that it had cached.
_LEAST = 0.2

_MODELS = 16
_TOOLS = 1_000
_MESSAGES = 5_000
_MAX_TOKENS = 2_000_000  # tokens, of some 8 MB
_ERRORS = 20
_USUAL_ERROR = 0.3


class EstimatedCounter:
    """Estimates tokens by the characters and kinds of blocks, and learns from reported usage.

    Nothing is sent, and no vocabulary is needed. If an earlier request of the session was reported,
    a request that extends it counts as the reported tokens plus an estimate of the new part. Images
    and documents count as a flat number, which can be far off.

    A counter may serve any number of sessions and models. It remembers the last 16 reports of each
    of the last 16 models, and its counts of 5,000 messages or 2 million tokens: a message without
    media is examined once. It keeps the last conversation, so only the new part of a longer one is
    counted.

    Args:
        tokenizer: counts the tokens of a text exactly, for the one model whose tokenizer it is,
            or None; `with_tokenizer` loads one. What surrounds messages and tools is still an
            estimate, since no vendor publishes it.

    Example:
        >>> counter = EstimatedCounter()
        >>> request = ModelRequest(messages=[Message.user("What is the capital of France?")])
        >>> counter.count(request), counter.error
        (13, 0.3)
        >>> counter.observe(request, Usage(input_tokens=14))
        >>> counter.count(request), round(counter.error, 2)
        (14, 0.07)
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._count_text = tokenizer or estimate_text
        self._models: OrderedDict[str, Correction] = OrderedDict()
        # By `id`, which is unique as long as the message is kept here.
        self._weights: dict[int, tuple[Message, float, int]] = {}
        self._total = 0.0  # tokens of all of them
        # The tools of the last requests, which rarely change; by `id`, too.
        self._tools: dict[int, tuple[ToolDefinition, float]] = {}
        self._frame: _Frame | None = None
        self._last = _Sums()
        # The last request that was counted, for which model, and what was found.
        self._counted: tuple[ModelRequest, str, tuple[Estimate, int]] | None = None
        self._errors: deque[float] = deque(maxlen=_ERRORS)

    @classmethod
    async def with_tokenizer(cls, model: str) -> Self:
        """Make one that counts texts with the tokenizer that the vendor of a model publishes.

        It is loaded in a thread. The first time on a machine that downloads the tables of the
        encoding, some megabytes, from OpenAI; then they are in the folder that `TIKTOKEN_CACHE_DIR`
        names, by default among the temporary files. Of a text above 65,536 characters the beginning
        is encoded, and the rest is estimated in proportion.

        Args:
            model: the name of a model of OpenAI, such as "openai:gpt-5.4" or "gpt-5.4".

        Raises:
            ConfigurationError: the extra is not installed, OpenAI does not say which encoding the
                model has, or its tables can't be loaded within a minute.

        Example:
            ```python
            counter = await EstimatedCounter.with_tokenizer("openai:gpt-5.4")
            ```
        """
        from greenroom.llm.tokenizers import load_encoding  # few programs have the extra

        encode = (await load_encoding(model)).encode_ordinary

        def count(text: str) -> float:
            if len(text) <= _LONGEST:
                return len(encode(text))
            beginning = text[:_LONGEST]
            share = len(encode(beginning)) / (estimate_text(beginning) or 1.0)
            return share * estimate_text(text)

        return cls(count)

    def __repr__(self) -> str:
        return f"EstimatedCounter(<error {self.error:.0%}>)"

    @property
    def error(self) -> float:
        """The mean relative error of its last 20 counts of reported requests; at first 0.3."""
        return sum(self._errors) / len(self._errors) if self._errors else _USUAL_ERROR

    def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
        """Return about how many input tokens a request takes, or messages alone.

        Messages alone count without the overhead of a request, so counts of parts can be added up.

        Args:
            what: the request, or the messages.
            model: the model's name; each model has its own corrections.
        """
        correction = self._models.get(model) or Correction(self._habits(model))
        if not isinstance(what, ModelRequest):
            return round(correction.factor() * self._add_up(what, correction.habits)[-1])
        return self._count(what, model, correction)[1]

    def _count(
        self, request: ModelRequest, model: str, correction: Correction
    ) -> tuple[Estimate, int]:
        """Return the estimate of a request and its tokens: those of before, if it is the last."""
        known = self._counted
        if known is None or known[0] is not request or known[1] != model:
            estimate = self._estimate(request, correction.habits)
            known = self._counted = request, model, (estimate, correction.tokens_of(estimate))
        return known[2]

    def observe(self, request: ModelRequest, usage: Usage, *, model: str = "") -> None:
        """Learn from what the provider reported for a request.

        A report of less than a fifth of the usual is ignored: it does not cover the whole request.

        Args:
            request: what was sent.
            usage: the usage of the reply; tokens that a cache served or stored count as well.
            model: the model that was asked, by the same name as for `count`.
        """
        parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        tokens = sum(part or 0 for part in parts)
        if not tokens:
            return
        habits = self._habits(model)
        correction = self._models.get(model) or Correction(habits)
        estimate, expected = self._count(request, model, correction)
        if tokens < _LEAST * habits.factor * estimate.total and not self._shows_media(request):
            return
        self._models[model], self._counted = correction, None
        self._models.move_to_end(model)
        if len(self._models) > _MODELS:
            self._models.popitem(last=False)
        self._errors.append(abs(expected - tokens) / tokens)
        length = len(estimate.sums) - 1
        report = ReportedUsage(
            estimate.total, tokens, estimate.setup, length, estimate.sums[length]
        )
        correction.add(report)

    def _habits(self, model: str) -> Habits:
        return Habits() if self._tokenizer else habits_of(model)

    def _estimate(self, request: ModelRequest, habits: Habits) -> Estimate:
        parts = request.system, request.tools, request.output, request.options
        if self._frame is None or self._frame.parts != parts:
            self._frame = self._weigh_frame(request)
        frame = self._frame
        sums = self._add_up(request.messages, habits)
        total = sums[-1] + frame.texts + habits.tool * frame.definitions
        return Estimate(total, sums, frame.setup)

    def _weigh_frame(self, request: ModelRequest) -> _Frame:
        count, system = self._count_text, request.system
        texts = [system] if isinstance(system, str) else [block.text for block in system]
        definitions = sum(map(self._weigh_tool, request.tools))
        if request.output:
            definitions += _count_schema(request.output.schema, count)
        for name in VISIBLE_OPTIONS if request.options else ():
            if value := request.options.get(name):
                definitions += _count_json(value, count)
        parts = system, request.tools, request.output, request.options
        return _Frame(parts, sum(map(count, texts)), definitions, Setup.of(request))

    def _weigh_tool(self, tool: ToolDefinition) -> float:
        known = self._tools.get(id(tool))
        if known is None:
            count = self._count_text
            text = count(f"{tool.name} {tool.description}")
            known = tool, _TOOL + text + _count_schema(tool.parameters, count)
            if len(self._tools) >= _TOOLS:
                self._tools.clear()
            self._tools[id(tool)] = known
        return known[1]

    def _add_up(self, messages: Iterable[Message], habits: Habits) -> Sequence[float]:
        """Return 0, the weight of the first message, of the first two, and so on.

        Of a conversation that extends the last one, only the new part is added up.
        """
        messages, last = tuple(messages), self._last
        known = min(len(messages), len(last.messages))
        if last.call != habits.call or messages[:known] != last.messages[:known]:
            known, last = 0, _Sums(call=habits.call)
        weights = map(self._weigh, messages[known:])
        new = accumulate((w + habits.call * n for _, w, n in weights), initial=last.sums[known])
        sums = (*last.sums[:known], *new)
        if known == len(last.messages):
            self._last = _Sums(messages, sums, habits.call)
        return sums

    def _weigh(self, message: Message) -> tuple[Message, float, int]:
        known = self._weights.get(id(message))
        if known is None:
            count = self._count_text
            weight = _MESSAGE + sum(_count_block(block, count) for block in message.content)
            calls = sum(isinstance(block, _CALLS) for block in message.content)
            known = (message, weight, calls)
            if not holds_media(message.content):  # which take too much memory to keep
                self._keep(known)
        return known

    def _shows_media(self, request: ModelRequest) -> bool:
        # Messages whose weights are kept have none.
        return shows_media(each for each in request.messages if id(each) not in self._weights)

    def _keep(self, weighed: tuple[Message, float, int]) -> None:
        self._weights[id(weighed[0])] = weighed
        self._total += weighed[1]
        while len(self._weights) > _MESSAGES or (
            self._total > _MAX_TOKENS and len(self._weights) > 1
        ):
            self._total -= self._weights.pop(next(iter(self._weights)))[1]
