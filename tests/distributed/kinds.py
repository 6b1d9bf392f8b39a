"""Types of agents for tests, hosts that are frozen, and waits for what a database won't tell."""

import trio

from greenroom.core import Message, Resume, ToolError, UserInput
from greenroom.distributed import AgentSpec, AgentType, Host


async def echo(agent, prefix=""):
    """Answer what it is told."""
    async for message in agent.inputs():
        async with agent.turn(message):
            goes_on = isinstance(message, Resume) and message.cut_off
            if goes_on or isinstance(message, UserInput):
                text = f"on: {goes_on}" if goes_on else prefix + message.text
                agent.session.add_message(Message.assistant(text))


async def fail(agent):
    """Fail in each turn."""
    async for message in agent.inputs():
        async with agent.turn(message):
            raise ToolError("out of paper")


HELD = {}
"""Events for which the turns of these texts wait."""


async def end(agent):
    """Answer once, and end."""
    message = await agent.receive()
    async with agent.turn(message):
        if message.text in HELD:
            await HELD[message.text].wait()
        agent.session.add_message(Message.assistant(message.text))


def make_echo(spec):
    unknown = spec.options.keys() - {"prefix"}
    if unknown:
        raise ValueError(f"unknown options: {unknown}")
    return echo, (spec.options.get("prefix", ""),)


ECHO = AgentType("echo", make_echo)
FAILING = AgentType("failing", lambda spec: (fail, ()))
ENDING = AgentType("ending", lambda spec: (end, ()))


async def wait_for(condition, seconds=60):
    """Look again and again: a database does not say when it has changed."""
    with trio.fail_after(seconds):
        while True:
            if found := await condition():
                return found
            await trio.sleep(0.01)


async def wait_host(agent, host):
    async def is_there():
        return (await agent.status()).host == host

    await wait_for(is_there)


class Work:
    """Agents whose turns wait, on the hosts where they are held; and what has begun where."""

    def __init__(self):
        self.begun = []
        self.held = {}
        self._changed = trio.Event()

    def kind(self, where):
        async def work(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    await agent.session.save()
                    goes_on = isinstance(message, Resume)
                    self.begun.append((where, message.cut_off if goes_on else message.id))
                    self._changed.set()
                    if where in self.held:
                        await self.held[where].wait()
                    agent.session.add_message(Message.assistant(f"done by {where}"))

        return AgentType("worker", lambda spec: (work, ()))

    def hold(self, where):
        self.held[where] = trio.Event()

    async def wait(self, count):
        while len(self.begun) < count:
            self._changed = trio.Event()
            await self._changed.wait()


GOES_ON = {"workspace": "shared", "on_cut_off": "continue"}


async def spawn_and_freeze(cluster, work, frozen, nursery, *, is_gone=True, **options):
    """Start an agent whose host is frozen in the middle of its turn, and another host."""
    work.hold("a")
    first = await nursery.start(Host(cluster, [work.kind("a")]).run)
    agent = await cluster.spawn(AgentSpec("worker", **options))
    await agent.send_input("go", id="i1")
    await work.wait(1)
    frozen.add(first)
    second = await nursery.start(Host(cluster, [work.kind("b")]).run)
    if is_gone:
        await count_as_gone(cluster, first)
    return agent, first, second


async def count_as_gone(cluster, number):
    """Let a frozen host have been silent for an hour, until another one has noticed."""
    query = """UPDATE hosts SET seen = seen - interval '1 hour'
        WHERE id = %s AND state <> 'gone'"""

    async def is_gone():
        return not await cluster.database.run(lambda each: each.execute(query, [number]).rowcount)

    await wait_for(is_gone)


async def asked(agent):
    return [each.text for each in await agent.history() if each.role == "user"]


TYPES = [ECHO, FAILING, ENDING]
