"""Every provider passes the one suite that providers of others are held to as well."""

import pytest

from greenroom.testing._internal import provider_checks
from tests.llm.provider_cases import CASES

EVERY = [
    pytest.param(check, case, id=f"{name}-{check.__name__}")
    for name, case in CASES.items()
    for check in provider_checks(case)
]


@pytest.mark.every(4)
@pytest.mark.parametrize(("check", "case"), EVERY)
async def test_a_provider_passes(check, case):
    await check(case)
