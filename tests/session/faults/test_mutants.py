"""The checks of this folder can fail: each notices a store that is wrong in its way."""

import pytest

from greenroom.core import SessionError
from tests.session.faults.damage import cut_at_every_byte, flip_every_bit, splice
from tests.session.faults.life import Fault, cut
from tests.session.faults.mutants import CAUGHT_BY, living


async def power_cuts(failing=False):
    for seed in range(1000):
        for model in ("strict", "ordered"):
            await cut(model, seed, failing=failing)


async def failing_disks():
    await power_cuts(failing=True)


CHECKS = {
    "power cuts": power_cuts,
    "failing disks": failing_disks,
    "bit flips": flip_every_bit,
    "splices": splice,
    "truncations": cut_at_every_byte,
}


@pytest.mark.parametrize("mutant", CAUGHT_BY, ids=lambda mutant: mutant.__name__)
async def test_a_store_with_this_mistake_is_noticed(mutant):
    with living(mutant), pytest.raises((Fault, SessionError)):
        await CHECKS[CAUGHT_BY[mutant]]()
