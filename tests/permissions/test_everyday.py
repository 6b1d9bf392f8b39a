"""How much a developer is asked in a day: about half of it at first, and hardly anything later."""

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager
from tests.permissions.everyday import ASKS, COMMANDS, JAVASCRIPT, PYTHON, READS, build

ALLOW, ASK = RuleDecision.ALLOW, RuleDecision.ASK


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
        root = build(folder / "project")
        yield AgentContext(session_id="s", agent_type="coder", workspace=Workspace(root))


def asked(manager, context, commands=COMMANDS):
    return [text for _, text in commands if decide(manager, context, text) is not ALLOW]


def decide(manager, context, text):
    return manager.check("Bash", {"command": text}, context)


def test_what_only_reads_runs_unasked_and_nothing_else_does(context):
    manager = PermissionManager()
    found = {text: decide(manager, context, text) for _, text in COMMANDS}
    assert [text for mark, text in COMMANDS if mark == READS and found[text] is not ALLOW] == []
    assert [text for mark, text in COMMANDS if mark == ASKS and found[text] is not ASK] == []


def test_at_most_half_of_a_day_is_asked_about(context):
    assert len(PYTHON) + len(JAVASCRIPT) == 86
    assert len(asked(PermissionManager(), context)) <= 45


def test_who_answers_always_is_hardly_asked_again(context):
    manager = PermissionManager()
    for text in asked(manager, context):
        explanation = manager.explain("Bash", {"command": text}, context)
        if explanation.decision is ASK:
            manager.remember(explanation, ALLOW, "always", context)
    again = asked(manager, context)
    print(f"{len(again)} are asked about again", *again, sep="\n")
    assert len(again) <= 10
