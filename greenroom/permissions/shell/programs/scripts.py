"""Scripts of sed and awk: which ones only select and print."""

import re

__all__ = ["awk_only_prints", "sed_only_prints"]
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
# Further files are read by way of ARGV, and names of variables made up by way of the others.
_AWK_ACTS = re.compile(r"system|getline|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|[|@]")


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
