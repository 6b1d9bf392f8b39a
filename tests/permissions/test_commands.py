import importlib.util
from pathlib import Path

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager

_spec = importlib.util.spec_from_file_location("commands", Path(__file__).with_name("commands.py"))
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

MANAGER = PermissionManager(table.RULES)
CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))


def decide(command):
    return MANAGER.explain("Bash", {"command": command}, CONTEXT)


@pytest.mark.parametrize("command", table.commands(table.ALLOWED))
def test_a_command_is_allowed_when_every_part_is(command):
    explanation = decide(command)
    assert explanation.decision is RuleDecision.ALLOW, explanation.reason


@pytest.mark.parametrize("command", table.commands(table.ASKED))
def test_a_command_with_an_open_part_is_asked_about(command):
    explanation = decide(command)
    assert explanation.decision is RuleDecision.ASK, explanation.reason


@pytest.mark.parametrize("command", table.commands(table.DENIED))
def test_a_command_with_a_denied_part_is_denied(command):
    explanation = decide(command)
    assert explanation.decision is RuleDecision.DENY, explanation.reason


@pytest.mark.parametrize("command", [".", "source", "uv run ruff check .", "npx x source"])
def test_a_program_without_the_word_that_it_needs_is_judged_like_any_other(command):
    assert decide(command).decision is RuleDecision.ASK
