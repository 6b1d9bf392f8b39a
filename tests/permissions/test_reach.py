"""In real bash, nothing allowed reaches a denied file, a denied program or a protected place.

GREENROOM_BASH_CASES is how many commands are generated (CONTRIBUTING.md has the long run), and
GREENROOM_BASH_SEED the seed, which is printed.
"""

import os
from itertools import chain

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager
from tests.permissions.bash_oracle import sandbox
from tests.permissions.reach import (
    HARMLESS,
    HIDING,
    PRYING,
    READING,
    RUNNING,
    SEEDS,
    SPLICES,
    WRITING,
    Attempt,
    generate,
    rules,
)
from tests.permissions.reach_oracle import Project

CASES = int(os.environ.get("GREENROOM_BASH_CASES", "800"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "0"))
BROAD = PermissionManager(rules())
FINAL = PermissionManager(rules(final=True))
WHOLE = PermissionManager(rules(tool=True))
GUARDED = PermissionManager(rules()[2:])
BUILT_IN = PermissionManager()
CARELESS = PermissionManager(mode="bypass")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("reach")).build()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in project.environment.items():
            patch.setenv(name, value)
        yield project


@pytest.fixture(scope="module")
def confined(project):
    """Skip where commands can't be kept from doing harm to the machine."""
    if not sandbox(project.folder):
        pytest.skip("there is no bubblewrap here")
    return project


@pytest.fixture(scope="module")
def attempts():
    print(f"GREENROOM_BASH_SEED={SEED}")
    return [*(Attempt(seed, seed, ()) for seed in SEEDS), *generate(CASES, SEED)]


def allows(manager, project, text):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(project.root))
    return manager.check("Bash", {"command": text}, context) is RuleDecision.ALLOW


def harm(attempt, reached, manager):
    """Say what a command reached that these rules do not allow.

    A rule for the whole tool allows protected places to be written by programs, and the scripts and
    options of other programs to run what they like, as far as no denial can be seen in them. What
    runs without any rule reads in the workspace, and does nothing else.
    """
    ran = ["evil"] if reached.ran else []
    if manager is WHOLE:
        hidden = attempt.seed in (*HIDING, *PRYING)
        return () if hidden else (*reached.read, *reached.denied, *ran)
    if manager is BUILT_IN:
        return (*reached.changed, *ran, *(["outside"] if reached.left else []))
    if manager is GUARDED:
        return (*reached.read, *ran)
    if attempt.seed in PRYING:  # git notes its own settings, and reads whole folders
        return ran
    return (*reached.read, *reached.written, *ran)


def harmed(attempts, project, *managers):
    """Run what is allowed by one of the managers; say what does harm, the shortest first."""
    allowed = {
        attempt: [each for each in managers if allows(each, project, attempt.text)]
        for attempt in attempts
    }
    allowed = {attempt: found for attempt, found in allowed.items() if found}
    reached = project.reached_by(attempt.text for attempt in allowed)
    print(f"{len(allowed)} of {len(attempts)} commands are allowed")
    found = {
        attempt.text
        for (attempt, by), result in zip(allowed.items(), reached, strict=True)
        if any(harm(attempt, result, manager) for manager in by)
    }
    print("\n".join(map(repr, sorted(found, key=len))))
    return sorted(found, key=len)


def test_nothing_that_is_allowed_reaches_what_is_not(confined, attempts):
    assert harmed(attempts, confined, BROAD, FINAL, WHOLE) == []


def test_what_runs_without_any_rule_only_reads_in_the_workspace(confined, attempts):
    assert harmed(attempts, confined, BUILT_IN, GUARDED) == []


def test_what_is_spliced_would_do_harm(confined):
    for seeds in (READING, RUNNING, HIDING, WRITING, PRYING):
        reached = confined.reached_by(seeds[::2])
        does = [bool(each or each.changed or each.left) for each in reached]
        # A machine may lack some of the programs.
        assert sum(does) > 0.75 * len(does)


def test_a_manager_that_allows_everything_is_noticed(confined, attempts):
    sample = [each for each in attempts if each.splices and each.seed not in PRYING]
    sample = sample[:: len(sample) // 100]
    assert len(harmed(sample, confined, CARELESS)) > 0.6 * len(sample)


def test_plain_commands_are_allowed_by_the_same_rules(project):
    for manager in (BROAD, FINAL):
        assert [text for text in HARMLESS if not allows(manager, project, text)] == []


def test_plain_commands_reach_nothing(confined):
    assert not any(confined.reached_by(HARMLESS))


def test_every_word_of_every_command_is_tried_in_every_way(attempts):
    assert {attempt.seed for attempt in attempts} == set(SEEDS)
    assert set(chain.from_iterable(each.splices for each in attempts)) == {
        each.template for each in SPLICES
    }
