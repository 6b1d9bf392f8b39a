"""Nothing that is allowed does what the rules deny, or more than read: traced in a container.

GREENROOM_TRACED is how many commands are generated (CONTRIBUTING.md has the long run), and
GREENROOM_TRACED_SEED the seed, which is printed.
"""

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.absent_programs import explain_absence
from tests.conftest import few
from tests.permissions.tables import read_table
from tests.permissions.traced import (
    container,
    names,
    options,
    places,
    programs,
    repositories,
    syntax,
    workspaces,
)
from tests.permissions.traced.judging import READ_ONLY, Case, judge, run_of, trace

COUNT = int(os.environ.get("GREENROOM_TRACED", "400"))
SEED = int(os.environ.get("GREENROOM_TRACED_SEED", "0"))
SHARES = {options: 0.35, syntax: 0.25, programs: 0.16, names: 0.12, places: 0.12}
if COUNT > 5000:  # these take long to make, and have a test of their own
    SHARES[repositories] = 0.05
LEAST = 0.12  # of the generator of options


@pytest.fixture(scope="module")
def base():
    """Furnish a base, not below /tmp, which is empty in the container."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="greenroom-traced-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def folders(base):
    """Build the workspaces, and set the environment in which commands are judged and run."""
    found = workspaces.build(base)
    if repositories in SHARES:
        found |= repositories.build(base)
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(("GIT_", "LC_", "TMP", "XDG_", "CDPATH")):
                patch.delenv(name)
        for name, value in workspaces.environment(base).items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def confined(folders):
    """Skip where commands can't be kept from doing harm to the machine."""
    why = explain_absence("strace") or explain_absence("unshare")
    if why or not container.is_usable():
        pytest.skip(why or "this machine refuses namespaces")
    return folders


def generate(module, count, seed):
    """Make up different commands; the same seed gives the same ones on the same machine."""
    choose, found = random.Random(seed), {}
    for _ in range(10 * count):
        case = module.generate(choose)
        found.setdefault((case.rules, case.text, case.workspace), case)
        if len(found) == count:
            break
    return list(found.values())


def test_nothing_that_is_allowed_does_what_the_rules_forbid(confined, base):
    print(f"GREENROOM_TRACED_SEED={SEED}")
    cases = [
        case
        for module, share in SHARES.items()
        for case in generate(module, round(COUNT * share), SEED)
    ]
    runs, failed = judge(cases, confined)
    _print_shares(cases, runs)
    found = [*failed, *trace(runs, confined, base)]
    found.sort(key=lambda each: len(each.case.text))
    print(*found, sep="\n")
    assert [str(each) for each in found] == []


def _print_shares(cases, runs):
    made = Counter(case.generator for case in cases)
    allowed = Counter(run.case.generator for run in runs)
    for name, count in made.items():
        print(f"{name}: {count} commands, {allowed[name] / count:.0%} of them allowed")


def test_enough_commands_of_all_options_are_allowed(folders):
    cases = generate(options, max(COUNT // 4, 300), SEED + 1)
    runs, _ = judge(cases, folders)
    assert len(runs) >= LEAST * len(cases)


def test_what_a_command_does_is_noticed(confined, base):
    words = read_table("traced/words")
    harmful, harmless = words["seen to do harm"], words["seen to do none"]
    cases = [Case("control", READ_ONLY, text) for text in (*harmful, *harmless)]
    found = trace(list(map(run_of, cases)), confined, base)
    assert [each.case.text for each in found] == list(harmful)


def test_most_of_what_the_tables_hold_would_do_harm(confined, base):
    known = [
        Case("p", programs.rules_of(name), text)
        for name, rows in programs.table().items()
        for text in rows
    ]
    table = read_table("traced/places")
    known += [
        Case("p", places.BROAD, text) for kind in ("reading", "writing") for text in table[kind]
    ]
    known += [Case("p", READ_ONLY, text) for text in table["prying"]]
    sample = random.Random(SEED).sample(known, few(150))
    found = trace(list(map(run_of, sample)), confined, base)
    assert len(found) > len(sample) / 2  # a machine may lack some of the programs
