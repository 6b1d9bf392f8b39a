"""No correct tool or agent is accused, in any mode."""

import os

import pytest

from greenroom.testing import cancel_at_every_checkpoint
from greenroom.testing.fuzz import MODES
from tests.conftest import few
from tests.testing.fuzz.careful_tools import CAREFUL

EVERYWHERE = os.environ.get("GREENROOM_FUZZ") == "all"


@pytest.mark.every(4)
@pytest.mark.parametrize(("make", "real_time"), CAREFUL.values(), ids=CAREFUL)
def test_what_is_careful_is_not_accused(make, real_time):
    report = cancel_at_every_checkpoint(
        make,
        at_most=None if EVERYWHERE else few(20),
        real_time=real_time,
    )
    assert set(report.cancels) == set(MODES)
    assert report.violations == ()
