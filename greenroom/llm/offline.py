"""The offline model: it drives the real tools by a handful of rules, without key or network."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from greenroom.core import (
    ContentBlock,
    Message,
    ModelBadRequestError,
    ModelRequest,
    Price,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    clip,
)
from greenroom.llm.fields import mapping
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.llm.recorded import replay
from greenroom.llm.stream import ModelStream, collect

# ---- What the offline model understands: a handful of orders, each one call of a tool.

EXAMPLES = (
    "read README.md",
    "list *.py",
    "search TODO in src",
    "run ls -la",
    "write notes.txt: hello",
    "edit notes.txt: replace hello with goodbye",
    "ask a subagent to read README.md",
)
"""One example of each order."""


@dataclass(frozen=True)
class Order:
    """An order that was understood.

    Attributes:
        words: what is to be done.
        tool: the tool that does it.
        arguments: what the tool is given.
        wishes: what it is given besides, if its schema knows the names.
    """

    words: str
    tool: str
    arguments: dict[str, object]
    wishes: dict[str, object] = field(default_factory=dict)


def parse(request: str) -> Order | None:
    """Understand a request, or one line of it, as an order; None where it is none.

    Example:
        >>> parse("Please read the file README.md.").arguments
        {'file_path': 'README.md'}
    """
    text = request.strip()
    for candidate in (text, *text.splitlines()):
        for pattern, order in _RULES:
            if found := pattern.fullmatch(candidate.strip()):
                return order(found)
    return None


def _read(found: re.Match[str]) -> Order:
    path = _path(found["path"])
    return Order(f"read {path}", "Read", {"file_path": path})


def _list(found: re.Match[str]) -> Order:
    pattern = _path(found["pattern"] or "*")
    if not re.search(r"[*?\[]", pattern):
        pattern = f"{pattern.rstrip('/')}/*"
    return Order(f"list {pattern}", "Glob", {"pattern": pattern})


def _search(found: re.Match[str]) -> Order:
    arguments: dict[str, object] = {"pattern": _unquote(found["pattern"])}
    if found["path"]:
        arguments["path"] = _path(found["path"])
    wishes: dict[str, object] = {"output_mode": "content"}
    return Order(f"search for {arguments['pattern']}", "Grep", arguments, wishes)


def _run(found: re.Match[str]) -> Order:
    command = _unquote(found["command"])
    return Order(f"run {command}", "Bash", {"command": command})


def _write(found: re.Match[str]) -> Order:
    path, content = _path(found["path"]), found["content"]
    return Order(f"write {path}", "Write", {"file_path": path, "content": content})


def _edit(found: re.Match[str]) -> Order:
    path = _path(found["path"])
    arguments: dict[str, object] = {
        "file_path": path,
        "old_string": _unquote(found["old"]),
        "new_string": _unquote(found["new"]),
    }
    return Order(f"edit {path}", "Edit", arguments)


def _delegate(found: re.Match[str]) -> Order:
    prompt = found["prompt"].strip()
    description = " ".join(prompt.split()[:5])
    arguments: dict[str, object] = {"description": description, "prompt": prompt}
    return Order(f"ask a subagent: {description}", "Task", arguments)


def _rule(
    pattern: str, order: Callable[[re.Match[str]], Order]
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], Order]]:
    polite = r"(?:please |can you |could you )?"
    return re.compile(polite + pattern, re.IGNORECASE | re.DOTALL), order


_RULES = (
    _rule(r"(?:ask|tell|have|let) (?:a|the) sub-?agent (?:to )?(?P<prompt>\S.*)", _delegate),
    _rule(r"edit (?P<path>\S+?):? replace (?P<old>.+?) (?:with|by) (?P<new>.+)", _edit),
    _rule(r"replace (?P<old>.+?) (?:with|by) (?P<new>.+) in (?P<path>\S+)", _edit),
    _rule(r"write (?P<path>[^\s:]+): ?(?P<content>.*)", _write),
    _rule(r"(?:run|execute) (?P<command>\S.*)", _run),
    _rule(r"\$ ?(?P<command>\S.*)", _run),
    _rule(
        r"(?:search|grep)(?: for)? (?P<pattern>[^\n]+?)(?: in (?P<path>[^\s]+))?",
        _search,
    ),
    _rule(r"(?:list|glob|ls)(?: (?:all|the))?(?: files)?(?: in)?(?: (?P<pattern>\S+))?", _list),
    _rule(r"(?:read|show|open|cat)(?: me)?(?: the)?(?: file)? (?P<path>[^\s]+)", _read),
)


def _path(text: str) -> str:
    """Take quotes and the sentence's punctuation off a path."""
    plain = _unquote(text)
    return plain.rstrip(",;!?").removesuffix(".") or plain


def _unquote(text: str) -> str:
    plain = text.strip()
    if len(plain) > 2 and plain[0] == plain[-1] and plain[0] in "\"'`":
        return plain[1:-1]
    return plain


# ---- What the offline model says of a tool's result: it counts, and quotes.

_QUOTED_LINES = 20
_QUOTED_CHARACTERS = 2_000


def answer(call: ToolUseBlock, result: ToolResultBlock) -> str:
    """Tell what a call gave; a failed or denied one is said to have failed, and why.

    Example:
        >>> call = ToolUseBlock("t1", "Glob", {"pattern": "*.py"})
        >>> print(answer(call, ToolResultBlock("t1", is_error=True)))
        Glob did not do it, and gave no reason.
    """
    text = result.text.strip("\n")
    if result.is_error:
        if not text.strip():
            return f"{call.name} did not do it, and gave no reason."
        return f"{call.name} did not do it. It said:\n\n{_quote(text)}"
    if call.name == "Task":
        return f"The subagent answered:\n\n{clip(text, _QUOTED_CHARACTERS)}"
    head = _head(call, text)
    return f"{head}\n\n{_quote(text)}" if text.strip() else head


def _head(call: ToolUseBlock, text: str) -> str:
    count = len(text.splitlines())
    lines = f"{count} line" if count == 1 else f"{count} lines"
    match call.name:
        case "Read":
            return f"{call.input.get('file_path')}, {lines}:"
        case "Glob":
            return f"Files that match {call.input.get('pattern')}, {lines}:"
        case "Grep":
            return f"Matches of {call.input.get('pattern')}, {lines}:"
        case "Bash" if not text.strip():
            return "The command printed nothing."
        case "Bash":
            return f"The command printed {lines}:"
        case _:
            return f"{call.name} is done."


def _quote(text: str) -> str:
    """Quote the beginning as a Markdown block, whatever back-ticks stand in it."""
    lines = text.splitlines()
    shown = clip("\n".join(lines[:_QUOTED_LINES]), _QUOTED_CHARACTERS)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    left_out = len(lines) - _QUOTED_LINES
    more = f"\n\nand {left_out} lines more." if left_out > 0 else ""
    return f"{fence}\n{shown}\n{fence}{more}"


_WHO = "I am the offline model: a handful of rules, no language model."
_HELP = "\n".join(
    (
        _WHO,
        "I understand requests such as these:",
        "",
        *(f"- {example}" for example in EXAMPLES),
        "",
        "To talk to a language model, set ANTHROPIC_API_KEY or OPENAI_API_KEY and start again.",
    )
)


class OfflineProvider:
    """Answers a request by rules: one call of a tool, then what the tool gave.

    The same history always gives the same reply, without delay. Only tools of the request are
    called. It counts no tokens, so its messages have no usage.

    Example:
        >>> import trio
        >>> request = ModelRequest(messages=[Message.user("What is love?")])
        >>> trio.run(OfflineProvider().generate, request).text.splitlines()[0]
        'I am the offline model: a handful of rules, no language model.'
    """

    name = "offline"
    model = "rules"
    price = Price(0, 0)

    def __repr__(self) -> str:
        return "OfflineProvider()"

    def stream(self, request: ModelRequest) -> ModelStream:
        """Answer a request, its text word by word.

        Raises:
            ModelBadRequestError: the request wants an answer of a certain form.
        """
        return replay(_reply(request))

    async def generate(self, request: ModelRequest) -> Message:
        """Answer a request.

        Raises:
            ModelBadRequestError: the request wants an answer of a certain form.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _reply(request: ModelRequest) -> Message:
    if request.output is not None or any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ModelBadRequestError(
            "the offline model can't give an answer of a certain form",
            provider=OfflineProvider.name,
            hint="set ANTHROPIC_API_KEY or OPENAI_API_KEY, or script the answer with ScriptedProvider",
        )
    blocks = _blocks(request)
    calls = any(isinstance(block, ToolUseBlock) for block in blocks)
    return Message(
        "assistant",
        tuple(blocks),
        model=OfflineProvider.model,
        provider=OfflineProvider.name,
        stop_reason=StopReason.TOOL_USE if calls else StopReason.END_TURN,
    )


def _blocks(request: ModelRequest) -> Sequence[ContentBlock]:
    last = request.messages[-1] if request.messages else Message.user("")
    texts = [block.text for block in last.content if isinstance(block, TextBlock)]
    order = next(filter(None, map(parse, texts)), None)
    if order is not None:
        return _carry_out(order, request)
    answers = _answers(request.messages)
    return [TextBlock("\n\n".join(answers) if answers else _HELP)]


def _carry_out(order: Order, request: ModelRequest) -> Sequence[ContentBlock]:
    tools = {tool.name: tool for tool in request.tools if request.tool_choice != "none"}
    if order.tool not in tools:
        return [TextBlock(f"To {order.words} takes the tool {order.tool}, which I do not have.")]
    is_first = not any(message.role == "assistant" for message in request.messages)
    said = f"{_WHO} I will {order.words}." if is_first else f"I will {order.words}."
    count = sum(len(message.tool_uses) for message in request.messages)
    known = mapping(tools[order.tool].parameters.get("properties"))
    wishes = {name: value for name, value in order.wishes.items() if name in known}
    call = ToolUseBlock(f"offline-{count + 1}", order.tool, order.arguments | wishes)
    return [TextBlock(said), call]


def _answers(messages: Sequence[Message]) -> list[str]:
    calls = {call.id: call for message in messages[-2:] for call in message.tool_uses}
    return [
        answer(calls[result.tool_use_id], result)
        for result in (messages[-1].tool_results if messages else ())
        if result.tool_use_id in calls
    ]
