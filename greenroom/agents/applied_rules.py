"""Applies permission rules to calls without holding up the event loop."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

import trio

from greenroom.core import AgentContext
from greenroom.core._internal import SandboxReport
from greenroom.git import _internal as git
from greenroom.permissions import PermissionManager
from greenroom.threads._internal import is_large
from greenroom.tools._internal import RegisteredTool

if TYPE_CHECKING:
    from greenroom.git._internal import GitAnswer, GitAnswers
    from greenroom.permissions._internal import Explanation, Judgement

_LONG = 8_000  # characters and values, which take a few tens of milliseconds to judge

_T = TypeVar("_T")


@cache
def _git() -> "GitAnswers":
    """Return those of all agents, since many share a repository."""
    return git.GitAnswers()


async def apply_rules(
    permissions: PermissionManager,
    tool: RegisteredTool | str,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
    sandbox: SandboxReport | None,
) -> "Judgement":
    """Judge a call by the rules, after git was asked about the repositories that it reads."""
    judge = partial(permissions.judge, tool, input, context, sandbox=sandbox)
    is_slow = permissions.has_expressions or is_long(input)
    found = await in_time(judge, is_slow=is_slow)
    if not found.missing_answers:
        return found
    answers = await trio.to_thread.run_sync(_ask_git, found.missing_answers, abandon_on_cancel=True)
    return await in_time(partial(judge, git=answers), is_slow=is_slow)


def _ask_git(folders: Iterable[str]) -> "dict[str, GitAnswer]":
    return {folder: _git().ask(folder) for folder in folders}


async def explain_to_person(
    judgement: "Judgement",
    input: dict[str, object],  # noqa: A002
) -> "Explanation":
    """Explain a judgement to a person; its digest includes the files that the commands run.

    Files are read in a thread, which an interrupt does not wait for.
    """
    from greenroom.permissions._internal import explain  # loaded by the judgement

    found = await in_time(partial(explain, judgement), is_slow=is_long(input))
    if found.call.commands:
        return await trio.to_thread.run_sync(found.with_files, abandon_on_cancel=True)
    return found


async def in_time(judge: Callable[[], _T], *, is_slow: bool) -> _T:
    """Judge a call; a slow one takes a thread, which an interrupt does not wait for."""
    if is_slow:
        return await trio.to_thread.run_sync(judge, abandon_on_cancel=True)
    return judge()


def is_long(input: object) -> bool:  # noqa: A002 - the word that models and tools use
    """Whether an input, with all that is nested in it, is too long to be judged at once."""
    return is_large(input, _LONG)
