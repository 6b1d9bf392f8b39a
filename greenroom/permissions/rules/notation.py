r"""The short form of a matcher, such as `Bash(git status:*)`: what people type, and what they are shown.

    rule   := "*" | names [ "(" kinds ")" ]        names: tools and `category:…`, joined by commas
    kinds  := values { " & " values }              all of the kinds must fit
    values := value { ", " value }                 of one kind, of which one must fit; `> file` may stand anywhere
    value  := words ":*" | words " *" | words | pattern | kind ":" value

Words alone are a command behind `Bash`, and a path behind every other tool; `path:`, `command:`,
`domain:` and `regex:` say which kind else is meant. Quotes are the shell's, `'…'` and `$'…'`, so that
everything that a matcher can hold can be written, and nothing in it hides.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from greenroom.core import RuleFileError, exact
from greenroom.permissions.shell.grammar.quoting import decode_ansi_c
from greenroom.permissions.shell.grammar.split import split_words

__all__ = ["KINDS", "quoted_words", "read_notation", "write_notation"]

KINDS = (
    *("tool", "category", "command_prefix", "argv_exact", "path", "domain", "regex"),
    "redirect_to",
)
"""The fields of a matcher that are texts."""

_QUOTED = r"(?:'[^']*'|\$'(?:[^'\\]|\\.)*')"
_NAME = re.compile(r"(?!category:)[A-Za-z_][\w.:/-]*")
_ITEM = rf"(?:(?:category:)?(?:[A-Za-z_][\w.:/-]*|{_QUOTED}))"
_FORM = re.compile(
    rf"\s*(?:\*|(?P<names>{_ITEM}(?:\s*,\s*{_ITEM})*))\s*(?:\((?P<values>.*\S.*)\))?\s*", re.DOTALL
)
_KIND = re.compile(r"(domain|path|regex|command):|(>)\s|condition\Z")
_VALUE = re.compile(
    rf"\s*(?P<value>(?:{_QUOTED}|\"(?:[^\"\\]|\\.)*\"|\\.|(?!,\s|\s&\s|\s*\Z).)+)\s*(?P<end>,\s|&\s|\Z)",
    re.DOTALL,
)
_BARE = re.compile(r"[\w@%+=:,./-]*[\w@%+=:./-]", re.ASCII)
_UNCLEAR = re.compile(r"[\"'\\]|,\s|\s&\s|\A\s|\s\Z|\A\*\Z|:\*\Z")
_SETTING = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
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
    form = _FORM.fullmatch(text)
    if form is None:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    fields: dict[str, list[str]] = {kind: [] for kind in KINDS}
    names = re.findall(_ITEM, form["names"] or "")
    for item in names:
        field = "category" if item.startswith("category:") else "tool"
        fields[field].append(_plain(item.removeprefix("category:")))
    values = (form["values"] or "*").strip()
    if values == "*":
        return fields
    groups: list[set[str]] = [set()]
    for value, end in _split(values, text):
        field, read = _read(value, _usual_kind(names), text)
        if field != "redirect_to":
            groups[-1].add(field)
        if field == "argv_exact" and fields[field]:
            groups[-1].add("another command")
        fields[field] += read
        groups += [set()] if end == "&" else []
    if any(len(group) > 1 for group in groups) or len(set().union(*groups)) < len(groups):
        raise RuleFileError(
            f"a comma joins values of one kind, and & kinds: {text!r}",
            hint="quote a comma that belongs to a word, as in Bash(echo 'a,' b)",
        )
    return fields


def _split(values: str, text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, ","
    while end:
        found = _VALUE.match(values, at)
        if found is None:
            raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
        at, end = found.end(), found["end"].strip()
        yield found["value"], end


def _usual_kind(names: Sequence[str]) -> str:
    return {"Bash": "command", "WebFetch": "host"}.get(",".join(names), "path")


def _read(value: str, usual: str, text: str) -> tuple[str, list[str]]:
    found = _KIND.match(value)
    kind = (found[1] or found[2] or found[0]) if found else usual
    rest = value[found.end() if found else 0 :].strip()
    prefix = re.sub(r"(?::| )\*\Z", "", rest)
    match kind:
        case "command" if prefix != rest:
            return "command_prefix", [prefix]
        case _ if not found and rest.endswith(":*"):
            return "command_prefix", [prefix]
        case "command":
            return "argv_exact", list(split_words(rest))
        case "condition":
            raise RuleFileError(f"a condition is written in Python: {text!r}", hint=_EXAMPLES)
        case "host":
            raise RuleFileError(f"not a host: {rest!r}", hint=_EXAMPLES)
        case ">":
            return "redirect_to", [_plain(rest)]
        case field:
            return field, [_plain(rest)]


def write_notation(fields: Mapping[str, Sequence[str]], *, conditional: bool) -> str:
    """Write a matcher so that `read_notation` reads the same; a condition in Python is only named."""
    names = [_name(each) for each in fields["tool"]]
    names += [f"category:{_name(each)}" for each in fields["category"]]
    usual = _usual_kind(names)
    words = quoted_words(fields["argv_exact"]) if fields["argv_exact"] else ""
    groups = [
        ", ".join(f"{_not_a_kind(each)}:*" for each in fields["command_prefix"]),
        words and (_not_a_kind(words) if usual == "command" else f"command:{words}"),
        ", ".join(f"regex:{_value(each)}" for each in fields["regex"]),
        ", ".join(f"{'' if usual == 'path' else 'path:'}{_value(each)}" for each in fields["path"]),
        ", ".join(f"domain:{_value(each)}" for each in fields["domain"]),
        "condition" if conditional else "",
    ]
    values = " & ".join(filter(None, groups))
    values += "".join(f", > {_value(each)}" for each in fields["redirect_to"])
    if not names and values in ("", "condition"):
        return values or "*"
    return f"{','.join(names) or '*'}({values})" if values else ",".join(names)


def quoted_words(words: Sequence[str]) -> str:
    """Write words so that the shell, and `PermissionRule.parse`, read the same words again."""
    text = " ".join(map(_word, words))
    try:
        is_same = split_words(text) == tuple(words)
    except RuleFileError:  # such as a keyword
        is_same = False
    return text if is_same else " ".join(map(_quoted, words))


def _word(word: str) -> str:
    name = found[0] if (found := _SETTING.match(word)) else ""
    return word if _BARE.fullmatch(word) else name + _quoted(word[len(name) :])


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else _quoted(text)


def _not_a_kind(text: str) -> str:
    """Quote the first word of a command that would be taken for a kind."""
    return re.sub(r"\A\S+", lambda found: _quoted(found[0]), text) if _KIND.match(text) else text


def _value(text: str) -> str:
    is_plain = text and not _UNCLEAR.search(text) and not _KIND.match(text) and _is_visible(text)
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    if "'" not in text and _is_visible(text):
        return f"'{text}'"
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(char: str) -> str:
    if _is_visible(char) and char not in " '\\":
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _is_visible(text: str) -> bool:
    return text.isprintable() and exact(text) == text


def _plain(text: str) -> str:
    """Take the quotes off a value; without quotes it stands as it is."""
    if not re.fullmatch(_QUOTED, text, re.DOTALL):
        return text
    return text[1:-1] if text.startswith("'") else decode_ansi_c(text[2:-1]) or ""
