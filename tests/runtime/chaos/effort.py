"""How many random programs run: a few with every run of the tests, thousands when asked.

    GREENROOM_CHAOS=long pytest tests/runtime/test_chaos.py

runs 3,000 of each kind, from a seed of its own that it prints. GREENROOM_CHAOS may be a number, and
GREENROOM_CHAOS_SEED repeats a run: with GREENROOM_CHAOS=1 a single program.
"""

import os
import secrets

_GIVEN = os.environ.get("GREENROOM_CHAOS", "20")
IS_LONG = _GIVEN == "long"
PROGRAMS = 3_000 if IS_LONG else int(_GIVEN)
SEED = int(os.environ.get("GREENROOM_CHAOS_SEED", secrets.randbits(32) if IS_LONG else 0))
