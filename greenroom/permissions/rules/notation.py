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


def read_notation(text: str) -> dict[str, list[str]]:
    """Read the short form of a matcher into its `KINDS`; none of them is set in `*`.

    Raises:
        RuleFileError: it has none of the known forms.

    Example:
        >>> read_notation("Bash(npm run *)")["command_prefix"]
        ['npm run']
    """
    fields: dict[str, list[str]] = {kind: [] for kind in KINDS}
    if text.lstrip().startswith("{"):
        return fields | _read_object(text)
    form = _FORM.fullmatch(text)
    if form is None:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    names = [] if form[1] == "*" else form[1].split(",")
    fields["category"] = [each[9:] for each in names if each.startswith("category:")]
    fields["tool"] = [each for each in names if not each.startswith("category:")]
    spec = (form[2] or "*").strip()
    if spec == "*":
        return fields
    for value in _COMMA.split(spec):
        kind, texts = _read_value(value, form[1])
        fields[kind] += texts
    given = [kind for kind in KINDS[2:-1] if fields[kind]]
    if len(given) > 1 or (len(fields["argv_exact"]) and ", " in spec and not fields["redirect_to"]):
        given = []
        fields["argv_exact"] = list(split_words(spec)) if "Bash" in names else []
    if not given and not fields["argv_exact"]:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    return fields


def _read_object(text: str) -> dict[str, list[str]]:
    try:
        given = serde.loads_object(text)
    except serde.InvalidJSONError as error:
        raise RuleFileError(f"not a rule: {error.message}", hint=_EXAMPLES) from error
    for kind, values in given.items():
        is_texts = isinstance(values, list) and all(isinstance(each, str) for each in values)
        if kind not in KINDS or not is_texts:
            raise RuleFileError(
                f"not a rule: {kind!r}", hint=f"lists of texts for {', '.join(KINDS)}"
            )
    return {kind: values for kind, values in given.items() if isinstance(values, list)}


def _read_value(value: str, tool: str) -> tuple[str, Sequence[str]]:
    """Read one value behind a tool: its kind, and its texts."""
    found = _KIND.match(value)
    rest = value[found.end() if found else 0 :].strip()
    if found:
        return found[1] or "redirect_to", [rest]
    if rest.endswith((":*", " *")):
        return "command_prefix", [rest[:-2]]
    if tool == "Bash" and "*" in rest:
        raise RuleFileError(
            f"a star may only stand at the end of a command: {rest!r}",
            hint="write Bash(git status:*)",
        )
    if tool == "Bash":
        return "argv_exact", split_words(rest)
    if tool == "WebFetch":
        raise RuleFileError(f"not a host: {rest!r}", hint="write WebFetch(domain:docs.python.org)")
    return "path", [rest]


def write_notation(fields: Mapping[str, Sequence[str]], *, conditional: bool) -> str:
    """Write a matcher so that `read_notation` reads the same; a condition in Python is only named."""
    names = [*fields["tool"], *(f"category:{each}" for each in fields["category"])]
    behind = "" if names and names != ["Bash"] else "path:"
    values = [f"{each}:*" for each in fields["command_prefix"]]
    values += [quoted_words(fields["argv_exact"])] if fields["argv_exact"] else []
    values += [f"regex:{each}" for each in fields["regex"]]
    values += [f"{behind}{each}" for each in fields["path"]]
    values += [f"domain:{each}" for each in fields["domain"]]
    values += [f"> {each}" for each in fields["redirect_to"]]
    text = ",".join(names) or "*"
    text += f"({', '.join(values)})" if values else ""
    given = {kind: list(each) for kind, each in fields.items() if each}
    try:
        is_same = {k: v for k, v in read_notation(text).items() if v} == given
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
