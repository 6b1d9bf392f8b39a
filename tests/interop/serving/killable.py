"""A server, and a plan with a member elsewhere, as processes of their own that tests kill."""

import sys
from pathlib import Path

import trio

from greenroom import AgentRuntime, AgentSession, FileStore, SessionNotFoundError
from greenroom.core import Message, Resume, TextDelta
from greenroom.flow import Plan, PlanRun, Subtask, execute_plan
from greenroom.interop import Tokens, WebServer, remote
from tests.interop.serving.services import asker

SESSION = "s-plan"


async def slow(agent):
    """Work at each input for ever, but for one that says to be quick."""
    async for message in agent.inputs():
        async with agent.turn(message):
            text = "" if isinstance(message, Resume) else message.text
            await agent.session.save()  # as before a call
            await agent.send(TextDelta("working"))
            if text != "be quick":
                await trio.sleep_forever()
            agent.session.add_message(Message.assistant("done"))


async def serve(folder, port):
    tokens = Tokens.load(folder / "tokens")
    async with AgentRuntime(FileStore(folder / "far")) as runtime:
        server = WebServer(runtime, {"asker": asker, "slow": slow}, tokens=tokens)
        async with trio.open_nursery() as nursery:
            print(await nursery.start(server.serve, "127.0.0.1", port), flush=True)


async def run_plan(folder, link):
    """Run a plan of two steps, or go on with it; return its run."""
    store = FileStore(folder / "here")
    try:
        session = await AgentSession.load(SESSION, store=store, keep_open=True)
    except SessionNotFoundError:
        session = AgentSession.new("lead", session_id=SESSION, store=store)
    steps = [Subtask("first", "do the first"), Subtask("second", "do the second", after=["first"])]
    runs = []

    async def lead(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                is_known = bool(agent.session.records("plan.step"))
                plan = PlanRun.load(agent.session) if is_known else Plan("far work", steps)
                worker = remote(link, token="token-of-ann")
                runs.append(await execute_plan(agent, plan, worker))

    async with AgentRuntime(store) as runtime:
        handle = runtime.spawn(session, lead, unattended="deny")
        await handle.ask("go")
    return runs[0]


if __name__ == "__main__":
    what, place, where = sys.argv[1:]
    if what == "serve":
        trio.run(serve, Path(place), int(where))
    else:
        trio.run(run_plan, Path(place), where)
