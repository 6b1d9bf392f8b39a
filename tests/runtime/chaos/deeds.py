"""What a random agent does in its turns: work, and every way in which code goes wrong."""

import contextlib
from contextvars import ContextVar
from functools import partial

import trio

from greenroom.core import (
    BudgetExceededError,
    Interrupt,
    Message,
    SelfWaitError,
    Shutdown,
    SubAgentResult,
    TextDelta,
    ToolEnd,
    ToolResult,
    ToolStart,
    ToolUseBlock,
    TurnError,
    Usage,
    UsageReport,
    UserInput,
)
from greenroom.llm import ModelError
from greenroom.runtime import AgentNotRunningError, fan_out, spawn_subagent
from greenroom.session import AgentSession
from tests.runtime.chaos.books import Violation, expect
from tests.runtime.test_isolation import ERRORS, MISNESTINGS

WORK = {
    "rest": 6,
    "call_tool": 5,
    "call_tools": 4,
    "ask_permission": 3,
    "delegate": 8,
    "ask_anybody": 8,
    "clean_up": 3,
    "spend": 2,
    "work_in_parallel": 3,
    "meddle": 4,
    "monitor": 2,
    "read": 2,
    "wait_for_client": 2,
    "wait_for_oneself": 1,
    "receive_more": 1,
    "fan_out": 1,
    "report_usage": 2,
    "leave_task_outside": 2,
    "fail": 2,
}
MISHAPS = {
    "crash": 3,
    "crash_when_cancelled": 1,
    "misnest": 4,
    "leave_cleanup_open": 1,
    "leave_budget_open": 1,
    "leave_slot_open": 1,
    "swallow_cancel": 1,
    "shield": 1,
}
LONGEST_SHIELD = 0.2  # seconds for which an agent can't be cancelled
# trio's own nursery prints what a task raises, and two tasks share one list of calls.
NOT_IN_PARALLEL = {"call_tool", "crash", "crash_when_cancelled", "misnest"}
BREAKS_TRIO = {"unprintable", "deep", "deep and unprintable", "lying group"}


class Running:
    """A tool call that runs, which after a wait may hold a slot too many: see `may_exceed`."""

    current = ContextVar("running", default=None)

    def __init__(self, world, life, scope):
        self._world, self._life, self._slot = world, life, scope.running()
        self._has_waited = self._cut_off = False

    @property
    def may_exceed(self):
        """Whether a wait was cut off, or ended while its turn or its agent was being ended."""
        actor = self._life.agent._actor
        line, turn = (actor, *actor.ancestors()), actor.turns.current
        ends = (turn is not None and turn.is_cancelled) or any(each.is_being_ended for each in line)
        return self._cut_off or (self._has_waited and ends)

    async def __aenter__(self):
        await self._slot.__aenter__()
        self._outer = self.current.set(self)
        self._world.running.add(self)

    async def __aexit__(self, *error):
        self.current.reset(self._outer)
        try:
            return await self._slot.__aexit__(*error)
        finally:
            self._world.running.discard(self)

    @classmethod
    @contextlib.contextmanager
    def waiting(cls):
        """Open the block in which the call waits for something."""
        cls.current.get()._has_waited = True
        try:
            yield
        except BaseException:
            cls.note_cut_off()
            raise

    @classmethod
    def note_cut_off(cls):
        """A wait of the call in which this runs, if it is in one, was cut off."""
        call = cls.current.get()
        if call is not None:
            call._cut_off = True


class Deeds:
    """The deeds of all agents of one program."""

    def __init__(self, world):
        self.world = world
        self.random = world.random

    async def do(self, life, mishaps):
        """Do one step, which goes wrong with this probability."""
        await life.agent.step()
        await life.agent.send(TextDelta("x"))
        await self._do_one(life, MISHAPS if self.world.chance(mishaps) else WORK)

    async def _do_one(self, life, table):
        (name,) = self.random.choices(list(table), list(table.values()))
        self.world.tally[name] += 1
        await getattr(self, name)(life)

    async def rest(self, life):
        await trio.sleep(self.random.random())

    def new_call(self):
        return ToolUseBlock(self.world.new("t"), "Tool")

    async def call_tool(self, life):
        agent, call = life.agent, self.new_call()
        if life.left_open:  # a reply with other calls would cut it off from its result
            return
        agent.session.add_message(Message.assistant([call]))
        await agent.send(ToolStart(call.id, call.name))
        await self.rest(life)
        if self.world.chance(0.5):
            await agent.send(ToolEnd(call.id, ToolResult.ok("done")))
            agent.session.add_message(Message.user([ToolResult.ok("done").block(call.id)]))
        else:
            life.left_open = True

    async def call_tools(self, life):
        """Run several calls at once, under a budget that lets a few run."""
        limits = {"concurrency": self.random.randrange(1, 3)}
        if self.world.chance(0.3):
            limits["tool_calls"] = self.random.randrange(1, 4)
        if self.world.chance(0.2):
            limits["seconds"] = self.random.random() * 3
        with life.agent.budget(**limits) as budget:
            self.world.purses.append(budget)
            async with trio.open_nursery() as nursery:
                for _ in range(self.random.randrange(1, 4)):
                    nursery.start_soon(self._run_call, life, 1)

    async def _run_call(self, life, below):
        call = self.new_call()
        with life.agent.tool_call(call) as scope:
            async with Running(self.world, life, scope):
                self.world.look_at_purses()
                life.agent.send_nowait(ToolStart(call.id, call.name))
                match self.random.randrange(5):
                    case 0 | 1 if life.depth:
                        with Running.waiting():
                            await self.delegate(life)
                    case 2 if below:
                        with Running.waiting():
                            await self._run_call(life, below - 1)
                    case 3:
                        with Running.waiting():
                            await self.ask_anybody(life)
                    case _:
                        await self.rest(life)
                self.world.look_at_purses()
                life.agent.send_nowait(ToolEnd(call.id, ToolResult.ok("done")))
            scope.end(ToolResult.ok("done"))

    async def wait_for_client(self, life):
        call = self.new_call()
        self.world.client_calls.append((life.book.handle, call.id))
        with trio.move_on_after(self.random.random() * 3):
            await life.agent.wait_tool_result(call.id)

    async def ask_permission(self, life):
        timeout = self.random.choice([None, self.random.random()])
        await life.agent.request_permission("Tool", "run", timeout=timeout)

    async def delegate(self, life):
        if not life.depth:
            return await self.rest(life)
        try:
            child = self.spawn(life)
        except TurnError:  # it has as many as it may
            return None
        async with self.world.patience(child.handle):
            await self._use(child)
        return None

    def spawn(self, life, **options):
        options = options or {
            "detached": self.world.chance(0.1),
            "scope": self.random.choice(["turn", "agent"]),
            "report": self.world.chance(0.7),
        }
        if self.world.chance(0.2):
            options["budget"] = self.random.choice(self.world.purses)
        is_detached = options.pop("detached")
        order = (AgentSession.new("child"), self.world.agent, life.depth - 1)
        if is_detached or len(self.world.books) % 2:
            handle = life.agent.spawn(*order, detached=is_detached, **options)
        else:
            handle = spawn_subagent(*order, **options)
            expect(handle is not None, "an agent is found that spawns", life)
        current = life.agent._actor.turns.current
        return self.world.enrol(
            handle,
            parent=life,
            detached=is_detached,
            reports=options["report"],
            turn=current.message.id if current and options["scope"] == "turn" else None,
        )

    async def _use(self, child):
        handle = child.handle
        match self.random.randrange(8):
            case 0 | 1 | 2:
                await self.world.ask(child, child.parent)
            case 3:
                await self.world.ask(child, child.parent, timeout=self.random.random() * 3)
            case 4:
                await self.world.send(child)
            case 5:
                child.touched = True
                await handle.shutdown(self.random.random())
                self._learn(child)
            case 6:
                child.touched = True
                with trio.move_on_after(self.random.random() * 3) as scope:
                    await handle.wait()
                    self._learn(child)
                if scope.cancelled_caught:
                    Running.note_cut_off()
            case 7:
                handle.kill()

    @staticmethod
    def _learn(child):
        if not child.detached:
            parent = child.parent.book
            child.learned = parent.heard(SubAgentResult, child.session_id)

    async def ask_anybody(self, life):
        """Ask a peer, a parent or a child: where that closes a circle, it is refused."""
        books = list(self.world.books.values())
        waiting = [book for book in books if book.actor.waits]
        book = self.random.choice(waiting if waiting and self.world.chance(0.5) else books)
        with contextlib.suppress(AgentNotRunningError, SelfWaitError, TurnError):
            async with self.world.patience(book.handle):
                await self.world.ask(
                    book, life, timeout=self.random.choice([None, None, None, 2.0])
                )

    async def fan_out(self, life):
        if life.depth:
            with contextlib.suppress(TurnError):
                await fan_out(
                    life.agent,
                    self.world.agent,
                    0,
                    inputs=["a", "b"],
                    until=self.random.choice([1, "all"]),
                )

    async def meddle(self, life):
        with contextlib.suppress(*self.world.refusals):
            await self.world.meddle(self.world.someone().handle, life)

    async def monitor(self, life):
        book = self.random.choice(list(self.world.books.values()))
        if book is not life.book:
            monitor = life.agent.monitor(book.handle)
            if self.world.chance(0.3):
                monitor.cancel()
                if book.outcome is not None:
                    book.called_off.append(life.book)
            else:
                book.monitors.append(life)

    async def read(self, life):
        with trio.move_on_after(self.random.random()):
            async for _ in self.world.someone().handle.subscribe(
                self.random.choice(["all", "none"])
            ):
                pass

    async def wait_for_oneself(self, life):
        handle = life.book.handle
        for wait in (handle.wait, handle.shutdown, handle.interrupt, partial(handle.ask, "me")):
            try:
                async with self.world.patience(handle):
                    await wait()
            except SelfWaitError:
                continue
            raise Violation("an agent waited for itself")

    async def receive_more(self, life):
        """Take what comes within the turn: it is part of the turn."""
        with trio.move_on_after(self.random.random()):
            message = await life.agent.receive()
            if isinstance(message, UserInput):
                life.book.take(life, message)
                life.texts.append(message.text)
                life.absorbed.add(message.id)
            elif not isinstance(message, Interrupt | Shutdown):
                life.book.take(life, message)

    async def work_in_parallel(self, life):
        table = {name: weight for name, weight in WORK.items() if name not in NOT_IN_PARALLEL}
        del table["work_in_parallel"]
        async with trio.open_nursery() as nursery:
            for _ in range(self.random.randrange(1, 4)):
                nursery.start_soon(self._do_one, life, table)

    async def clean_up(self, life):
        try:
            await self.rest(life)
        finally:
            with life.agent.cleanup(2.0):
                await trio.sleep(self.random.random() * 3)

    async def spend(self, life):
        limits = [{"seconds": self.random.random()}, {"model_calls": 1}, {"tool_calls": 1}]
        with life.agent.budget(**self.random.choice(limits)):
            for _ in range(3):
                await life.agent.step()
                await self.rest(life)

    async def report_usage(self, life):
        await life.agent.send(UsageReport(Usage(self.random.randrange(100), 1)))

    async def fail(self, life):
        raise self.random.choice([ModelError("down"), BudgetExceededError("x" * 100_000)])

    async def leave_task_outside(self, life):
        """Start a task in a nursery of the application's: it is not part of the agent."""
        if self.world.outside is not None:
            self.world.outside.start_soon(self._wait_outside, life)

    async def _wait_outside(self, life):
        handle = life.book.handle
        found = spawn_subagent(AgentSession.new("child"), self.world.agent, 0)
        expect(found is None, "outside there is no agent", found)
        with contextlib.suppress(*(set(self.world.refusals) - {SelfWaitError})):
            async with self.world.patience(handle):
                match self.random.randrange(4):
                    case 0:
                        await self.world.ask(life.book, timeout=1.0)
                    case 1:
                        await handle.interrupt(grace=self.random.random())
                    case 2:
                        with trio.move_on_after(5):
                            await handle.wait()
                    case 3:
                        await self.rest(life)
                        await life.agent.send(TextDelta("from outside"))

    def error(self, life):
        names = [name for name in ERRORS if life.alone or name not in BREAKS_TRIO]
        name = self.random.choice([*names, "bug", "bug", "bug"])
        self.world.tally[f"raise {name}"] += 1
        return ValueError("bug") if name == "bug" else ERRORS[name]()

    async def crash(self, life):
        raise self.error(life)

    async def crash_when_cancelled(self, life):
        try:
            await trio.sleep(2)
        except trio.Cancelled:
            raise self.error(life)  # noqa: B904 (as careless code does)

    async def misnest(self, life):
        mishap = self.random.choice(MISNESTINGS)
        self.world.tally[mishap.__name__] += 1
        await mishap(life.agent, life.turn)

    async def leave_cleanup_open(self, life):
        life.agent.cleanup(self.random.random()).__enter__()

    async def leave_budget_open(self, life):
        life.agent.budget(model_calls=self.random.randrange(3)).__enter__()

    async def leave_slot_open(self, life):
        """Enter a call that is never left: all later waits of this life are waits of that call."""
        call = self.new_call()
        await life.agent.tool_call(call).__enter__().running().__aenter__()
        self.world.left_calls.append((life, tuple(self.world.purses)))

    async def swallow_cancel(self, life):
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(2)

    async def shield(self, life):
        with trio.CancelScope(shield=True):
            await trio.sleep(LONGEST_SHIELD)
