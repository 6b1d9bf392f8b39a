"""The store in PostgreSQL passes the suite of all stores; a quick run takes every fourth check."""

import pytest
import trio

from greenroom.testing._internal import SESSION_STORE_CHECKS
from tests.conftest import take_sample


@pytest.mark.parametrize("check", take_sample(SESSION_STORE_CHECKS, 4))
async def test_it_passes(check, postgres):
    with trio.fail_after(60):
        await check(postgres)
