"""Which verb does what."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from greenroom.cli.commands.permissions.arguments import PermissionsOptions
from greenroom.cli.commands.permissions.explaining import explain_call
from greenroom.cli.commands.permissions.listing import list_rules
from greenroom.cli.commands.permissions.reviewing import show_decisions
from greenroom.cli.commands.permissions.trusting import trust_project
from greenroom.cli.commands.permissions.trying import try_file

_Verb: TypeAlias = Callable[[PermissionsOptions], Awaitable[int]]

_VERBS: Mapping[str, _Verb] = {
    "permissions explain": explain_call,
    "permissions list": list_rules,
    "permissions test": try_file,
    "permissions log": show_decisions,
    "permissions trust": trust_project,
}


async def run_verb(options: PermissionsOptions) -> int:
    """Do what the user asked for; return the exit code.

    Raises:
        GreenroomError: a rule, a file or a session can't be used.
        OSError: standard output can't be written.
    """
    return await _VERBS[options.command](options)
