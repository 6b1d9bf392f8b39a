"""Power cuts on a disk that forgets: what a save has returned for is there, once, and is whole."""

import pytest

from tests.session.faults.effort import SEED, tries
from tests.session.faults.life import cut
from tests.session.faults.simulated_disk import MODELS

LIVES = tries(400, 17_500)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("failing", [False, True], ids=["sound disk", "failing disk"])
async def test_a_power_cut_takes_nothing_that_was_acknowledged(model, failing, capsys):
    """Each session is cut off at a chosen operation, or has one fail, three times over."""
    cuts = 0
    for seed in range(SEED, SEED + LIVES):
        try:
            cuts += await cut(model, seed, failing=failing)
        except Exception as error:
            error.add_note(f"seed {seed} on the {model} model, failing: {failing}")
            raise
    assert cuts > LIVES
    with capsys.disabled():
        print(f" {cuts} power cuts from seed {SEED}", end="")
