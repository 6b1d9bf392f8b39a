"""Bugs of many kinds are found, each by the invariant for it, and with the right reason."""

import os

import pytest

from greenroom.testing import cancel_at_every_checkpoint
from greenroom.testing.fuzz import FuzzError
from tests.testing.fuzz.planted_bugs import PLANTED

EVERYWHERE = os.environ.get("GREENROOM_FUZZ") == "all"


@pytest.mark.every(6)
@pytest.mark.parametrize(("make", "mode", "invariant", "says"), PLANTED.values(), ids=PLANTED)
def test_a_planted_bug_is_found_with_its_reason(make, mode, invariant, says):
    with pytest.raises(FuzzError) as found:
        cancel_at_every_checkpoint(make, modes=[mode], at_most=None if EVERYWHERE else 12)
    said = [each.message for each in found.value.report.violations if each.invariant == invariant]
    assert any(says in message for message in said), str(found.value)
