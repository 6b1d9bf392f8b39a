"""Runs that can be repeated: the same tasks in the same order, the same ids."""

import importlib
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from greenroom.core import seed_ids

__all__ = ["repeatable"]

_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"


@contextmanager
def repeatable(seed: int, run: str = "") -> Iterator[None]:
    """Let `trio.run` schedule by this seed in the block, and make ids that only this run has.

    trio shuffles its tasks on purpose, and has one switch that makes the order repeatable, which its
    plugin for Hypothesis throws. The switch is not public: in a trio without it runs stay shuffled,
    and the number of a checkpoint means the same one most of the time.
    """
    scheduler = vars(importlib.import_module("trio._core._run"))
    shuffler: object = scheduler.get("_r")
    seed_ids(zlib.crc32(f"{seed} {run}".encode()))
    try:
        if isinstance(shuffler, random.Random) and _SWITCH in scheduler:
            with _seeded(shuffler, seed, scheduler):
                yield
        else:
            yield
    finally:
        seed_ids(None)


@contextmanager
def _seeded(shuffler: random.Random, seed: int, scheduler: dict[str, object]) -> Iterator[None]:
    before, state = scheduler[_SWITCH], shuffler.getstate()
    scheduler[_SWITCH] = True
    shuffler.seed(seed)
    try:
        yield
    finally:
        scheduler[_SWITCH] = before
        shuffler.setstate(state)
