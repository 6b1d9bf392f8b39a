"""Nothing that is allowed reaches a denied file, a denied program or a protected place in real bash.

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

CASES = int(os.environ.get("GREENROOM_BASH_CASES", "1000"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "0"))
BROAD = PermissionManager(rules())
FINAL = PermissionManager(rules(final=True))
WHOLE = PermissionManager(rules(tool=True))
CARELESS = PermissionManager(mode="bypass")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reach")
    if not sandbox(folder):
        pytest.skip("there is no bubblewrap here")
    project = Project(folder).build()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in project.environment.items():
            patch.setenv(name, value)
        yield project


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
    options of other programs to run what they like, as far as no denial can be seen in them.
    """
    if manager is WHOLE:
        ran = reached.ran and attempt.seed not in HIDING
        return (*reached.read, *reached.denied, *(["evil"] if ran else []))
    return (*reached.read, *reached.written, *(["evil"] if reached.ran else []))


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


def test_nothing_that_is_allowed_reaches_what_is_not(project, attempts):
    assert harmed(attempts, project, BROAD, FINAL, WHOLE) == []


def test_what_is_spliced_would_do_harm(project):
    reached = dict(zip(SEEDS, project.reached_by(SEEDS), strict=True))
    for seeds in (READING, RUNNING, HIDING, WRITING):
        does = [bool(reached[seed]) for seed in seeds if seed in reached]
        # A machine may lack some of the programs.
        assert sum(does) > 0.75 * len(does)


def test_a_manager_that_allows_everything_is_noticed(project, attempts):
    sample = attempts[len(SEEDS) :: CASES // 100]
    assert len(harmed(sample, project, CARELESS)) > 0.6 * len(sample)


@pytest.mark.parametrize("text", HARMLESS)
def test_plain_commands_are_allowed_by_the_same_rules(project, text):
    assert allows(BROAD, project, text)
    assert allows(FINAL, project, text)


def test_plain_commands_reach_nothing(project):
    assert not any(project.reached_by(HARMLESS))


def test_every_word_of_every_command_is_tried_in_every_way(attempts):
    assert {attempt.seed for attempt in attempts} == set(SEEDS)
    assert set(chain.from_iterable(each.splices for each in attempts)) == {
        each.template for each in SPLICES
    }
