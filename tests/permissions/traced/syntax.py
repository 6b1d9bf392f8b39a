"""Odd texts: ways to write commands, with a harmless and with a harmful one in them.

The rules allow harmless programs, some of them builtins that evaluate their words, and deny one
program and some files. Nothing may be written.
"""

from itertools import chain

from greenroom.permissions import PermissionRule
from tests.permissions.tables import read_table
from tests.permissions.traced.judging import DENY_PWN, DENY_SECRETS, Case, Rules

ALLOWED = (
    *("good", "cat", "git status", "echo", "true", "sort", "xargs", "find", "cd", "test", "[", ":"),
    *("sed -n", "awk", "printf", "head", "wc", "read", "bash -c", "let", "declare", "unset", "seq"),
    *("eval", "uniq", "grep", "wait", "git commit --dry-run"),
)
RULES = Rules(
    "harmless programs",
    (PermissionRule.allow_command(*ALLOWED), DENY_PWN, DENY_SECRETS),
    allowed=tuple(each.split()[0] for each in ALLOWED),
    leaves=True,
)
WHOLE = Rules(
    "the whole tool", (PermissionRule.allow_tool("Bash"), DENY_PWN), None, "anything", leaves=True
)

TEMPLATES = tuple(chain.from_iterable(read_table("traced/syntax").values()))
WORDS = read_table("traced/words")


def generate(choose):
    """Make up one text: composed, composed and then changed a little, or a row of tokens."""
    how = choose.random()
    text = _row(choose) if how < 0.25 else _composed(choose)
    if 0.25 < how < 0.6:
        text = _edited(choose, text)
    if text.isspace() or not text:
        text = "good"
    return Case("syntax", WHOLE if choose.random() < 0.1 else RULES, text)


def _composed(choose):
    text = choose.choice(WORDS["harmless" if choose.random() < 0.6 else "harmful"])
    for _ in range(choose.choice((1, 1, 2, 3))):
        text = choose.choice(TEMPLATES).replace("§", text)
    return text


def _edited(choose, text):
    for _ in range(choose.choice((1, 1, 2, 3))):
        at, how = choose.randrange(len(text) + 1), choose.random()
        if how < 0.5:
            text = text[:at] + choose.choice(WORDS["pieces"]) + text[at:]
        elif how < 0.75:
            text = text[:at] + text[at + choose.choice((1, 1, 2)) :]
        else:
            other = choose.randrange(len(text) + 1)
            text = text[:at] + text[other : other + 1] + text[at + 1 :]
    return text


def _row(choose):
    between = choose.choice(("", " ", " "))
    text = between.join(choose.choices(WORDS["tokens"], k=choose.randrange(3, 13)))
    return f"good {text}" if choose.random() < 0.7 else text
