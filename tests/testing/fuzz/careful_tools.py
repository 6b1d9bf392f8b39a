"""Tools and agents that a cancel does not break, of many kinds: none may be accused in any mode.

Each is a function that makes the tool or the agent anew, with the state that it keeps.
"""

import contextlib
import json
import os
import random
import sqlite3
import tempfile
import time
import uuid

import anyio
import trio

from greenroom.agents import coder
from greenroom.core import AgentContext, Message, ToolError
from greenroom.permissions import PermissionManager
from greenroom.runtime import spawn_subagent
from greenroom.session import AgentSession
from greenroom.testing import Reply, Scenario, ScriptedProvider
from greenroom.tools import ToolRegistry, tool

CAREFUL = {}
"""The makers of the scenarios, each with whether it needs real time."""


def careful(*, real_time=False):
    """Register the maker of a tool."""

    def register(make):
        CAREFUL[make.__name__] = (lambda: Scenario.of_tool(make(), {}), real_time)
        return make

    return register


def careful_agent(make):
    """Register the maker of an agent."""
    CAREFUL[make.__name__] = (lambda: Scenario(make(), inputs="Press!"), False)
    return make


@careful()
def clean_up_that_a_kill_cuts_off():
    @tool(timeout=7200)
    async def bake(context: AgentContext) -> str:
        """Bake, and turn the oven off whatever happens."""
        try:
            await trio.sleep(3600)
        finally:
            with context.cleanup(2.0):
                await trio.sleep(1)
                context.progress("the oven is off")
        return "bread"

    return bake


@careful()
def clean_up_whose_end_changes_the_result():
    @tool
    async def bake(context: AgentContext) -> str:
        """Bake, and say whether the oven is clean."""
        is_clean = False
        try:
            await trio.sleep(1)
        finally:
            with context.cleanup(2.0):
                await trio.sleep(1)
                is_clean = True
        return f"bread, {is_clean}"

    return bake


@careful()
def a_file_put_in_place_by_a_rename():
    @tool
    async def write(context: AgentContext) -> str:
        """Write beside the file, with its text in two parts."""
        descriptor, draft = tempfile.mkstemp(dir=context.workspace.root)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write("[1, ")
                await trio.sleep(1)
                file.write("2]\n")
            os.replace(draft, context.workspace.root / "juice.json")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
        return "written"

    return write


@careful()
def a_lock_in_an_async_with():
    lock, slots = trio.Lock(), trio.CapacityLimiter(1)

    @tool
    async def press() -> str:
        """Press, one at a time."""
        async with lock, slots:
            await trio.sleep(1)
        return "pressed"

    return press


@careful()
def a_loop_that_tries_again():
    @tool
    async def fetch() -> str:
        """Ask a server that answers at the third time."""
        error = None
        for trial in range(3):
            try:
                with trio.fail_after(1):
                    await trio.sleep(0.5 if trial == 2 else 10)
                return "fetched"
            except trio.TooSlowError as caught:
                error = caught
                await trio.sleep(2**trial)
        raise ToolError("no answer") from error

    return fetch


@careful()
def progress_that_is_streamed():
    @tool
    async def stream(context: AgentContext) -> str:
        """Tell how far it is, from a task of its own."""
        send, receive = trio.open_memory_channel[int](0)

        async def count():
            async with send:
                for number in range(3):
                    await trio.sleep(1)
                    await send.send(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            async for number in receive:
                context.progress(f"{number} of 3")
        return "streamed"

    return stream


@careful(real_time=True)
def work_in_a_thread():
    @tool
    def add(path: str = "sum") -> str:
        """Work in a thread."""
        time.sleep(0.01)
        return "added"

    return add


@careful(real_time=True)
def a_program():
    @tool
    async def ask() -> str:
        """Ask a program, and say how long it took."""
        began = time.perf_counter()
        done = await trio.run_process(["sh", "-c", "sleep 0.02; echo $$"], capture_stdout=True)
        return f"{done.stdout.decode()} after {time.perf_counter() - began}"

    return ask


@careful()
def a_log_of_whole_lines():
    @tool
    async def press(context: AgentContext) -> str:
        """Append a line before the work and one after it; what was cut off is said."""
        path, ending = context.workspace.root / "press.log", "interrupted"
        with path.open("a") as log:
            log.write(f"{time.time()} start {uuid.uuid4()}\n")
        try:
            await trio.sleep(1)
            ending = "pressed"
        finally:
            with path.open("a") as log:
                log.write(f"{time.time()} {ending}\n")
        return "pressed"

    return press


@careful()
def a_log_of_steps():
    @tool
    async def press(context: AgentContext) -> str:
        """Append a line for each apple."""
        for number in range(3):
            with (context.workspace.root / "press.log").open("a") as log:
                log.write(f"apple {number} is pressed\n")
            await trio.sleep(1)
        return "pressed"

    return press


@careful()
def a_log_that_is_closed_whatever_happens():
    @tool
    async def press(context: AgentContext) -> str:
        """Open an entry, and close it with how it ended."""
        with (context.workspace.root / "press.log").open("a") as log:
            log.write("begin\n")
            try:
                await trio.sleep(1)
            except trio.Cancelled:
                log.write("end: interrupted\n")
                raise
            log.write("end: pressed\n")
        return "pressed"

    return press


@careful()
def a_log_whose_torn_end_is_mended():
    @tool
    async def press(context: AgentContext) -> str:
        """Cut off what an earlier call has left, and append a line in two writes."""
        path = context.workspace.root / "press.log"
        if path.exists():
            whole, newline, _ = path.read_bytes().rpartition(b"\n")
            path.write_bytes(whole + newline)
        with path.open("a") as log:
            log.write("2 apples, ")
            log.flush()
            await trio.sleep(1)
            log.write("pressed\n")
        return "pressed"

    return press


@careful()
def a_list_that_is_rewritten_as_a_whole():
    @tool
    async def remember(context: AgentContext) -> str:
        """Add to a list in a file."""
        path = context.workspace.root / "list.json"
        items = json.loads(path.read_text()) if path.exists() else []
        await trio.sleep(1)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps([*items, {"at": time.time(), "id": str(uuid.uuid4())}]))
        os.replace(draft, path)
        return f"{len(items) + 1} items"

    return remember


@careful()
def a_result_that_is_another_each_time():
    @tool
    async def order() -> str:
        """Make an id, and tell the time."""
        await trio.sleep(1)
        return f"{uuid.uuid4()} at {time.time()}, lucky number {random.random()}"

    return order


@careful()
def an_order_that_is_another_each_time():
    @tool
    async def race() -> str:
        """Tell in which order the tasks have ended."""
        done = []

        async def run(name):
            await trio.sleep(1)
            done.append(name)

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(run, name)
        return " ".join(done)

    return race


@careful()
def a_duration_by_a_seeded_generator():
    chance = random.Random(4)

    @tool
    async def wait() -> str:
        """Wait for a while, with a few tries."""
        for _ in range(3):
            await trio.sleep(chance.uniform(1, 5))
        return "waited"

    return wait


@careful()
def a_second_time_that_is_shorter_by_chance():
    chance = random.Random(1)

    @tool
    async def wait() -> str:
        """Wait for a while, which is shorter the second time, and longer the third."""
        await trio.sleep(chance.choice([9, 7, 1]))
        return "waited"

    return wait


@careful()
def a_subagent():
    async def helper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep(2)

    @tool
    async def delegate() -> str:
        """Ask a subagent."""
        child = spawn_subagent(AgentSession.new("helper"), helper)
        await child.ask("Help!")
        await child.shutdown()
        return "helped"

    return delegate


@careful()
def a_cache_that_is_filled_at_first():
    cache = {}

    @tool
    async def look_up() -> str:
        """Load a table, and keep it once it is whole."""
        if "table" not in cache:
            table = []
            for number in range(3):
                await trio.sleep(1)
                table.append(number)
            cache["table"] = table
        return f"{len(cache['table'])} rows"

    return look_up


@careful()
def an_order_that_is_taken_once():
    done = set()

    @tool
    async def pay() -> str:
        """Pay, once and no more."""
        if "bill" in done:
            return "it is paid"
        await trio.sleep(1)
        done.add("bill")
        return "paid"

    return pay


@careful()
def a_transaction():
    @tool
    async def book(context: AgentContext) -> str:
        """Write to a database; a transaction that is cut off is undone."""
        path = context.workspace.root / "book.db"
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS book (entry)")
            db.execute("INSERT INTO book VALUES ('2 apples')")
            await trio.sleep(1)
        return "booked"

    return book


@careful()
def settings_that_are_put_back():
    @tool
    async def press() -> str:
        """Work with another umask."""
        before = os.umask(0o077)
        try:
            await trio.sleep(1)
        finally:
            os.umask(before)
        return "pressed"

    return press


@careful()
def a_nursery_that_ends_with_the_first():
    @tool
    async def race() -> str:
        """Ask three servers, and take the first answer."""
        answers = []

        async def ask(seconds):
            await trio.sleep(seconds)
            answers.append(seconds)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for seconds in (1, 2, 3):
                nursery.start_soon(ask, seconds)
        return f"{answers}"

    return race


@careful()
def time_outs_within_each_other_that_end_together():
    @tool
    async def fetch() -> str:
        """Ask a server that does not answer; the outer time-out catches the cancel of both."""
        with trio.move_on_after(1):
            with trio.move_on_after(1):
                await trio.sleep(9)
        with anyio.move_on_after(1), anyio.move_on_after(1):
            await anyio.sleep(9)
        await trio.sleep(1)
        return "no answer"

    return fetch


@careful(real_time=True)
def a_program_that_is_polled():
    @tool
    async def ask() -> str:
        """Look whether a program has ended, as often as that takes."""
        process = await trio.lowlevel.open_process(["sleep", "0.04"])
        try:
            while process.poll() is None:  # noqa: ASYNC110
                await trio.sleep(0.001)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        return "asked"

    return ask


def say(agent, text):
    agent.session.add_message(Message.assistant(text))


@careful_agent
def an_agent_that_cleans_up():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await trio.sleep(1)
                    say(agent, "pressed")
                finally:
                    with agent.cleanup(1):
                        await trio.sleep(0.5)
                        say(agent, "the press is off")

    return agent


@careful_agent
def an_agent_that_does_a_thing_once():
    done = set()

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text not in done:
                    await trio.sleep(1)
                    done.add(message.text)
                say(agent, "it is pressed")

    return agent


@careful_agent
def an_agent_with_tasks_and_time_outs():
    async def agent(agent):
        async with trio.open_nursery() as beside:
            beside.start_soon(trio.sleep_forever)
            async for message in agent.inputs():
                async with agent.turn(message):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(trio.sleep, 2)
                    with trio.move_on_after(1):
                        await trio.sleep(9)
                    say(agent, "pressed")
                await trio.sleep(1)
            beside.cancel_scope.cancel()

    return agent


@careful_agent
def an_agent_whose_model_is_slow():
    async def agent(agent):
        model = ScriptedProvider(*[Reply("It is pressed now.", seconds=3)] * 9)
        await coder(agent, model, ToolRegistry(), PermissionManager())

    return agent
