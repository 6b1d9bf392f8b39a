"""Small languages in the words of a command: may a script of sed or awk only read and print?

Each function answers for every implementation of its language that is in use, so what they read
differently is refused. What is not understood is refused as well.
"""

import re
from collections.abc import Sequence

from greenroom.core._internal import compile_later

_TEXT = r"(?>(?:\\.|[^{0}\\\n])*)"
# A delimiter inside brackets ends nothing, so brackets with one are not supported.
_REGEX = r"(?>(?:\\.|\[\^?\]?(?>(?:\[:\w+:\]|[^\[\]{0}\n])*)\]|[^{0}\\\n\[])*)"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_REGEX.format('/')}/I?)"
_CHANGE = rf"s{{0}}{_REGEX}{{0}}{_TEXT}{{0}}[gpiI0-9]*+|y{{0}}{_TEXT}{{0}}{_TEXT}{{0}}"
_CHANGES = "|".join(_CHANGE.format(each) for each in ("/", r"\|", ",", "#", "@", "!"))
_SED_COMMAND = rf"(?:{_CHANGES}|[pPdDqQ=nNgGhHxlz]\d*+)"
_SED = re.compile(
    rf"[\s;{{}}]*+(?>(?:(?>(?:{_ADDRESS}(?>(?:,[+~]?(?:{_ADDRESS}))?))?)\s*+!?+\s*+[{{\s]*+"
    rf"{_SED_COMMAND}[\s;}}]*+)*)"
)


def sed_only_prints(script: str) -> bool:
    r"""Return whether a sed script only reads and prints: it writes no file and runs nothing.

    Example:
        >>> sed_only_prints("1,5p"), sed_only_prints("s/a/b/w out"), sed_only_prints("1e ls")
        (True, False, False)
    """
    return _SED.fullmatch(script) is not None


_AWK_TOKEN = re.compile(
    r"""(?P<space>[ \t]++|\\\n|\#[^\n\\]*+(?=\n|\Z))
    |(?P<end>[;{}\n])
    |(?P<text>"(?>(?:\\[^\n]|[^"\\\n])*)")
    |(?P<number>(?:\d++(?>(?:\.\d*+)?)|\.\d++)(?>(?:[eE][-+]?\d++)?)(?![\w.]))
    |(?P<name>[A-Za-z_]\w*+)
    |(?P<sign>&&|\|\||\+\+|--|[-+*/%^<>=!~?:,$()\[\]&])""",
    re.VERBOSE | re.ASCII,
)
# Some let a slash in brackets end the expression, or a bracket at their beginning end them.
_AWK_REGEX = re.compile(
    r"/(?>(?:\\[^\n]|\[\^?+(?>(?:\\[^\]\n]|\[:\w+:\]|[^\]\[\\/\n])+)\]|[^\[/\\\n])*)/", re.ASCII
)
# They run programs, open other files, or give access to what does.
_AWK_ACTS = re.compile(
    "system|getline|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|bindtextdomain|dcn?gettext"
)
_AWK_KEYWORDS = re.compile(
    "BEGIN|END|case|delete|do|else|exit|for|func|function|if|in|next|nextfile|printf?|return|switch"
    "|while"
)
_AWK_CLAUSES = frozenset({"if", "while", "for", "switch"})


def awk_only_prints(script: str) -> bool:
    """Return whether an awk script only reads and prints.

    It may have patterns, fields, comparisons, arithmetic, strings, regular expressions, arrays,
    functions and control statements. In a `print`, `>` may only stand in its parentheses, where it
    compares. Pipes, `getline`, `system` and the arrays that name files are refused, and so is a
    slash where it depends on the implementation whether it divides.

    Example:
        >>> awk_only_prints("$3 > 80 || /x/ { print $1 }"), awk_only_prints('{ print > "out" }')
        (True, False)
        >>> awk_only_prints('/a|b/ { n += $1 / 2 } END { printf("%d ", n) }')
        True
    """
    at, previous, printing = 0, "", -1  # how many parentheses are open around a `print`
    opened: list[str] = []  # what stands before each open parenthesis
    while at < len(script):
        match = _AWK_TOKEN.match(script, at)
        if script[at] == "/":
            if previous in ("$", "++", "--", "length", "(if)"):
                return False
            if not _ends_value(previous):
                match = _AWK_REGEX.match(script, at)
            elif script.startswith("/=", at):  # it assigns, unless what is before it can't be set
                return False
        if match is None or _AWK_ACTS.fullmatch(match[0]):
            return False
        lexeme, at = match[0], match.end()
        if lexeme == ">" and len(opened) <= printing:
            return False
        # A line that ends in an operator or a comma goes on.
        if lexeme in ";{}" or (lexeme == "\n" and not opened and _ends_value(previous)):
            printing = -1
        if lexeme in ("print", "printf"):
            printing = len(opened)
        if lexeme == "(":
            opened.append(previous)
        elif lexeme == ")" and (opened.pop() if opened else "if") in _AWK_CLAUSES:
            lexeme = "(if)"
        previous = previous if match.lastgroup == "space" else lexeme
    return True


def _ends_value(previous: str) -> bool:
    """Return whether a slash behind this lexeme divides."""
    is_word = not _AWK_KEYWORDS.fullmatch(previous) and re.search(r"\w\Z", previous) is not None
    return is_word or previous in (")", "]") or (len(previous) > 1 and previous[0] in '"/')


_JQ_FILES = re.compile(r"\b(?:import|include|modulemeta)\b")


def jq_only_prints(filter_: str) -> bool:
    """Return whether a filter of jq reads no file that its words do not name.

    Example:
        >>> jq_only_prints(".a[] | select(.b)"), jq_only_prints('import "a" as $a; $a')
        (True, False)
    """
    return _JQ_FILES.search(filter_) is None


_PRINTF_SETS = re.compile(r"%[-+ #0'*.\d$hlLqjzt]*+n")


def printf_sets_variable(words: Sequence[str]) -> bool:
    """Return whether the words behind bash's `printf` let it set a variable.

    Example:
        >>> printf_sets_variable(("-v", "x", "a")), printf_sets_variable(("%s%n", "a", "x"))
        (True, True)
        >>> printf_sets_variable(("100%%now %s", "-v"))
        False
    """
    format_ = next((word for word in words[:2] if word != "--"), "")
    return format_.startswith("-v") or bool(_PRINTF_SETS.search(format_.replace("%%", "")))


_PS_KEY = (
    "[-+]?(?:pid|ppid|pgid|sid|tid|user|uid|ruser|group|cmd|comm|args|command|ucmd|%cpu|pcpu|%mem"
    "|pmem|etimes?|time|cputime|stat|state|s|tty|tt|rss|rsz|vsz|vsize|size|start|start_time|lstart"
    "|stime|ni|nice|pri|nlwp|lwp|psr|wchan|f|class|cls)=?"
)
_PS_KEYS = rf"{_PS_KEY}(?>(?:,{_PS_KEY})*)"
_PS_WORD = (
    rf"-?[AacdfFHjlLmrTuvwxXy]++|--no-headers?|--forest|--sort[=\0]{_PS_KEYS}"
    rf"|-?[AadfFHjlLTwxy]*+[oO]\0?{_PS_KEYS}|-u\0?(?:root|\d+)|-[AadfFHjlLTwxy]*+p\0?[1-9][\d,]*+"
)
_PS_EVERY = rf"(?:-e[fFl]?w*|-eLf|-e\0?-?o\0?{_PS_KEYS})(?:\0--sort={_PS_KEYS})?"
# With `e` it shows what is set for each process, and words that it can't read as it should are
# read once more in another way, in which `-e` means `e`.
_PS = compile_later(rf"(?:(?:{_PS_WORD})(?>(?:\0(?:{_PS_WORD}))*)|{_PS_EVERY})?")  # it takes long


def ps_only_lists(words: Sequence[str]) -> bool:
    """Return whether the words behind `ps` surely show no variables of other processes.

    Example:
        >>> [ps_only_lists(each.split()) for each in ("aux", "-ef", "-eo pid,cmd", "auxe", "-ef u")]
        [True, True, True, False, False]
    """
    return _PS.fullmatch("\0".join(words)) is not None
