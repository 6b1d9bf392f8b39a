"""Scripts of sed and awk: where they stand, and which ones only select and print."""

import re
from collections.abc import Iterator, Sequence

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.programs.options import abbreviates, letter_of

__all__ = ["awk_only_prints", "awk_scripts", "sed_only_prints", "sed_scripts", "texts_in"]
_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|[^/\\\n])*+/I?)"
_SUBSTITUTION = (
    r"s(?:/(?:\\.|[^/\\\n])*+/(?:\\.|[^/\\\n])*+/|\|(?:\\.|[^|\\\n])*+\|(?:\\.|[^|\\\n])*+\|"
    r"|,(?:\\.|[^,\\\n])*+,(?:\\.|[^,\\\n])*+,|#(?:\\.|[^#\\\n])*+#(?:\\.|[^#\\\n])*+#)[gpiI0-9]*+"
)
_SED_COMMAND = rf"(?:{_SUBSTITUTION}|[pPdDqQ=nNgGhHxlz]\d*+)"
_SED = re.compile(
    rf"[\s;{{}}]*+(?:(?:{_ADDRESS}(?:,[+~]?(?:{_ADDRESS}))?+)?+\s*+!?+\s*+[{{\s]*+{_SED_COMMAND}"
    rf"[\s;}}]*+)*+"
)
_INSIDE = re.compile(r"\"([^\"]+)\"|(?<![A-Za-z])e\s*([^\n]+)")
# What they surely run, be it a single word.
_RUN = re.compile(r"(?:\||system\s*\()\s*\"([^\"]+)\"|\"([^\"]+)\"\s*\||(?<![A-Za-z])e\s*([^\n]+)")
# What pagers, editors and clients of databases run: `+!cmd`, `.shell cmd`, `\! cmd`, `system("cmd")`.
_RUN_INSIDE = re.compile(
    r"(?:!|[|][$.^]?|\b(?:shell|system|program|\w*[Cc]ommand)\b)[\s(\"']*([^\"'\n]+)"
)
_MORE = re.compile(r"[ $`]")  # than one word
_AWK_ACTS = re.compile(r"system|getline|[|@]")


def sed_only_prints(script: str) -> bool:
    r"""Tell whether a sed script reads and prints only: it writes no file and runs nothing.

    Example:
        >>> sed_only_prints("1,5p"), sed_only_prints("s/a/b/w out"), sed_only_prints("1e ls")
        (True, False, False)
    """
    return _SED.fullmatch(script) is not None


def awk_only_prints(script: str) -> bool:
    """Tell whether an awk script surely reads and prints only.

    Without a `print` before it `>` compares. Strings are not left out, since what looks like one
    may begin inside a regular expression.

    Example:
        >>> awk_only_prints("$3 > 80 || /x/ { print $1 }"), awk_only_prints('{ print > "out" }')
        (True, False)
    """
    printing = script.find("print")
    if printing >= 0 and script.find(">", printing) >= 0:
        return False
    return _AWK_ACTS.search(script.replace("||", "")) is None


def sed_scripts(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the scripts of sed that may do more than print; those in files are among them."""
    scripts: list[tuple[int, str]] = []
    operands: list[tuple[int, str]] = []
    at = 1
    while at < len(argv):
        text = argv[at].text
        if not text.startswith("-") or text == "-":
            operands.append((at, text))
        elif (value := _sed_value(text)) is not None:
            option, attached = value
            at += not attached
            if option != "l" and at < len(argv):
                # A script in a file is none that only prints, as far as is known.
                scripts.append((at, "w" if option == "f" else attached or argv[at].text))
        at += 1
    for place, script in scripts or operands[:1]:
        if argv[place].dynamic or not sed_only_prints(script):
            yield place, "this sed script may write files or run programs"


def _sed_value(option: str) -> tuple[str, str] | None:
    """Take the letter of an option that has a value, and the value if it is in the same word."""
    name, _, value = option.partition("=")
    for letter, long in (("e", "--expression"), ("f", "--file"), ("l", "--line-length")):
        if abbreviates(name, long):
            return letter, value
    place = letter_of(option, "efl", "i")
    return None if place is None else (option[place], option[place + 1 :])


def awk_scripts(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the script of awk if it may do more than print."""
    at, looked_at = 1, 1
    while at < len(argv) and looked_at:
        text = argv[at].text
        if text.startswith("--") and "=" not in text:
            looked_at += 1  # the next word may be its value
        elif text.startswith("-") and len(text) > 1:
            place = letter_of(text, "Fv", "")
            at += place is not None and place == len(text) - 1
        else:
            looked_at -= 1
            if argv[at].dynamic or not awk_only_prints(text):
                yield at, "this awk script may write files or run programs"
        at += 1


def texts_in(word: str) -> Iterator[str]:
    """Find the texts in a word that a program may run as commands, by awk's and sed's ways too.

    Example:
        >>> list(texts_in('{print | "sort -r"}'))
        ['{print | "sort -r"}', 'sort -r']
    """
    value = word.partition("=")[2]
    inside = ["".join(found) for part in (word, value) for found in _INSIDE.findall(part)]
    run = ["".join(found) for part in (word, value) for found in _RUN.findall(part)]
    attached = word[2:] if word.startswith("-") else word
    values = (value.removeprefix("!"), word.rpartition("=")[2])
    texts = (attached, *values, *inside, *_RUN_INSIDE.findall(word), *run)
    return (text for text in dict.fromkeys(texts) if text in run or _MORE.search(text))
