"""Which rows of a table of terminals a run takes: a few, or with `GREENROOM_MATRIX=1` all."""

import os

IS_WHOLE = "GREENROOM_MATRIX" in os.environ
SIZES = [(24, 80), (44, 100), (60, 200)]  # lines and columns


def sample(rows, count=1):
    """Return the first rows, or all."""
    return list(rows) if IS_WHOLE else list(rows)[:count]
