"""How much the fault tests try: a little with every run of the tests, a lot when asked.

    GREENROOM_FAULTS=long pytest tests/session/faults

tries for minutes, from a seed of its own that it prints; GREENROOM_FAULTS_SEED repeats a run. A
quick run (`GREENROOM_EXAMPLES=10`) takes every fifth of what is otherwise tried exhaustively.
"""

import os
import secrets

STEP = 5 if int(os.environ.get("GREENROOM_EXAMPLES", "10")) < 100 else 1
IS_LONG = os.environ.get("GREENROOM_FAULTS") == "long"
SEED = int(os.environ.get("GREENROOM_FAULTS_SEED", secrets.randbits(32) if IS_LONG else 0))


def tries(fast, long):
    """Return how often to try."""
    return long if IS_LONG else fast
