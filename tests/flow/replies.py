"""Replies in the styles of model families, as they are and with the faults that models make.

Each is a text and what it means: the tool and its arguments, or the answer. The texts are made of
templates; what was seen in the wild or thought of besides stands in `handwritten`.
"""

import itertools
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from greenroom.flow import Action, FinalAnswer

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("calculator", {"expression": "15 * 3"}),
    ("web_search", {"query": "weather in Tokyo", "limit": 3}),
    ("get_time", {}),
    ("write_file", {"path": "a.py", "content": 'def f(x):\n    return {"a": [x]}\n'}),
    ("translate", {"text": "It's raining, they said.", "to": "fr"}),
    ("math.round", {"value": -2.5e3, "exact": True, "unit": None}),
    ("book", {"hotel": {"name": "Zur Post", "stars": [3, 4]}, "nights": 2}),
    ("search", {"query": "Final Answer: 42 } and Action: {"}),
    ("send", {"to": "Zoë 😀", "text": "日本語、“quoted” and C:\\new"}),
    ("grep", {"pattern": r"\bclass\s+(\w+)\{", "path": "."}),
    ("note", {"text": "one\n\nThought: two\nObservation: three"}),
    ("run", {"command": "echo 'a' && ls -l | wc", "timeout": 10}),
]
THOUGHTS = ("I need a tool for this.", "Let me look, it's easy; the set {1, 2} is small.")
ANSWERS = (
    "45",
    "It rains in Tokyo: 18 °C. Take an umbrella.",
    "Three things:\n\n1. First\n2. {second}\n\n```python\nprint('x')\n```\nThat's all.",
    'Use {"tool": "x", "arguments": {}} for that.\nAction: none is needed.',
    "word " * 2_000 + "end.",
)


@dataclass(frozen=True)
class Case:
    """A reply and its meaning."""

    name: str
    text: str
    means: Action | FinalAnswer

    def with_text(self, name: str, text: str) -> "Case":
        return replace(self, name=f"{self.name}, {name}", text=text)


def dumps(value: object, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


# `{CALL}` and `{ARGS}` are filled in by a mutation, which may spell the object in its own way.


def classic(tool: str) -> str:
    return "Thought: {THOUGHT}\nAction: " + tool + "\nAction Input: {ARGS}"


FAMILIES: dict[str, Any] = {
    # What the prompt asks for, with the keys that are common.
    "plain tool/arguments": (("tool", "arguments"), "Thought: {THOUGHT}\nAction: {CALL}"),
    "plain tool/args": (("tool", "args"), "Thought: {THOUGHT} Action: {CALL}"),
    "gpt, bold labels": (
        ("tool_name", "arguments"),
        "**Thought:** {THOUGHT}\n\n**Action:** {CALL}",
    ),
    "gpt, fence": (("tool", "arguments"), "{THOUGHT}\n\n```json\n{CALL}\n```"),
    "langchain, fence": (
        ("action", "action_input"),
        "Thought: {THOUGHT}\nAction:\n```json\n{CALL}\n```",
    ),
    "llama, classic": (None, classic),
    "llama 3.1": (("name", "parameters"), "<|python_tag|>{CALL}<|eom_id|>"),
    "qwen, hermes": (("name", "arguments"), "{THOUGHT}\n<tool_call>\n{CALL}\n</tool_call>"),
    "deepseek r1": (
        ("tool", "arguments"),
        "<think>\n{THOUGHT} Maybe Action: {{'tool': 'no', 'args': {{}}}}?\n</think>\n\n"
        "Action: {CALL}",
    ),
    "deepseek v3": (
        None,
        lambda tool: (
            "{THOUGHT}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
            + tool
            + "\n```json\n{ARGS}\n```<｜tool▁call▁end｜>"
        ),
    ),
    "mistral": (("name", "arguments"), "[TOOL_CALLS] [{CALL}]</s>"),
    "gemma": (("action", "action_input"), "### Thought\n{THOUGHT}\n\n### Action:\n{CALL}"),
    "phi, one object": (("tool", "arguments"), "{CALL}"),
    "phi, functools": (("name", "arguments"), "functools[{CALL}]"),
    "cohere": (("tool_name", "parameters"), "Plan: I look.\nAction: ```json\n[\n{CALL}\n]\n```"),
    "claude, tags": (("tool", "args"), "<thinking>{THOUGHT}</thinking>\n<action>{CALL}</action>"),
}

FINALS = {
    "plain": "Thought: {THOUGHT}\nFinal Answer: {ANSWER}",
    "one line": "Thought: {THOUGHT} Final Answer: {ANSWER}",
    "bold": "**Thought:** {THOUGHT}\n\n**Final Answer:** {ANSWER}",
    "heading": "### Final Answer\n\n{ANSWER}",
    "think": "<think>Final Answer: no\nAction: {{}}</think>\n\nFinal Answer: {ANSWER}<|im_end|>",
    "lower": "thought: {THOUGHT}\nfinal answer: {ANSWER}\n",
    "fullwidth": "Thought： {THOUGHT}\nFinal Answer： {ANSWER}",
}


def python_quotes(text: str) -> str:
    return repr(json.loads(text))


def trailing_commas(text: str) -> str:
    """Put a comma before each closing bracket outside of strings, unless its pair is empty."""
    made, in_text, escaped = "", False, False
    for char in text:
        if not in_text and char in "}]" and made[-1] not in "{[":
            made += ","
        made += char
        in_text ^= char == '"' and not escaped
        escaped = char == "\\" and not escaped
    return made


def fancy_quotes(text: str) -> str:
    """Put typographic quotes around names and texts that hold none."""
    made, place, opened = "", 0, False
    while place < len(text):
        if text[place] == "\\":
            made += text[place : place + 2]
            place += 2
            continue
        if text[place] == '"':
            opened = not opened
            made += "“" if opened else "”"
        else:
            made += text[place]
        place += 1
    return made


def bare_keys(text: str) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {write(item)}" for key, item in value.items()) + "}"
        return dumps(value)

    return write(json.loads(text))


def every_second_key_bare(text: str) -> str:
    """Leave out the quotes of every second name, as JavaScript needs them for `from` alone."""
    counter = itertools.count()

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{name(key)}: {write(value[key])}" for key in value) + "}"
        return dumps(value)

    def name(key: str) -> str:
        return key if next(counter) % 2 else dumps(key)

    return write(json.loads(text))


def raw_newlines(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\\n", "\\\\n")


OBJECT_MUTATIONS = {
    "as it is": lambda text: text,
    "Python's quotes": python_quotes,
    "trailing commas": trailing_commas,
    "typographic quotes": fancy_quotes,
    "names without quotes": bare_keys,
    "some names without quotes": every_second_key_bare,
    "indented": lambda text: dumps(json.loads(text), indent=2),
    "newlines in texts": raw_newlines,
    "a brace missing": lambda text: text[:-1],
    "a brace too many": lambda text: text + "}",
    "doubled braces": lambda text: text.replace("{", "{{").replace("}", "}}"),
    "a comment": lambda text: text.replace("{", "{  # it's one\n", 1),
    "escaped quotes": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "escaped Unicode": lambda text: json.dumps(json.loads(text)),
    "fullwidth punctuation": lambda text: text.replace('": ', '"： ').replace(', "', '，"'),
}
TEXT_MUTATIONS = {
    "prose around": lambda text: f"Sure, I can help!\n\n{text}\n\nLet me know how it goes.",
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "an observation made up": lambda text: (
        f'{text}\nObservation: {{"result": 7}}\nThought: done\nFinal Answer: 7'
    ),
    "another action": lambda text: f'{text}\n\nAction: {{"tool": "other", "arguments": {{}}}}',
    "hidden characters": lambda text: "\ufeff" + re.sub(r"(?m)^(\W*Action:) ", "\\1\u00a0", text),
    "lower case": lambda text: re.sub(r"(?m)^\W*(?:Action|Thought):", lambda m: m[0].lower(), text),
}


def breaks_texts(name: str, arguments: object) -> bool:
    """Whether a mutation would change these texts, or make them ambiguous."""
    written = dumps(arguments)
    return {
        "typographic quotes": "“" in written or "\\" in written,
        "doubled braces": any(
            brace in str(value) for brace in "{}" for value in strings(arguments)
        ),
        "newlines in texts": "\\\\n" in written,
        "fullwidth punctuation": any(
            ', "' in value or '": ' in value for value in strings(arguments)
        ),
    }.get(name, False)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def actions() -> list[Case]:
    """Every call in every family with every fault of its object."""
    made = []
    for family, (keys, template) in FAMILIES.items():
        for number, (tool, arguments) in enumerate(CALLS):
            means = Action(tool, arguments)
            whole = dumps({keys[0]: tool, keys[1]: arguments} if keys else arguments)
            shape = template if keys else template(tool)
            for name, mutate in OBJECT_MUTATIONS.items():
                if breaks_texts(name, arguments):
                    continue
                thought = THOUGHTS[number % 2]
                shaped = shape.replace("{{", "{").replace("}}", "}")
                text = shaped.replace("{THOUGHT}", thought)
                text = text.replace("{CALL}", mutate(whole)).replace("{ARGS}", mutate(whole))
                made.append(Case(f"{family}, {tool}, {name}", text, means))
    return made


def around() -> list[Case]:
    """Replies with something around them that models add."""
    plain = [case for case in actions() if case.name.endswith(("as it is", "Python's quotes"))]
    return [
        case.with_text(name, mutate(case.text))
        for case in plain
        for name, mutate in TEXT_MUTATIONS.items()
        if not (name == "CRLF" and "\n" in "".join(strings(case.means.arguments)))
    ]


def finals() -> list[Case]:
    """Every answer in every style."""
    return [
        Case(
            f"answer, {style}, {number}",
            template.replace("{{", "{")
            .replace("}}", "}")
            .replace("{THOUGHT}", THOUGHTS[number % 2])
            .replace("{ANSWER}", answer),
            FinalAnswer(answer.strip()),
        )
        for style, template in FINALS.items()
        for number, answer in enumerate(ANSWERS)
    ]


def corpus() -> list[Case]:
    """All of them."""
    return [*actions(), *around(), *finals()]
