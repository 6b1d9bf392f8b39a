"""State that outlives an event loop: right over many loops, one after the other or at once."""

import random
import threading
from contextlib import suppress

import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.core import BudgetExceededError
from greenroom.resilience import (
    Budget,
    CircuitBreaker,
    CircuitOpenError,
    ConcurrencyLimit,
    RateLimit,
)
from greenroom.resilience._internal import CircuitState, Gate
from greenroom.resilience.clock import loop_time, shared_time
from greenroom.resilience.waiting import _Waiter


def virtual(function, *args):
    return trio.run(function, *args, clock=MockClock(autojump_threshold=0))


def in_threads(functions):
    """Run each function in a thread; raise what one of them raised."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(each,), daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    for error in errors:
        raise error


def test_the_clock_goes_on_from_loop_to_loop_and_outside_of_any():
    async def day():
        before = shared_time()
        await trio.sleep(86_400)
        assert shared_time() - before == 86_400
        assert loop_time(shared_time() + 5) == trio.current_time() + 5

    async def moment():
        await trio.lowlevel.checkpoint()
        return shared_time()

    times = [shared_time()]
    for _ in range(3):
        virtual(day)
        times += [shared_time(), trio.run(moment)]
    assert times == sorted(times)
    assert 3 * 86_400 <= times[-1] - times[0] < 3 * 86_400 + 60


steps = st.tuples(st.sampled_from(["fail", "work", "begin"]), st.integers(0, 40))
runs = st.lists(st.lists(steps, max_size=6), min_size=1, max_size=6)


@settings(max_examples=200)
@given(runs, st.booleans())
def test_a_breaker_a_limit_and_a_budget_count_over_many_runs_as_over_one(program, is_virtual):
    breaker = CircuitBreaker("x", failures=2, period=50, cooldown=30)
    limit, budget = RateLimit(requests=3, period=30), Budget(seconds=100)
    scale = 1.0 if is_virtual else 0.0  # a real clock stands still, compared with the limits
    failures, opened, began = [], None, []
    budget.start()
    over = shared_time() + 100

    async def fail():
        raise ConnectionError

    async def step(name, pause):
        nonlocal opened
        await trio.sleep(pause * scale + 0.25 * is_virtual)  # never at the edge of a limit
        assert bool(budget.describe_spent("seconds")) is (shared_time() >= over)
        if name == "begin":
            if len(began) < 3 or is_virtual:
                await limit.acquire()
                began.append(shared_time())
                assert sum(at > shared_time() - 29.9 for at in began) <= 3
            return
        is_open = opened is not None and shared_time() < opened + 30
        assert (breaker.state is CircuitState.OPEN) is is_open
        try:
            await breaker.call(fail if name == "fail" else trio.lowlevel.checkpoint)
        except CircuitOpenError:
            assert is_open
        except ConnectionError:
            assert not is_open
            failures.append(shared_time())
            if opened is not None or (len(failures) > 1 and failures[-1] - failures[-2] <= 50):
                opened = shared_time()
        else:
            assert not is_open
            opened = None
            failures.clear()

    for run in program:

        async def main(run=run):
            for each in run:
                await step(*each)

        (virtual if is_virtual else trio.run)(main)


@pytest.mark.parametrize("block", range(8))
@pytest.mark.every(2)
def test_at_once_in_several_loops_nothing_is_exceeded_lost_or_left_waiting(block):
    for seed in range(25 * block, 25 * block + 25):
        _Program(random.Random(seed)).run()


class _Program:
    """Random rounds of threads, each with a loop, in which tasks use the same objects."""

    def __init__(self, chance):
        self.chance = chance
        self.most, self.requests = chance.randint(1, 3), chance.randint(2, 6)
        self.slots = ConcurrencyLimit(self.most)
        self.rate = RateLimit(requests=self.requests, tokens=1000, period=0.01)
        self.tokens = chance.choice([500, 3000])
        self.budget = Budget(tokens=self.tokens, concurrency=self.most)
        self.breaker = CircuitBreaker("x", failures=2, cooldown=0.005)
        self.gate = Gate()
        self.lock = threading.Lock()
        self.running = self.held = self.spent = 0
        self.began, self.ended = [], 0
        self.ways = [self._slot, self._begin, self._spend, self._call, self._pass]

    def run(self):
        expected = 0
        for _ in range(self.chance.randint(1, 3)):
            tasks = [self.chance.randint(1, 4) for _ in range(self.chance.randint(1, 3))]
            seeds = [[self.chance.random() for _ in range(each)] for each in tasks]
            in_threads([lambda mine=mine: trio.run(self._loop, mine) for mine in seeds])
            expected += sum(tasks)
        assert self.ended == expected
        assert self.slots.is_free
        assert self.rate.statistics().waiting == 0
        statistics = self.budget.statistics()
        assert (statistics.running, statistics.waiting) == (0, 0)
        assert statistics.used["tokens"] == self.spent < self.tokens + 100
        assert self.breaker.statistics().running == 0
        assert self.gate.wait_time() == 0
        times = sorted(self.began)
        for first, last in zip(times, times[self.requests :], strict=False):
            assert last - first > 0.01 - 1e-9

    async def _loop(self, seeds):
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for seed in seeds:
                    nursery.start_soon(self._task, random.Random(seed))

    async def _task(self, chance):
        impatience = chance.choice([60, 60, 0.002])
        for _ in range(chance.randint(1, 3)):
            with trio.move_on_after(impatience):
                await chance.choice(self.ways)(chance)
        with self.lock:
            self.ended += 1

    async def _slot(self, chance):
        async with self.slots:
            with self.lock:
                self.running += 1
                assert self.running <= self.most
            try:
                await trio.sleep(chance.choice([0, 0.0005]))
            finally:
                with self.lock:
                    self.running -= 1

    async def _begin(self, chance):
        reservation = await self.rate.acquire(chance.choice([1, 50]))
        self.began.append(reservation._entry.at)  # not when this task has got round to it
        reservation.settle(chance.choice([1, 20]))

    async def _spend(self, chance):
        amounts = {"tokens": chance.choice([100, 2000])}
        with suppress(BudgetExceededError):
            await self.budget.reserve(amounts)
            try:
                await trio.sleep(0.0003)
                used = chance.randint(1, 100)
                with self.lock:
                    self.spent += used
                self.budget.count(tokens=used)
            finally:
                self.budget.free(amounts)

    async def _pass(self, chance):
        passage = await self.gate.enter()
        await trio.lowlevel.checkpoint()
        chance.choice([passage.accept, passage.abandon])()

    async def _call(self, chance):
        async def work():
            await trio.lowlevel.checkpoint()
            if chance.random() < 0.5:
                raise ConnectionError

        with suppress(ConnectionError, CircuitOpenError):
            await self.breaker.call(work)


def test_a_gate_that_was_closed_in_one_run_is_closed_in_the_next():
    gate = Gate()

    async def refuse():
        (await gate.enter()).refuse(100.0)
        await trio.sleep(30)

    async def enter():
        await gate.enter()
        return trio.current_time()

    virtual(refuse)
    assert 60 < virtual(enter) <= 70


async def test_who_waits_in_other_loops_is_served_in_the_order_of_arrival():
    slots, served, token = ConcurrencyLimit(1), [], trio.lowlevel.current_trio_token()

    async def use(name):
        async with slots:
            served.append(name)

    async def wait(name, joined):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, name)
            await wait_all_tasks_blocked()
            token.run_sync_soon(joined.set)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with slots:
                for name in range(4):
                    joined = trio.Event()
                    nursery.start_soon(trio.to_thread.run_sync, trio.run, wait, name, joined)
                    await joined.wait()
    assert served == [0, 1, 2, 3]


async def test_a_call_whose_loop_has_ended_holds_up_nobody():
    """Its task can't leave the queue any more, as after an error in the loop itself."""
    slots = ConcurrencyLimit(1)
    await slots.acquire()

    async def join_queue():
        await trio.lowlevel.checkpoint()
        slots._queue._waiters.append(_Waiter(-1))

    await trio.to_thread.run_sync(trio.run, join_queue)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slots.acquire)
            await wait_all_tasks_blocked()
            slots.release()
