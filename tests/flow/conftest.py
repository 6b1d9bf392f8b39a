"""What several tests of plans, workflows and teams need."""

from datetime import UTC, datetime

import pytest

from greenroom.core._internal import set_clock


@pytest.fixture
def stopped_clock():
    """Let the wall clock stand still: times are part of records."""
    moment = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)
    set_clock(lambda: moment)
    yield moment
    set_clock(None)
