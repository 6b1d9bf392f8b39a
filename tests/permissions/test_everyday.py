"""How much developers are asked in a day: half of it at first, and hardly anything later.

And what they may choose for that allows nothing harmful.
"""

import os

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.git._internal import GitAnswer
from greenroom.permissions import PermissionManager
from greenroom.programs._internal import FIRST_WORDS
from tests.permissions.developers import DEVELOPERS, PROGRAMS
from tests.permissions.everyday import ASKS, COMMANDS, JAVASCRIPT, PYTHON, READS, build
from tests.permissions.harmful import OTHER, RISKY, lines

ALLOW, ASK = RuleDecision.ALLOW, RuleDecision.ASK


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    programs = {
        *PROGRAMS,
        *(row[0] for row in FIRST_WORDS),
        "curl",
        "frob",
        "node",
        "npx",
        "python",
    }
    (folder / "bin").mkdir()
    for name in programs - {"cd", "echo"}:
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
        root = build(folder / "project")
        for name in ("next", "playwright"):
            (root / "node_modules" / ".bin" / name).touch()
        patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
        yield AgentContext(session_id="s", agent_type="coder", workspace=Workspace(root))


def asked(manager, context, texts):
    return [text for text in texts if decide(manager, context, text) is not ALLOW]


def decide(manager, context, text):
    missing = manager.judge("Bash", {"command": text}, context).missing_answers
    answers = {folder: GitAnswer() for folder in missing}
    return manager.check("Bash", {"command": text}, context, git=answers)


def answer_always(manager, context, texts, *, prefix):
    """Answer every question with an always; return those for which a prefix was offered."""
    offered = set()
    for text in texts:
        found = manager.explain("Bash", {"command": text}, context)
        if found.decision is ASK:
            manager.remember(found, ALLOW, "always", context, prefix=prefix)
            offered.update([text] if found.prefixes else [])
    return offered


DAY = [text for _, text in COMMANDS]
HUNDRED = [text for text, _ in DEVELOPERS]


def test_what_only_reads_runs_unasked_and_nothing_else_does(context):
    manager = PermissionManager()
    found = {text: decide(manager, context, text) for _, text in COMMANDS}
    assert [text for mark, text in COMMANDS if mark == READS and found[text] is not ALLOW] == []
    assert [text for mark, text in COMMANDS if mark == ASKS and found[text] is not ASK] == []


def test_at_most_half_of_a_day_is_asked_about(context):
    assert len(PYTHON) + len(JAVASCRIPT) == 86
    assert len(asked(PermissionManager(), context, DAY)) <= 45


@pytest.mark.parametrize(("texts", "most"), [(DAY, 10), (HUNDRED, 5)], ids=["day", "hundred"])
@pytest.mark.parametrize("prefix", [False, True])
def test_who_answers_always_is_hardly_asked_again(context, texts, most, prefix):
    manager = PermissionManager()
    answer_always(manager, context, texts, prefix=prefix)
    again = asked(manager, context, texts)
    print(f"{len(again)} are asked about again", *again, sep="\n")
    assert len(again) <= most


def test_who_chooses_prefixes_is_not_asked_about_the_next_command_of_its_kind(context):
    manager = PermissionManager()
    offered = answer_always(manager, context, HUNDRED, prefix=True)
    assert (len(DEVELOPERS), len(offered)) >= (100, 80)
    assert asked(manager, context, [next_ for text, next_ in DEVELOPERS if text in offered]) == []


@pytest.fixture(scope="module")
def prefixes(context):
    """Every prefix rule that may be offered: one for each row, and for those of the lists."""
    names = {"*": "ec2", "describe-*": "describe-images", "list-*": "list-users"}
    rows = [" ".join(names.get(word, word) for word in row) for row in FIRST_WORDS]
    led = [f"{lead} {row}" for lead in ("npx", "uv run", "python -m") for row in rows]
    manager = PermissionManager(read_only=False)
    texts = (*DAY, *HUNDRED, *rows, *led, "frob serve", "ls | xargs cat", "ls | xargs grep x")
    found = (manager.explain("Bash", {"command": text}, context).prefixes for text in texts)
    return {rule for rules in found for rule in rules if rule.matcher.command_prefix}


def test_there_is_a_prefix_for_every_row(prefixes):
    assert len(prefixes) > len(FIRST_WORDS)


def test_no_prefix_allows_a_command_that_is_known_for_harm(context, prefixes):
    manager = PermissionManager(prefixes)
    assert len(lines(OTHER)) + len(lines(RISKY)) > 500
    harmful = [text for text in lines(OTHER) if decide(manager, context, text) is ALLOW]
    assert harmful == []


def test_no_prefix_allows_a_risky_option(context, prefixes):
    manager = PermissionManager(prefixes)
    harmful = [text for text in lines(RISKY) if decide(manager, context, text) is ALLOW]
    assert harmful == []
