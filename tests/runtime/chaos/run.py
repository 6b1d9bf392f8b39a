"""Runs random programs, each the same every time: by its seed alone."""

import logging
import traceback
from contextlib import contextmanager

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock

from greenroom.core._internal import describe_error
from greenroom.core.message import seed_ids
from greenroom.runtime.output_ring import OutputRing
from greenroom.runtime.restarts import Supervision
from tests.runtime.chaos.books import expect


class Restarts:
    """What every supervisor has counted, kept apart from its own window."""

    def __init__(self):
        self._times = {}

    def watch(self, patch):
        count = Supervision._count

        def counting(supervision, culprit, who):
            admitted = count(supervision, culprit, who)
            if admitted is not None:
                key = (supervision, supervision.restarts)
                self._times.setdefault(key, []).append(trio.current_time())
            return admitted

        patch.setattr(Supervision, "_count", counting)

    def audit(self):
        for (supervision, _), times in self._times.items():
            for moment in times:
                window = supervision.window
                inside = [each for each in times if 0 <= moment - each <= window.period]
                expect(
                    len(inside) <= window.intensity, "restarts stay within the intensity", inside
                )


def _keep_all_chunks(patch):
    """Keep what a ring forgets, so that the books can be audited in the end."""
    append = OutputRing.append

    def appending(ring, chunk):
        append(ring, chunk)
        vars(ring).setdefault("published", []).append(chunk)

    patch.setattr(OutputRing, "append", appending)


@contextmanager
def _repeatable(seed):
    """Let trio schedule, and ids be made, by the seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        _run._r.seed(seed)
        seed_ids(seed)
        logging.disable(logging.CRITICAL)
        try:
            yield patch
        finally:
            logging.disable(logging.NOTSET)
            seed_ids(None)


def find_violation(kind, seed, tally=None):
    """Run one program and say what was not kept; empty where all was.

    What a program raises may be impossible to print, so that pytest must not see it.
    """
    restarts = Restarts()
    with _repeatable(seed) as patch:
        world = kind(seed)
        restarts.watch(patch)
        _keep_all_chunks(patch)
        try:
            trio.run(world.run, clock=MockClock(autojump_threshold=0), instruments=[world.tasks])
            restarts.audit()
        except BaseException as error:
            frames = "".join(traceback.format_tb(error.__traceback__, limit=-3))
            return f"{kind.__name__} {seed}: {describe_error(error)}\n{frames}"
    if tally is not None:
        tally.update(world.tally)
    return ""
