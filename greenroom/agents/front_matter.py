"""The front matter of a Markdown file: `KEY: VALUE` lines between two lines of `---`.

The part of YAML that such files use for texts is read: plain, quoted, folded (`>`) and literal (`|`)
values, over several lines too, and comments. Other values are passed over under the keys that are not
asked for, and are an error, with its line, under those that are.
"""

import re
from collections.abc import Collection, Sequence
from textwrap import dedent

from greenroom.core import ConfigurationError, serde

_MOST = 200  # lines
_SHAPE = "a file begins with ---, then KEY: VALUE lines, then --- again"
_FENCE = re.compile(r"---\s*")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\s*:(?:\s+(.*))?")
_CONTINUES = re.compile(r"\s|-(\s|$)|#")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BLOCK = re.compile(r"([|>])[+-]?\s*(?:\s#.*)?")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*+)"|'((?:[^']|'')*+)')\s*(?:\s#.*)?""")
_MARKED = re.compile(r"[-?](\s|$)|[\[{&*!%@`]")
_MAPPING = re.compile(r"\S+:(\s|$)")


def parse_front_matter(text: str, source: str, keys: Collection[str]) -> tuple[dict[str, str], str]:
    r"""Return the texts under these keys, as far as they are there, and what follows.

    Raises:
        ConfigurationError: there is no front matter, or it can't be understood; it names the file and
            the line.

    Example:
        >>> parse_front_matter("---\nname: a  # b\ntags: [c]\n---\nBody.\n", "SKILL.md", ["name"])
        ({'name': 'a'}, 'Body.\n')
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise _error(source, 1, "there is no front matter", _SHAPE)
    ends = (at for at, line in enumerate(lines[1:_MOST], 1) if _FENCE.fullmatch(line))
    end = next(ends, None)
    if end is None:
        raise _error(source, 1, f"the front matter does not end within {_MOST} lines", _SHAPE)
    found, at = dict[str, str](), 1
    seen = set[str]()
    while at < end:
        line, start = lines[at], at
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        key = _KEY.fullmatch(line)
        if key is None:
            raise _error(source, at, f"{line[:60]!r} is not KEY: VALUE", _SHAPE)
        if key[1] in seen:
            raise _error(source, at, f"{key[1]} is there twice", "remove one")
        seen.add(key[1])
        while at < end and (not lines[at].strip() or _CONTINUES.match(lines[at])):
            at += 1
        if key[1] in keys:
            try:
                found[key[1]] = _value(key[2] or "", lines[start + 1 : at])
            except ValueError as error:
                raise _error(
                    source, start + 1, f"{key[1]}: {error}", "write it in quotes"
                ) from None
    return found, "\n".join(lines[end + 1 :])


def _error(source: str, line: int, message: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"{source}:{line}: {message}", hint=hint)


def _value(first: str, rest: Sequence[str]) -> str:
    """Read a value: the text after its key, and the lines below.

    Raises:
        ValueError: it is not a text; the message says what it is.
    """
    first = first.strip()
    if first[:1] in ("|", ">"):
        return _block(first, rest)
    if first[:1] in ("'", '"'):
        return _unquote(" ".join([first, *(line.strip() for line in rest)]).strip())
    lines = [_COMMENT.sub("", line).strip() for line in (first, *rest)]
    text = " ".join(filter(None, lines))
    # Behind a key a colon is taken as it is: YAML refuses it, but descriptions are often written so.
    if _MARKED.match(text) or (not lines[0] and _MAPPING.match(text)):
        raise ValueError("a list, a mapping or a tag, where a text is expected")
    return text


def _block(first: str, rest: Sequence[str]) -> str:
    header = _BLOCK.fullmatch(first)
    if header is None:
        raise ValueError(f"{first[:20]!r} is not understood")
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in rest):
        raise ValueError("it is indented with tabs")
    if any(line and not line[0].isspace() for line in rest):
        raise ValueError("a line of it is not indented")
    text = dedent("\n".join(rest)).strip("\n")
    if header[1] == "|":
        return text
    paragraphs = re.split(r"\n{2,}", text)
    return "\n".join(" ".join(each.split("\n")) for each in paragraphs)


def _unquote(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        raise ValueError("the quotes do not end where the value ends")
    if quoted[1] is None:
        return quoted[2].replace("''", "'")
    try:
        return str(serde.loads(f'"{quoted[1]}"'))
    except serde.InvalidJSONError:
        raise ValueError("it holds an escape that is not understood") from None
