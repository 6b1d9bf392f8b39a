"""`parse_action`: parse a reply in plain text as a tool call or a final answer.

A reply is read once, up to the first action, or to a "Final Answer:" before any action. Thoughts in
`<think>` are skipped, and so is anything that the model makes up after its action. If the meaning
is unclear, the reply is a `Fault`, never a guess.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from greenroom.core._internal import EMPTY, Wire, freeze_fields, serde
from greenroom.flow.almost_json import BrokenObject, Object, read_object


class Action(Wire, frozen=True, tag="action"):
    """The model calls a tool.

    Attributes:
        tool: the tool's name, as the model wrote it.
        arguments: its arguments; a plain text becomes the argument "input".
        thought: what the model said before, if anything.
    """

    tool: str
    arguments: dict[str, object] = EMPTY
    thought: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "arguments")


class FinalAnswer(Wire, frozen=True, tag="final_answer"):
    """The model answers: everything after "Final Answer:", and what it said before."""

    text: str
    thought: str = ""


class Fault(Wire, frozen=True, tag="fault"):
    """The reply can't be parsed, for a reason that is worded for the model."""

    reason: str
    thought: str = ""


ReplyMeaning: TypeAlias = Action | FinalAnswer | Fault
"""The meaning of a reply."""


NO_ANSWER = "nothing follows its Final Answer"
NO_ARGUMENTS = 'its action needs "arguments", one object'
NO_TOOL = 'its action names no "tool"'
_CUT = "a text does not end: its closing quote is missing"

_TOOLS = ("tool", "tool_name", "action", "function_name", "name", "function")
_ARGUMENTS = (
    *("arguments", "args", "action_input", "tool_input", "tool_args", "parameters"),
    *("params", "kwargs", "input"),
)
_CERTAIN = {"tool", "tool_name", "action", *_ARGUMENTS[:6]}
"""Names that identify a call: few other objects have two of them, or one and nothing else."""

_THOUGHTS = ("thought", "thoughts", "reasoning")
_OTHER_FIELDS = {*_THOUGHTS, "id", "type", "call_id"}
_ALMOST = re.compile(r"\w+\s*=\s*[\"'\d\[{]|\w+:[^\n]*\n\s*\w+:")
"""A text that looks like several arguments instead of one."""

_WRAPPERS = ("tool_call", "function_call", "tool_calls", "function", "tool", "action", "command")
"""Fields that may wrap a call."""


def interpret(
    value: Mapping[str, object], *, is_labelled: bool, levels: int = 3
) -> ReplyMeaning | None:
    """Return what an object means, or None if it is unrelated."""
    fields = {_plain(key): item for key, item in value.items()}
    said = next((t for key in _THOUGHTS if isinstance(t := fields.get(key), str)), "")
    given = [key for key in _ARGUMENTS if key in fields]
    for around in _WRAPPERS if levels else ():
        inner = fields.get(around)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and given:
            fields[around] = inner.get("name")  # of which the arguments are beside it
        elif isinstance(inner, dict):
            found = interpret(inner, is_labelled=is_labelled, levels=levels - 1)
            return found and replace(found, thought=found.thought or said)
    tool = next((key for key in _TOOLS if isinstance(fields.get(key), str)), "")
    arguments = given[0] if given else ""
    name = str(fields.get(tool, "")).strip()
    others = set(fields) - _OTHER_FIELDS
    if others == {"final_answer"} or (is_labelled and others == {"answer"}):
        return _make_answer(fields[others.pop()], said)
    if name.casefold() in {"final", "final answer"} and "answer" in fields:
        return _make_answer(fields["answer"], said)
    if name.casefold() == "final answer":
        return _make_answer(fields.get(arguments), said)
    is_alone = others <= {tool, arguments}
    certain = len({tool, arguments} & _CERTAIN)
    is_certain = certain == 2 or (certain == 1 and is_alone and bool(arguments))
    if not tool or not (is_labelled or is_certain):
        return None
    if len({*given} & _CERTAIN) > 1 or not (arguments or is_alone):
        return Fault(NO_ARGUMENTS)
    return replace(make_action(name, fields.get(arguments)), thought=said)


def _make_answer(answer: object, thought: str) -> FinalAnswer | Fault:
    """Return the final answer in an object."""
    if isinstance(answer, dict) and len(answer) == 1:
        answer = next(iter(answer.values()))
    text = serde.to_text(answer)
    return FinalAnswer(text, thought) if text.strip() else Fault(NO_ANSWER)


def is_call_of(value: Mapping[str, object], tool: str) -> bool:
    """Whether an object after a tool's name is the whole call, not only its arguments."""
    names = {_plain(key) for key in value} - _OTHER_FIELDS
    return len(names & _CERTAIN) == 2 == len(names) or tool in map(value.get, _TOOLS)


def _plain(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")


def make_action(tool: str, given: object) -> Action | Fault:
    """Return the action for arguments given as an object, as JSON, or as plain text."""
    if not tool:
        return Fault(NO_TOOL)
    if isinstance(given, dict):
        return Action(tool, given)
    if given is not None and not isinstance(given, str):
        return Fault(NO_ARGUMENTS)
    text = "" if given in {None, "None", "null"} else given.strip()
    if _ALMOST.match(text):
        return Fault(NO_ARGUMENTS)
    if text.startswith("{"):
        found = read_object(text, 1)
        if isinstance(found, Object) and found.end == len(text):
            return Action(tool, found.value)
        return Fault(found.reason if isinstance(found, BrokenObject) else NO_ARGUMENTS)
    if text[:1] in {"'", '"'}:
        if len(text) < 2 or text[-1] != text[0]:
            return Fault(_CUT)
        text = text[1:-1]
    return Action(tool, {"input": text} if text else {})


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The meaning of a reply, the text before it without `<think>`, and where it stands."""

    outcome: ReplyMeaning
    before: str
    start: int
    end: int


def parse_action(text: str) -> ReplyMeaning:
    r"""Parse a model's reply into an `Action`, a `FinalAnswer`, or a `Fault`.

    It never raises, and runs in linear time. An action is an object with a tool and its arguments
    (`tool` or `tool_name` or `action`, with `arguments` or `args` or `action_input`, among others),
    or a line "Action: NAME" with "Action Input:". It may be in a code fence or in the tags of a
    model family, and its JSON may have the usual mistakes of models, unless they make it ambiguous.

    If a reply was cut off, a missing bracket may hide missing arguments: check its stop reason
    first.

    Example:
        >>> parse_action("I add. Action: {'tool': 'add', 'args': {'a': 1, 'b': 2}}")
        Action(tool='add', arguments={'a': 1, 'b': 2}, thought='I add.')
        >>> parse_action("Thought: I know it.\nFinal Answer: 3")
        FinalAnswer(text='3', thought='I know it.')
        >>> parse_action('Action: {"tool": "add", "args": {"a": "1').reason
        'a text does not end: its closing quote is missing'
    """
    return parse_reply(text).outcome


_LINE = r"(?:(?<![^\n])|(?<=[\w|｜]>))[^\w\n(){}\[\]<\"'“]*+_*+"
_LABEL = rf"(?:{_LINE}|(?<=[.!?…。！？:;)\]\"'”*])[ \t]++[*_✿]*+)"
_COLON = r"[\"'`*_✿ \t]*+[:：][ \t\u00a0\u200b]*+"
_FENCE = r"(?:```[\w-]*+\s*+)?"
_THINK_TAGS = ("think", "thinking", "thought", "reasoning")
_TAGS = r"tool_calls?|function_calls?|tool_use|action|tools?"

EVENT = re.compile(
    rf"""
    (?P<think> <(?:{"|".join(_THINK_TAGS)})> )
  | (?P<final> {_FENCE} (?:
        {_LABEL} final[ _-]?answer (?:[ ]is(?=[ ]?[:：]))? (?:[ ]\([^)\n]{{1,40}}\))?
            (?: {_COLON} | [ \t*_]*+(?=\r?\n) )
      | {_LINE} (?-i:A)nswer {_COLON}
      | <(?:final_)?answer>
    ) )
  | (?P<action> {_FENCE} (?:
        {_LABEL} (?:next[ ])?(?:action|tool|function)(?:[ _](?:call|name))?(?:[ ]?\d+)? {_COLON}
      | \b action {_COLON} (?={_FENCE}\{{|\W*+[\w.-]++\W*+action[ _]?input\b)
      | <(?:{_TAGS})\s*> | <[|｜](?:python_tag|tool_call\w*|tool▁sep)[|｜]> | \[TOOL_CALLS\]
      | <function= | \bto=functions\. | ```tool_code\b | functools(?=\[)
      | (?<![^\n]) \[(?=[^\W\d][\w.-]*+\((?:\)|\w++=))
    ) )
  | (?P<mention> (?<![\w"'`“])(?-i:Final[ ]Answer) {_COLON} )
  | (?P<observation> {_LINE} observation {_COLON} )
  | (?P<object> {_FENCE} \{{ (?=[ \t]*+(?:/[/*]|\#)|\s*+(?:\{{\s*+)?(?:["'“‘`\\]|(?-i:[a-z]))) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Where an action, an answer or a thought may begin."""

# What may stand between a label and what it is about, and between a tool's name and its arguments.
_TAG = r"</?[|｜]?[\w▁]{1,40}[|｜]?>"
_ALONE = re.compile(rf"\W*+(?:\w++[ ]?[:：,.!]\W*+)?|.*{_TAG}[\s\[]*+")
_OPENING = re.compile(
    rf"(?>(?:```[\w-]*+\s|[\s`*]|_(?=\s)|json\b|print\((?=[\w.-]+\()|\[(?=\s*+\{{)|{_TAG})*)"
)
_NAME = re.compile(r"[\"'“\[]?(?P<name>[^\W\d](?:[\w.:/-]{0,126}[\w])?)(?:[\"'”]|\](?!\w))?")
_INPUT = re.compile(
    rf"(?>(?:[\s,*`;:：(>✿]|{_TAG})*)"
    r"(?P<label>(?:action[ _]?input|tool[ _]?input|input|arguments?|args|parameters|params)"
    rf"(?: ?\d+)?{_COLON})?(?>(?:[\s*]|```[\w-]*+|json\b|\[ARGS\]|{_TAG})*)",
    re.IGNORECASE,
)
_FINAL_NAME = re.compile(
    rf"final answer\b[\"'`]?(?:\s*+action[ _]?input)?(?:{_COLON})?", re.IGNORECASE
)
_LISTED = re.compile(r"[^\n]*\][ \t]*+(?:[\r\n<]|\Z)")
_FIRST_KEY = re.compile(r"[\"'“]\w+[\"'”]\s*+[:：]")
_KEYWORD = re.compile(r"\(\s*+[^\W\d]\w*+\s*+=(?!=)")
_NEXT_LABEL = re.compile(
    r"\Z|```|</|<[|｜]|\n[ \t*#>]*+(?:observation|thought|action|final[ _]answer)\b", re.IGNORECASE
)
_WORDS = "(?:tool|arg|action|thought|name|function)"
_CLAIM = re.compile(
    rf"\{{?\s*+(?:\\?[\"'“‘`]++{_WORDS}|{_WORDS}\w*+[\"'”’`]*+\s*+[:：])", re.IGNORECASE
)
_THOUGHT = re.compile(r"[\s*#>_]*+(?:thoughts?|reasoning)[ *_]*+[:：][ *_]*+", re.IGNORECASE)
_THOUGHT_ENDS = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in _THINK_TAGS}
_ORPHAN = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_TRAILERS = (
    *("</s>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|return|>"),
    *("<end_of_turn>", "</answer>", "</final_answer>"),
)

_MARK = re.compile(r"(\*{1,3}|_{1,3}|`)(?=final|answer)", re.IGNORECASE)

_NOTHING = 'it has neither an "Action:" with a JSON object nor a "Final Answer:"'
_UNCLOSED_THINK = "it ended before its <think> did, and nothing in there counts"
_AMBIGUOUS = "an action is in a sentence before its Final Answer, and only one of them can count"
_NO_ARGUMENTS_OBJECT = "its call of a tool has no JSON object with the arguments"
_UNCLOSED = "its action is not whole: the last closing bracket is missing"


def parse_reply(text: str) -> ParsedReply:
    """Parse a reply, and locate its action or answer."""
    found = _Scan(text, 0).read()
    tag = _ORPHAN.search(text)
    if not tag or not tag[1]:
        return found
    if isinstance(found.outcome, Action) and found.start < tag.start() < found.end:
        return found
    return _Scan(text, tag.end()).read()  # the prompt has the opening tag of these thoughts


class _Scan:
    """Goes through the events of a reply until one decides."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = self._text_start = at
        self._earlier_text: list[str] = []
        self._candidate: ParsedReply | None = None

    def read(self) -> ParsedReply:
        while event := EVENT.search(self._text, self._at):
            self._at = event.end()
            outcome = self._take(event)
            if outcome is not None:
                return self._make_reply(outcome, event.start())
            if self._candidate and event.lastgroup == "observation":
                break
        return self._candidate or self._make_reply(Fault(_NOTHING), len(self._text))

    def _take(self, event: re.Match[str]) -> ReplyMeaning | None:
        match event.lastgroup:
            case "think":
                return self._skip_thoughts(event)
            case "final":
                is_action = self._candidate and isinstance(self._candidate.outcome, Action)
                return Fault(_AMBIGUOUS) if is_action else self._read_answer(event)
            case "mention" if self._candidate is None:
                self._candidate = self._make_reply(self._read_answer(event), event.start())
                self._at = event.end()
            case "action":
                return self._read_label(event)
            case "object" if self._candidate is None:
                outcome = self._read_bare_object(event)
                if not isinstance(outcome, Action) or not self._is_in_sentence(event):
                    return outcome
                self._candidate = self._make_reply(outcome, event.start())
        return None

    def _is_in_sentence(self, event: re.Match[str]) -> bool:
        """Whether an object follows words on its line, which may only mention an earlier action."""
        line = self._text.rfind("\n", 0, event.start()) + 1
        return "`" not in event[0] and not _ALONE.fullmatch(self._text, line, event.start())

    def _make_reply(self, outcome: ReplyMeaning, start: int) -> ParsedReply:
        before = "".join([*self._earlier_text, self._text[self._text_start : start]]).strip()
        label = _THOUGHT.match(before)
        thought = (before[label.end() :] if label else before) or outcome.thought
        return ParsedReply(replace(outcome, thought=thought), before, start, self._at)

    def _skip_thoughts(self, event: re.Match[str]) -> Fault | None:
        """Skip to the end of the thoughts."""
        self._earlier_text.append(self._text[self._text_start : event.start()])
        end = thought_end(event).search(self._text, event.end())
        self._at = self._text_start = end.end() if end else len(self._text)
        return None if end else Fault(_UNCLOSED_THINK)

    def _read_answer(self, event: re.Match[str]) -> FinalAnswer | Fault:
        """Return the rest as the answer, without closing fences, tags and marks."""
        answer = self._text[event.end() :]
        self._at = len(self._text)
        for _ in range(len(_TRAILERS)):
            answer = answer.strip()
            for trailer in _TRAILERS:
                answer = answer.removesuffix(trailer)
        if self._text.count("```", 0, event.end()) % 2:
            answer = answer.removesuffix("```").rstrip()
        mark = open_mark(event[0])
        if mark and answer.startswith(mark):
            answer = answer.removeprefix(mark).lstrip()
        elif mark:
            answer = answer.removesuffix(mark)
        return FinalAnswer(answer) if answer else Fault(NO_ANSWER)

    def _read_bare_object(self, event: re.Match[str]) -> ReplyMeaning | None:
        """Parse an object without a label; most of them are not calls."""
        found = read_object(self._text, event.end())
        self._at = max(found.end, event.end())
        if isinstance(found, Object):
            return interpret(found.value, is_labelled=event.start() == 0 and found.is_closed)
        claims = found.is_open or _CLAIM.match(self._text, event.end())
        return Fault(found.reason) if claims else None

    def _read_label(self, event: re.Match[str]) -> ReplyMeaning | None:
        """Parse what follows a label: an object, or a name and its arguments."""
        if event[0].endswith("[") and not _LISTED.match(self._text, event.end()):
            return None  # a list in code
        is_tag = not event[0].rstrip().endswith((":", "："))
        text, opening = self._text, _OPENING.match(self._text, event.end())
        at = opening.end() if opening else event.end()
        if text.startswith("{", at) or _FIRST_KEY.match(text, at):
            found = self._read_object(at)
            if isinstance(found, Fault):
                return found
            means = interpret(found.value, is_labelled=found.is_closed)
            return means or Fault(NO_TOOL if found.is_closed else _UNCLOSED)
        if final := _FINAL_NAME.match(text, at):
            return self._read_answer(final)
        name = _NAME.match(text, at)
        outcome = self._read_call(name["name"], name.end(), event[0], is_tag) if name else None
        # A label may begin a sentence, a tag does not.
        return outcome or (Fault(_NO_ARGUMENTS_OBJECT) if is_tag else None)

    def _read_call(self, tool: str, at: int, label: str, is_tag: bool) -> ReplyMeaning | None:
        """Parse the arguments after the name of a tool."""
        text = self._text
        is_empty = text.startswith("()", at)
        at += 2 * is_empty
        if _KEYWORD.match(text, at):
            found = self._read_object(at + 1, ")")
            return found if isinstance(found, Fault) else Action(tool, found.value)
        opening = _INPUT.match(text, at)
        at = opening.end() if opening else at
        has_label = bool(opening and opening["label"])
        if not has_label and is_empty:
            return Action(tool)
        if text.startswith("{", at) or (has_label and _FIRST_KEY.match(text, at)):
            found = self._read_object(at)
            if isinstance(found, Fault):
                return found
            is_call = not (has_label or is_tag) and is_call_of(found.value, tool)
            means = interpret(found.value, is_labelled=True) if is_call else None
            return means or Action(tool, found.value)
        # What begins with "tool:" may be code.
        return self._read_plain_input(tool, at) if has_label and "action" in label.lower() else None

    def _read_object(self, at: int, closer: str = "}") -> Object | Fault:
        """Parse an object, whose opening bracket may be missing."""
        found = read_object(self._text, at + self._text.startswith("{", at), closer)
        self._at = found.end
        return found if isinstance(found, Object) else Fault(found.reason)

    def _read_plain_input(self, tool: str, at: int) -> Action | Fault:
        """Use a plain text as the input."""
        end = _NEXT_LABEL.search(self._text, at)
        self._at = end.start() if end else len(self._text)
        return make_action(tool, self._text[at : self._at].strip().strip("`"))


def thought_end(event: re.Match[str]) -> re.Pattern[str]:
    """Return the pattern that ends the thoughts."""
    return _THOUGHT_ENDS[event[0].strip("<>").lower()]


def open_mark(label: str) -> str:
    """Return the Markdown mark that a label leaves open for the answer to close, such as `**`."""
    found = _MARK.search(label)
    return found[1] if found and label.count(found[1]) % 2 else ""
