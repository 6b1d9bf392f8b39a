"""The short form of a matcher, such as `Bash(git status:*)`: what people type, and what they are shown.

    Read                      a tool, or several: Read,Grep; category:read names a category
    Bash(git log:*, ls *)     commands that begin with these words
    Bash(npm test)            exactly this command
    Bash(pytest:*, > out/**)  its output may be redirected there
    Edit(src/**, *.md)        files; path:… behind any other tool
    WebFetch(domain:a.test)   hosts
    Bash(regex:…)             commands that a regular expression matches
    *                         every call

What does not fit in is written as in a rule file, as a JSON object.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from greenroom.core import RuleFileError, exact, serde
from greenroom.permissions.shell.grammar.split import split_settings, split_words

__all__ = ["KINDS", "quoted_words", "read_notation", "write_notation"]

KINDS = (
    *("tool", "category", "command_prefix", "argv_exact", "path", "domain", "regex"),
    "redirect_to",
)
"""The fields of a matcher that are texts."""

_FORM = re.compile(r"\s*(\*|[A-Za-z_][\w.:/,-]*)\s*(?:\((.*\S.*)\))?\s*", re.DOTALL)
_COMMA = re.compile(r",\s+(?=(?:[^'\"]*(?:'[^']*'|\"[^\"]*\"))*[^'\"]*\Z)")  # outside of quotes
_KIND = re.compile(r"(domain|path|regex):|(>) ")
_EXAMPLES = (
    "write Read, Bash(git status:*), Bash(exact command), Edit(src/**), "
    "WebFetch(domain:docs.python.org) or *"
)


def read_notation(text: str) -> Mapping[str, object]:
    """Read the short form of a matcher into its fields, which are not checked.

    Raises:
        RuleFileError: it has none of the known forms.

    Example:
        >>> read_notation("Bash(npm run *)")
        {'tool': ['Bash'], 'command_prefix': ['npm run']}
    """
    if text.lstrip().startswith("{"):
        return _read_object(text)
    form = _FORM.fullmatch(text)
    if form is None:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    fields: dict[str, list[str]] = {}
    for name in form[1].split(",") if form[1] != "*" else ():
        is_category = name.startswith("category:")
        fields.setdefault("category" if is_category else "tool", []).append(name[9 * is_category :])
    spec = (form[2] or "*").strip()
    if spec == "*":
        return fields or {"all": True}
    values = [_read_value(value, form[1]) for value in _COMMA.split(spec)]
    kinds = [kind for kind, _ in values if kind != "redirect_to"]
    if len(set(kinds)) != 1 or kinds.count("argv_exact") > 1:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    for kind, texts in values:
        fields.setdefault(kind, []).extend(texts)
    return fields


def _read_object(text: str) -> Mapping[str, object]:
    try:
        fields = serde.loads_object(text)
    except serde.InvalidJSONError as error:
        raise RuleFileError(f"not a rule: {error.message}", hint=_EXAMPLES) from error
    if unknown := sorted(fields.keys() - KINDS):
        raise RuleFileError(f"not a rule: {unknown[0]!r}", hint=f"write {', '.join(KINDS)}")
    return fields


def _read_value(value: str, tool: str) -> tuple[str, Sequence[str]]:
    """Read one value behind a tool: its kind, and its texts."""
    if found := _KIND.match(value):
        return found[1] or "redirect_to", [value[found.end() :].strip()]
    value = value.strip()
    if tool == "Bash" and value.endswith((":*", " *")):
        return "command_prefix", [value[:-2]]
    if tool == "Bash":
        return "argv_exact", split_words(value)
    if tool in ("*", "WebFetch") or value.endswith(":*"):
        raise RuleFileError(f"not clear what {value!r} is behind {tool}", hint=_EXAMPLES)
    return "path", [value]


def write_notation(fields: Mapping[str, Sequence[str]], *, conditional: bool) -> str:
    """Write a matcher so that `read_notation` reads the same; a condition in Python is only named."""
    names = ",".join([*fields["tool"], *(f"category:{each}" for each in fields["category"])]) or "*"
    values = [f"{each}:*" for each in fields["command_prefix"]]
    values += [quoted_words(fields["argv_exact"])] if fields["argv_exact"] else []
    values += [f"regex:{each}" for each in fields["regex"]]
    values += [f"path:{each}" if names in ("*", "Bash") else each for each in fields["path"]]
    values += [f"domain:{each}" for each in fields["domain"]]
    values += [f"> {each}" for each in fields["redirect_to"]]
    text = f"{names}({', '.join(values)})" if values else names
    given: Mapping[str, object] = {kind: list(each) for kind, each in fields.items() if each}
    given = given or {"all": True}
    try:
        is_same = read_notation(text) == given
    except RuleFileError:
        is_same = False
    if not is_same or not text.isprintable() or exact(text) != text:
        text = "".join(map(_escaped, serde.dumps(given).decode()))
    return f"{text} & condition" if conditional else text


def _escaped(char: str) -> str:
    """Write a character that can't be seen, or changes how others look, by its number."""
    if char.isprintable() and exact(char) == char:
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def quoted_words(words: Sequence[str]) -> str:
    """Write words so that the shell, and `PermissionRule.parse`, read the same words again."""
    settings, command = split_settings(words)
    named = (each.partition("=") for each in settings)
    values = [f"{name}={shlex.quote(value)}" for name, _, value in named]
    text = " ".join([*values, *map(shlex.quote, command)])
    try:
        is_same = split_words(text) == tuple(words)
    except RuleFileError:  # such as a keyword
        is_same = False
    quoted = ("'" + each.replace("'", "'\"'\"'") + "'" for each in command)
    return text if is_same else " ".join([*values, *quoted])
