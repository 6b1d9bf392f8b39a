"""Random conversations to record: tools, questions, subagents, compaction, interrupts, failures."""

from random import Random

import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    FileStore,
    PermissionManager,
    PermissionRequest,
    PermissionRule,
    Usage,
)
from greenroom.core import RuleDecision
from greenroom.llm import ModelOverloadedError
from greenroom.observability import TraceFile, Tracer, read_trace
from greenroom.testing import Reply, ScriptedProvider, call

ran = []
"""The tools that ran, by name."""


def fetch(page: str) -> str:
    """Fetch a page."""
    ran.append("fetch")
    number = "" if page == "aa" else len(ran)
    return f"{page} of {number} " + "word " * (len(page) % 3 * 40)


def write(page: str) -> str:
    """Write a page."""
    ran.append("write")
    return f"wrote {page}"


def fail(page: str) -> str:
    """Fail."""
    ran.append("fail")
    raise ValueError(f"no {page}")


async def wait(page: str) -> str:
    """Wait for ever."""
    ran.append("wait")
    await trio.sleep_forever()
    return page


def make(llm=None, *, tools=(fetch, write, fail, wait), **changes):
    """Make the agent; without a model it is only good for running a record again."""
    sub = Agent(ScriptedProvider(*["found"] * 99, model="small"), name="Sub")
    given = {
        "name": "ann",
        "instructions": "Be brief.",
        "tools": [*tools, sub.as_tool("ask", description="Ask.")],
        "permissions": PermissionManager(
            rules=[PermissionRule.ask_for_tool("write"), PermissionRule.allow_all()]
        ),
        "window": 1_600,
        "max_steps": 6,
    }
    return Agent(llm or ScriptedProvider(model="script"), **{**given, **changes})


class Talk:
    """A conversation of a few turns, the same for the same seed."""

    def __init__(self, seed, *, plain=False):
        self.random = Random(seed)
        self.plain = plain
        self.told = 0
        self.llm = ScriptedProvider(*[self.step] * 300)

    def step(self, request):
        self.told += 1
        words = "word " * self.random.randint(1, 400)
        usage = Usage(sum(len(each.text) for each in request.messages) // 4, len(words) // 4)
        if not request.tools:
            return Reply(f"notes {self.told}", usage=usage)
        kinds = ["text"] * 4 + ["fetch"] * 4 + ["many", "write", "write", "ask", "fail", "unknown"]
        kind = self.random.choice(kinds if self.plain else [*kinds, "hang", "wait", "break"])
        page = "p" * self.random.randint(1, 5)
        match kind:
            case "text":
                return Reply(f"text {self.told} {words}", usage=usage)
            case "many":
                calls = [call("fetch", page=f"{page}{at}") for at in range(3)]
                return Reply([*calls, call("write", page=page)], usage=usage)
            case "ask":
                return Reply([call("ask", prompt=page)], usage=usage)
            case "hang":
                return Reply(f"half {words}", hangs=True)
            case "break":
                return Reply(f"broken {words}", error=ModelOverloadedError("busy"))
            case _:
                return Reply([call(kind, page=page)], usage=usage)

    async def answer(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        """Answer questions in one way or another, and leave some open."""
        async with handle.subscribe(replay="none", answers=True) as chunks:
            task_status.started()
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    choices = ["allow", "allow for the session", "deny", "deny and say why", ""]
                    how = self.random.choice(choices[:4] if self.plain else choices)
                    if how:
                        await handle.respond_permission(
                            chunk.request_id,
                            RuleDecision(how.partition(" ")[0]),
                            remember="session" if "session" in how else None,
                            message="not today" if "why" in how else None,
                        )

    async def hold(self, store, agent, sinks=()):
        """Hold it, interrupting what waits; return its session."""
        async with AgentRuntime(store, instruments=[Tracer(*sinks, content="redacted")]) as runtime:
            session = AgentSession.new("ann", store=store)
            handle = runtime.spawn(session, agent)
            async with trio.open_nursery() as nursery:
                await nursery.start(self.answer, handle)
                for turn in range(self.random.randint(2, 5)):
                    await self.say(handle, f"Do {turn}. " + "Please. " * 20)
                nursery.cancel_scope.cancel()
            await handle.shutdown()
        return session.session_id

    async def say(self, handle, text):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.interrupt, handle)
            await handle.ask(text)
            nursery.cancel_scope.cancel()

    async def interrupt(self, handle):
        # Threads run tools: what waits for a minute of a clock that jumps waits for ever.
        await trio.sleep(60)
        await wait_all_tasks_blocked()
        await handle.interrupt()


async def record(folder, seed, agent=None, **named):
    """Hold and record a talk; return the session as loaded, and its trace."""
    ran.clear()
    talk, store = Talk(seed, **named), FileStore(folder)
    async with TraceFile() as file:
        id_ = await talk.hold(store, agent or make(talk.llm), [file])
    return await AgentSession.load(id_, store=store), await read_trace(id_, store=store)
