"""Anything at any moment: whatever agents do and is done to them, the runtime keeps its promises.

Random programs: `chaos/world.py` says what happens in them, `chaos/faults.py` what fails around
them, and `chaos/books.py` what must be true of them. GREENROOM_CHAOS is how many run, and
GREENROOM_CHAOS_SEED the first seed, which is printed (CONTRIBUTING.md has the long run).
"""

from collections import Counter

import pytest

from tests.runtime.chaos.effort import PROGRAMS, SEED
from tests.runtime.chaos.faults import FaultyFamily, FaultyTree
from tests.runtime.chaos.run import find_violation
from tests.runtime.chaos.world import Family, Tree

KINDS = [Family, Tree, FaultyFamily, FaultyTree]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Async generator")
def test_whatever_happens_the_books_balance(kind):
    print(f"GREENROOM_CHAOS_SEED={SEED}")
    tally = Counter()
    found = [find_violation(kind, seed, tally) for seed in range(SEED, SEED + PROGRAMS)]
    print(f"{PROGRAMS} programs:", ", ".join(f"{tally[what]} × {what}" for what in sorted(tally)))
    assert [problem for problem in found if problem] == []
