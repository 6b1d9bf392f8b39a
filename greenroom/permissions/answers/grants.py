"""Answers that hold for one session: how they are kept with it, and what is believed of them.

A kept answer is a JSON object: decision and matchers as in a rule file, with the session and the
folder that it was given for. Nothing else is believed of it, such as that it be final.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from greenroom.core import RuleDecision, RuleFileError, serde
from greenroom.permissions.rule_files.rule_file import encode_rule, parse_rules
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule, RuleScope

ANSWER = "prompt"  # the `created_by` of rules that were made of a person's answer
_SOURCE = "an answer in this session"
_SAYS = {"decision", "tool", "command_prefix", "argv_exact", "path", "domain", "redirect_to"}
_SHOWN = 200  # characters of an answer that can't be read


class GrantKeeper(Protocol):
    """What a session has to be, so that the answers remembered for it are kept in it."""

    @property
    def session_id(self) -> str:
        """Its id."""

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """What was kept, in order."""

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Keep these, too."""

    def revoke_grants(self) -> None:
        """Keep none of them any longer."""


def encode_grants(rules: Iterable[PermissionRule], root: str | Path) -> list[dict[str, object]]:
    """Turn the rules of an answer into what is kept, with the folder that it was given for."""
    return [
        {name: said for name, said in encode_rule(rule).items() if name in _SAYS}
        | {"session": rule.session, "workspace": str(root)}
        for rule in rules
    ]


def read_grants(
    grants: Iterable[dict[str, object]], session_id: str, root: str | Path
) -> tuple[tuple[PermissionRule, ...], tuple[str, ...]]:
    """Read what was kept: the rules that hold in this folder, and a line for each that does not."""
    rules, notes = list[PermissionRule](), list[str]()
    for grant in grants:
        try:
            rule = _read(grant, session_id)
        except RuleFileError as error:
            note = f"a remembered answer does not hold: {error.message}: {str(grant)[:_SHOWN]}"
            if grant.get("decision") != "allow":
                # It may have forbidden anything, so nothing of this session runs unasked.
                question = answered(RuleDecision.ASK, RuleMatcher(all=True))
                rules.append(question.within(session_id))
                note += "; every call is asked about"
            notes.append(note)
            continue
        if rule.decision is RuleDecision.ALLOW and grant["workspace"] != str(root):
            notes.append(f"a remembered answer holds in {grant['workspace']} only: {rule}")
        else:
            rules.append(rule)
    return tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(notes))


def _read(grant: Mapping[str, object], session_id: str) -> PermissionRule:
    if further := sorted(grant.keys() - _SAYS - {"session", "workspace"}):
        raise RuleFileError(f"{further[0]!r} is nothing that an answer says")
    if grant.get("session") != session_id or not isinstance(grant.get("workspace"), str):
        raise RuleFileError("it was not given for this session")
    said = {name: grant[name] for name in _SAYS & grant.keys()}
    (rule,) = parse_rules(serde.dumps({"version": 1, "rules": [said]}).decode(), _SOURCE)
    if not rule.matcher.tool:
        raise RuleFileError("it names no tool")
    return answered(rule.decision, rule.matcher).within(session_id)


def answered(decision: RuleDecision, matcher: RuleMatcher) -> PermissionRule:
    """Make the rule that an answer adds; it holds in all sessions until it is put within one."""
    return PermissionRule(
        decision=decision, matcher=matcher, scope=RuleScope.USER, created_by=ANSWER, source=_SOURCE
    )
