"""The checks of this folder can fail: each notices a store that is wrong in its way.

The store as it is passes the same checks, to the last seed, in `test_power_cuts` and `test_damage`.
"""

import pytest

from greenroom.core import SessionError
from tests.session.faults.damage import cut_at_every_byte, flip_every_bit, splice
from tests.session.faults.life import Fault, cut_all, empty_in_vain
from tests.session.faults.mutants import CAUGHT_BY, living
from tests.session.faults.simulated_disk import MODELS


async def power_cuts(failing=False):
    for model in MODELS:
        await cut_all(model, failing=failing)


async def failing_disks():
    await power_cuts(failing=True)


CHECKS = {
    "power cuts": power_cuts,
    "failing disks": failing_disks,
    "emptied in vain": empty_in_vain,
    "bit flips": flip_every_bit,
    "splices": splice,
    "truncations": cut_at_every_byte,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("mutant", CAUGHT_BY, ids=lambda mutant: mutant.__name__)
async def test_a_store_with_this_mistake_is_noticed(mutant):
    with living(mutant), pytest.raises((Fault, SessionError)):
        await CHECKS[CAUGHT_BY[mutant]]()
