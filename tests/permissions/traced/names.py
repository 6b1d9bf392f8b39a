"""Patterns and names in every place of a command, in folders full of hostile names."""

import shlex

from greenroom.permissions import PermissionRule
from tests.permissions.tables import read_table
from tests.permissions.traced import workspaces
from tests.permissions.traced.judging import DENY_PWN, DENY_SECRETS, READ_ONLY, Case, Rules
from tests.permissions.traced.options import first_words, option, options_of, programs

PROGRAMS = """
    cat chmod chown cp find git ls mv rm rsync scp sort tar touch xargs zip
""".split()  # noqa: SIM905 - words
RULED = Rules(
    "programs that take names",
    (PermissionRule.allow_command(*PROGRAMS), DENY_SECRETS, DENY_PWN),
    None,
    "unprotected",
    leaves=True,
)
WORDS = read_table("traced/words")


def generate(choose):
    """Make up one command in one of the folders."""
    workspace = choose.choice(tuple(workspaces.HOSTILE))
    if choose.random() < 0.3:
        text = choose.choice(WORDS["uses of names"]).format(_name(choose, workspace))
        return Case("names", RULED, text, workspace)
    program = choose.choice(programs())
    if choose.random() < 0.5:
        some_option = choose.choice(options_of(program))[0]
    else:
        some_option = option(choose, program)
    parts = {
        "p": program,
        "f": choose.choice(first_words().get(program, ("",))),
        "o": some_option,
        "g": _name(choose, workspace),
    }
    return Case(
        "names", READ_ONLY, choose.choice(WORDS["places of names"]).format(**parts), workspace
    )


def _name(choose, workspace):
    """Choose a pattern, or a name as a person writes it, or would if it were harmless."""
    how = choose.random()
    if how < 0.7:
        return choose.choice(WORDS["patterns"])
    name = choose.choice(workspaces.HOSTILE[workspace])
    return shlex.quote(name) if how < 0.9 else name
