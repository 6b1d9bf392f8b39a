"""The answers that are remembered for one session: how they are stored with it, and read again.

A stored answer is a JSON object: decision and matchers as in a rule file, with the session and the
folder that it was given for. It may not say anything else, such as that it is final.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from greenroom.core import RuleDecision, RuleFileError
from greenroom.core._internal import serde
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.rule import PermissionRule, RuleScope
from greenroom.permissions.rule_file import encode_rule, parse_rules

ANSWER = "prompt"  # the `created_by` of rules made from a person's answer
_SOURCE = "an answer in this session"
_FIELDS = {
    *("decision", "tool", "command_prefix", "argv_exact", "path", "domain", "redirect_to"),
    "definition_hash",
}
_MAX_QUOTE = 200  # characters of an invalid answer


class GrantStore(Protocol):
    """The part of a session's conversation that stores answers."""

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """The stored answers, in order."""

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Store more answers."""

    def revoke_grants(self) -> None:
        """Discard all answers."""


class GrantKeeper(Protocol):
    """A session that can store the answers that are remembered for it."""

    @property
    def session_id(self) -> str:
        """The session's id."""

    @property
    def conversation(self) -> GrantStore:
        """The conversation that stores the answers."""


def encode_grants(rules: Iterable[PermissionRule], root: str | Path) -> list[dict[str, object]]:
    """Encode the rules of an answer for a session, with the folder that it was given for."""
    return [
        {name: value for name, value in encode_rule(rule).items() if name in _FIELDS}
        | {"session": rule.session, "workspace": str(root)}
        for rule in rules
    ]


def read_grants(
    grants: Iterable[dict[str, object]], session_id: str, root: str | Path
) -> tuple[tuple[PermissionRule, ...], tuple[str, ...]]:
    """Decode stored answers: the rules that apply in this folder, and a note for each other."""
    rules, notes = list[PermissionRule](), list[str]()
    for grant in grants:
        try:
            rule = _read_grant(grant, session_id)
        except RuleFileError as error:
            note = f"a remembered answer does not hold: {error.message}: {str(grant)[:_MAX_QUOTE]}"
            if grant.get("decision") != "allow":
                # It may have denied anything, so nothing of this session runs without a question.
                question = make_answer(RuleDecision.ASK, RuleMatcher(all=True))
                rules.append(question.within(session_id))
                note += "; every call is asked about"
            notes.append(note)
            continue
        if rule.decision is RuleDecision.ALLOW and grant["workspace"] != str(root):
            notes.append(f"a remembered answer holds in {grant['workspace']} only: {rule}")
        else:
            rules.append(rule)
    return tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(notes))


def _read_grant(grant: Mapping[str, object], session_id: str) -> PermissionRule:
    if further := sorted(grant.keys() - _FIELDS - {"session", "workspace"}):
        raise RuleFileError(f"an answer can't have the field {further[0]!r}")
    if grant.get("session") != session_id or not isinstance(grant.get("workspace"), str):
        raise RuleFileError("it was not given for this session")
    fields = {name: grant[name] for name in _FIELDS & grant.keys()}
    (rule,) = parse_rules(serde.dumps({"version": 1, "rules": [fields]}).decode(), _SOURCE)
    if not rule.matcher.tool:
        raise RuleFileError("it names no tool")
    return make_answer(rule.decision, rule.matcher).within(session_id)


def make_answer(decision: RuleDecision, matcher: RuleMatcher) -> PermissionRule:
    """Make the rule that an answer adds; it applies to every session until it is limited to one."""
    return PermissionRule(
        decision=decision, matcher=matcher, scope=RuleScope.USER, created_by=ANSWER, source=_SOURCE
    )
