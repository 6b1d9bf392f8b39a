"""Which arithmetic is only arithmetic.

The shell evaluates the *values* of the variables that an expression names, subscripts and the
commands inside them included; so an expression is as safe as what its variables hold.
"""

import re

__all__ = ["HELD", "NAMES", "SAFE_OFFSET", "is_plain_value"]

NAMES = re.compile(r"[A-Za-z_]")
SAFE_OFFSET = re.compile(r":[ ]?-?[0-9]+(?::[ ]?-?[0-9]+)?\}")
# Variables that the shell fills with text of the command itself.
HELD = re.compile(r"(?<!\w)(?:_|BASH_[A-Z_]+|DIRSTACK|FUNCNAME|OLDPWD|PWD)(?!\w)")
_PLAIN = re.compile(r"[\w./:@%+, *?=-]*|\{\w+\.\.\w+(?:\.\.\w+)?\}")


def is_plain_value(text: str) -> bool:
    """Tell whether a variable of this value can't make arithmetic run a command."""
    return _PLAIN.fullmatch(text) is not None
