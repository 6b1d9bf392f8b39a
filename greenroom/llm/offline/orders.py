"""What the offline model understands: a handful of orders, each one call of a tool."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

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
    arguments: dict[str, object] = {"pattern": _unquoted(found["pattern"])}
    if found["path"]:
        arguments["path"] = _path(found["path"])
    wishes: dict[str, object] = {"output_mode": "content"}
    return Order(f"search for {arguments['pattern']}", "Grep", arguments, wishes)


def _run(found: re.Match[str]) -> Order:
    command = _unquoted(found["command"])
    return Order(f"run {command}", "Bash", {"command": command})


def _write(found: re.Match[str]) -> Order:
    path, content = _path(found["path"]), found["content"]
    return Order(f"write {path}", "Write", {"file_path": path, "content": content})


def _edit(found: re.Match[str]) -> Order:
    path = _path(found["path"])
    arguments: dict[str, object] = {
        "file_path": path,
        "old_string": _unquoted(found["old"]),
        "new_string": _unquoted(found["new"]),
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
    plain = _unquoted(text)
    return plain.rstrip(",;!?").removesuffix(".") or plain


def _unquoted(text: str) -> str:
    plain = text.strip()
    if len(plain) > 2 and plain[0] == plain[-1] and plain[0] in "\"'`":
        return plain[1:-1]
    return plain
