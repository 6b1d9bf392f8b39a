"""The offline model: a handful of rules that call the real tools, without a key or a network."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    Price,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import HOOK, RECALLED, clip
from greenroom.llm.json_fields import as_dict
from greenroom.llm.model_errors import ModelBadRequestError
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.llm.recorded import replay
from greenroom.llm.stream import ModelStream, collect
from greenroom.llm.windows import ContextWindow, check_window

EXAMPLES = (
    "read README.md",
    "list *.py",
    "search TODO in src",
    "run ls -la",
    "write notes.txt: hello",
    "edit notes.txt: replace hello with goodbye",
    "ask a subagent to read README.md",
)
"""One example of each order that the offline model understands, for the tools of every run.

It also searches the web, gives work to an agent by its name, and submits a plan, where it has the
tools for that.
"""

_WORDS = {
    "Task": "ask a subagent: {description}",
    "Edit": "edit {file_path}",
    "Write": "write {file_path}",
    "Bash": "run {command}",
    "SubmitPlan": "submit the plan",
    "WebSearch": "search the web for {query}",
    "Grep": "search for {pattern}",
    "Glob": "list {pattern}",
    "Read": "read {file_path}",
}
_HEADS = {
    "Read": "{file_path}, {lines}:",
    "Glob": "Files that match {pattern}, {lines}:",
    "Grep": "Matches of {pattern}, {lines}:",
    "Bash": "The command printed {lines}:",
}

_REPLACE = r"replace (?P<old_string>.+?) (?:with|by) (?P<new_string>.+)"
_PATH = r"(?P<file_path>\S+)"
# Tools, each with a pattern of an order; its groups are the arguments of the tool.
_ORDERS = (
    ("Task", r"(?:ask|tell|have|let) the agent (?P<agent>[\w:-]+) to (?P<prompt>\S.*)"),
    ("Task", r"give this work to the agent (?P<agent>[\w:-]+).*?:\n\n(?P<prompt>\S.*)"),
    ("Task", r"(?:ask|tell|have|let) (?:a|the) sub-?agent (?:to )?(?P<prompt>\S.*)"),
    ("Edit", rf"edit (?P<file_path>\S+?):? {_REPLACE}"),
    ("Edit", rf"{_REPLACE} in {_PATH}"),
    ("Write", r"write (?P<file_path>[^\s:]+): ?(?P<content>.*)"),
    ("Bash", r"(?:run |execute |\$ ?)(?P<command>\S.*)"),
    ("SubmitPlan", r"submit the plan: (?P<plan>\S.*)"),
    ("WebSearch", r"search the web for (?P<query>[^\n]+)"),
    ("Grep", r"(?:search|grep)(?: for)? (?P<pattern>[^\n]+?)(?: in (?P<path>\S+))?"),
    ("Glob", r"(?:list|glob|ls)(?: (?:all|the))?(?: files)?(?: in)?(?: (?P<pattern>\S+))?"),
    ("Read", rf"(?:read|show|open|cat)(?: me)?(?: the)?(?: file)? {_PATH}"),
)
_POLITE = r"(?:please |can you |could you )?"
_FLAGS = re.IGNORECASE | re.DOTALL
_PATTERNS = [(tool, re.compile(_POLITE + pattern, _FLAGS)) for tool, pattern in _ORDERS]


class Order(msgspec.Struct, frozen=True):
    """An order that was understood.

    Attributes:
        words: the order in words.
        tool: the tool that does it.
        arguments: the arguments of the call.
    """

    words: str
    tool: str
    arguments: dict[str, object]


def parse(request: str) -> Order | None:
    """Understand a request, or one line of it, as an order; return None if it is not one.

    Example:
        >>> parse("Please read the file README.md.").arguments
        {'file_path': 'README.md'}
    """
    text = request.strip()
    for candidate in (text, *text.splitlines()):
        for tool, pattern in _PATTERNS:
            if found := pattern.fullmatch(candidate.strip()):
                arguments = _arguments(tool, found.groupdict())
                return Order(_WORDS[tool].format(**arguments), tool, arguments)
    return None


def _arguments(tool: str, groups: Mapping[str, str | None]) -> dict[str, object]:
    match tool, groups:
        case "Task", {"prompt": str(prompt)}:
            prompt, named = prompt.strip(), {k: v for k, v in groups.items() if k == "agent"}
            return {"description": " ".join(prompt.split()[:5]), "prompt": prompt, **named}
        case "Glob", {"pattern": value}:
            pattern = _clean_path(value or "*")
            is_folder = not re.search(r"[*?\[]", pattern)
            return {"pattern": f"{pattern.rstrip('/')}/*" if is_folder else pattern}
        case _:
            return {
                name: _clean(name, value) for name, value in groups.items() if value is not None
            }


def _clean(name: str, value: str) -> str:
    if name == "content":
        return value
    return _clean_path(value) if name in {"file_path", "path"} else _unquote(value)


def _clean_path(text: str) -> str:
    """Remove quotes, and punctuation at the end of the sentence."""
    path = _unquote(text)
    return path.rstrip(",;!?").removesuffix(".") or path


def _unquote(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1] if is_quoted else text


_QUOTED_LINES = 20
_QUOTED_CHARACTERS = 2_000


def answer(call: ToolUseBlock, result: ToolResultBlock) -> str:
    """Report the result of a call; if it failed or was denied, say so and why.

    Example:
        >>> call = ToolUseBlock("t1", "Glob", {"pattern": "*.py"})
        >>> print(answer(call, ToolResultBlock("t1", is_error=True)))
        Glob failed and gave no reason.
    """
    text = result.text.strip("\n")
    quote = f"\n\n{_quote(text)}" if text.strip() else ""
    if result.is_error:
        return f"{call.name} failed" + (f". It said:{quote}" if quote else " and gave no reason.")
    if call.name == "Task":
        return f"The subagent answered:\n\n{clip(text, _QUOTED_CHARACTERS)}"
    if call.name == "Bash" and not quote:
        return "The command printed nothing."
    count = len(text.splitlines())
    values = {"file_path": None, "pattern": None, **call.input}
    values["lines"] = f"{count} line{'s' * (count != 1)}"
    head = _HEADS.get(call.name)
    return (head.format_map(values) if head else f"{call.name} is done.") + quote


def _quote(text: str) -> str:
    """Quote the beginning as a Markdown block; its fence is longer than any run of backticks."""
    lines = text.splitlines()
    quote = clip("\n".join(lines[:_QUOTED_LINES]), _QUOTED_CHARACTERS)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", quote)), default=0))
    hidden = len(lines) - _QUOTED_LINES
    more = f"\n\nand {hidden} lines more." if hidden > 0 else ""
    return f"{fence}\n{quote}\n{fence}{more}"


_WHO = "I am the offline model: a handful of rules, no language model."
_HELP = f"""{_WHO}
I understand requests such as these:

{"".join(f"- {example}{chr(10)}" for example in EXAMPLES)}
To talk to a language model, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and start
again."""


class OfflineProvider:
    """Answers a request by rules: it calls one tool, then reports the result.

    The same history always gets the same reply, without delay. Only tools of the request are
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

    def __init__(self, window: int | None = None) -> None:
        """Begin; it reads only the end of a conversation, so it needs no window.

        Raises:
            ConfigurationError: the window is not a number of tokens.
        """
        self.window = check_window(window)

    def __repr__(self) -> str:
        return "OfflineProvider()"

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return the window that the program gave, or that it is unlimited."""
        return ContextWindow(self.window, "given" if self.window else "unlimited")

    def stream(self, request: ModelRequest) -> ModelStream:
        """Answer a request, its text word by word.

        Raises:
            ModelBadRequestError: the request asks for an answer of a certain type.
        """
        return replay(_reply(request))

    async def generate(self, request: ModelRequest) -> Message:
        """Answer a request.

        Raises:
            ModelBadRequestError: the request asks for an answer of a certain type.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: it has no connection."""


def _reply(request: ModelRequest) -> Message:
    if request.output is not None or any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ModelBadRequestError(
            "the offline model can't answer with a value of a certain type",
            provider=OfflineProvider.name,
            hint="set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, "
            "or script the answer with ScriptedProvider",
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
    news = _find_news(request.messages)
    told = (block for each in news if each.sender != RECALLED for block in each.content)
    texts = [block.text for block in told if isinstance(block, TextBlock)]
    if order := next(filter(None, map(parse, texts)), None):
        return _carry_out(order, request)
    since = request.messages[-1 - len(news) :]
    calls = {call.id: call for message in since for call in message.tool_uses}
    results = [each for message in news for each in message.tool_results]
    answers = [
        answer(calls[each.tool_use_id], each) for each in results if each.tool_use_id in calls
    ]
    return [TextBlock("\n\n".join(answers) or _HELP)]


def _find_news(messages: Sequence[Message]) -> list[Message]:
    """Find what is to be answered: the last message, and what hooks or a memory add to it."""
    news: list[Message] = []
    for message in reversed(messages):
        if message.role == "assistant":
            break
        news.append(message)
        if message.sender not in (HOOK, RECALLED):
            break
    return news[::-1]


def _carry_out(order: Order, request: ModelRequest) -> Sequence[ContentBlock]:
    tools = {tool.name: tool for tool in request.tools if request.tool_choice != "none"}
    if order.tool not in tools:
        return [TextBlock(f"To {order.words} takes the tool {order.tool}, which I do not have.")]
    is_first = not any(message.role == "assistant" for message in request.messages)
    text = f"{_WHO} I will {order.words}." if is_first else f"I will {order.words}."
    count = sum(len(message.tool_uses) for message in request.messages)
    arguments = order.arguments
    properties = as_dict(tools[order.tool].parameters.get("properties"))
    if order.tool == "Grep" and "output_mode" in properties:
        arguments = arguments | {"output_mode": "content"}
    return [TextBlock(text), ToolUseBlock(f"offline-{count + 1}", order.tool, arguments)]
