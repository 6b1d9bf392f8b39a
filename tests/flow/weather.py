"""Workers: at any time, one crashes, one hangs and one is slow."""

import random
from contextlib import asynccontextmanager

import trio

from greenroom import Agent
from greenroom.flow import Plan, Subtask
from greenroom.llm import ModelOverloadedError
from greenroom.testing import Reply, ScriptedProvider, call

PATIENCE = 10


class Weather:
    """Changes every few seconds which worker fails and how; keeps the bookings."""

    def __init__(self, seed, workers=20, *, of=20, tool_hangs=0.0):
        self.seed = seed
        self.names = [f"w{number}" for number in range(workers)]
        self.of = of  # among how many it strikes: the first ones have most to do
        self.tool_hangs = tool_hangs  # how many of the calls never end
        self.booked = []
        self.hung = []
        self.running = 0

    def kind(self, name):
        now = int(trio.current_time() // 7)
        failing = random.Random(f"{self.seed} {now}").sample(self.names[: self.of], 3)
        return dict(zip(failing, ("crashes", "hangs", "slow"), strict=True)).get(name, "works")

    def worker(self, name):
        async def book(what: str) -> str:
            """Book something."""
            self.running += 1
            try:
                self.booked.append(what)
                if random.Random(f"{self.seed} {what}").random() < self.tool_hangs:
                    self.hung.append(what)
                    await trio.sleep_forever()
                await trio.sleep(1)
            finally:
                self.running -= 1
            return f"booked {what}"

        model = Clouded(self, name)
        return Agent(model, name=name, tools=[book], capabilities=["booking"])

    def workers(self):
        return [self.worker(name) for name in self.names]

    def plan(self, count):
        rng = random.Random(self.seed)
        ids = [f"s{number}" for number in range(count)]
        return Plan(
            "book all",
            [
                Subtask(
                    id_,
                    f"Book {id_}",
                    after=rng.sample(ids[:n], min(n, rng.choice([0, 0, 1, 2]))),
                    capability="booking",
                )
                for n, id_ in enumerate(ids)
            ],
        )


class Clouded(ScriptedProvider):
    """A model that makes its booking once, as far as the weather permits."""

    def __init__(self, weather, name):
        super().__init__(*[self._answer] * 1000)
        self._weather, self._name = weather, name

    @asynccontextmanager
    async def stream(self, request):
        await trio.sleep(0.8 * PATIENCE if self._kind() == "slow" else 1)
        async with super().stream(request) as stream:
            yield stream

    def _kind(self):
        return self._weather.kind(self._name)

    def _answer(self, request):
        if self._kind() == "crashes":
            return Reply("I am", error=ModelOverloadedError("too busy"))
        if self._kind() == "hangs":
            return Reply("I am", hangs=True)
        results = [block for each in request.messages for block in each.tool_results]
        if any(not block.is_error for block in results):
            return "It is booked."
        return call("book", what=request.messages[0].text.split()[1])
