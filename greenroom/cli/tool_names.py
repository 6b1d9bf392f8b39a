"""The names of tools and categories in rules, compared with those that exist.

Rules match names exactly, so a rule about `bash` would match no call, and nobody would notice.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice

from greenroom.cli.formatting import one_line, shorten_home
from greenroom.core import RuleDecision, RuleFileError
from greenroom.permissions import PermissionRule

TOOLS = {
    "Bash": "execute",
    "Read": "read",
    "Write": "write",
    "Edit": "write",
    "Glob": "read",
    "Grep": "read",
    "Todo": "plan",
    "WebFetch": "network",
    "WebSearch": "network",
    "BashOutput": "read",
    "BashKill": "plan",
    "AskPerson": "person",
    "SubmitPlan": "plan",
    "Task": "agent",
    "Skill": "read",
    "Remember": "memory",
    "Recall": "memory",
    "Forget": "memory",
    "run_python": "execute",
    "calculator": "read",
}
"""Every tool that Greenroom has, with its category; a run has most of them."""

_KNOWN = {
    "tool": tuple(TOOLS),
    "category": (*dict.fromkeys(TOOLS.values()), "other"),
}
_SERVER = "mcp__"  # begins the names of a server's tools, which are known only while it runs
_AGENTS = ("", "coder", "subagent")  # the agents of a run
_LONGEST = 60  # characters of a name that may be a slip of another
_MOST = 5  # names of a rule, and of a run's rules, that are told of


def check_names(rule: PermissionRule) -> PermissionRule:
    """Return the rule if the tools and categories that it names exist.

    Raises:
        RuleFileError: one does not; it says what may be meant, and what there is.
    """
    for kind, name in _find_unknown(rule):
        raise RuleFileError(_describe(kind, name), hint=_list_known(kind))
    return rule


def find_unknown_tool(name: str) -> tuple[str, ...]:
    """Describe a tool that does not exist; empty if it does."""
    return () if _is_known("tool", name) else (_describe("tool", name),)


def find_unknown_names(rule: PermissionRule) -> tuple[str, ...]:
    """Describe the first names in a rule that do not exist.

    A rule for an agent of another program may name any tool.
    """
    if rule.agent not in _AGENTS or rule.is_expired:
        return ()
    return tuple(_describe(kind, name) for kind, name in islice(_find_unknown(rule), _MOST))


def warn_of_unknown_names(rules: Iterable[PermissionRule]) -> tuple[str, ...]:
    """Describe the names in rules that do not exist, a line each, and where they stand."""
    found = (
        f"{shorten_home(one_line(rule.source))}: the rule {one_line(repr(rule.id))}: {fault}"
        for rule in rules
        for fault in find_unknown_names(rule)
    )
    first = tuple(islice(found, _MOST))
    return (*first, "rules name more that does not exist") if any(found) else first


_READERS = {"Read", "Grep", "Glob"}


def warn_of_narrow_denials(rules: Sequence[PermissionRule]) -> tuple[str, ...]:
    """Describe the denials that keep files from tools which read, and not from commands."""
    denials = [each for each in rules if each.decision is RuleDecision.DENY and not each.is_expired]
    whole = {path for each in denials if not any(_list_names(each)) for path in each.matcher.path}
    found = (
        f"{shorten_home(one_line(rule.source))}: {one_line(str(rule.matcher))} denies"
        f" {' and '.join(rule.matcher.tool)} alone, and commands may still read such files; deny"
        f" '*(path:{one_line(rule.matcher.path[0])})' to keep them from every tool"
        for rule in denials
        if rule.matcher.tool and _READERS.issuperset(rule.matcher.tool)
        if not whole.issuperset(rule.matcher.path)
    )
    return tuple(islice(found, _MOST))


def _list_names(rule: PermissionRule) -> Iterator[str]:
    for _, names in _names(rule):
        yield from names


def has_known_names(rule: PermissionRule) -> bool:
    """Whether a rule is about any tool that exists."""
    return all(
        not names or any(_is_known(kind, name) for name in names) for kind, names in _names(rule)
    )


def _find_unknown(rule: PermissionRule) -> Iterator[tuple[str, str]]:
    for kind, names in _names(rule):
        yield from ((kind, name) for name in names if not _is_known(kind, name))


def _names(rule: PermissionRule) -> tuple[tuple[str, Sequence[str]], ...]:
    return (("tool", rule.matcher.tool), ("category", rule.matcher.category))


def _is_known(kind: str, name: str) -> bool:
    return name in _KNOWN[kind] or (kind == "tool" and name.startswith(_SERVER))


def _describe(kind: str, name: str) -> str:
    known = {each.casefold(): each for each in _KNOWN[kind]}
    near = get_close_matches(name.casefold(), known, 1) if len(name) <= _LONGEST else ()
    meant = f"; did you mean {known[near[0]]}?" if near else ""
    return f"there is no {kind} {one_line(repr(name))}{meant}"


def _list_known(kind: str) -> str:
    plural = {"tool": "tools", "category": "categories"}[kind]
    return f"the {plural} are {', '.join(_KNOWN[kind])}"
