"""One random program: a runtime, agents that do anything, and people who do anything to them.

A mild agent lives among them, and spawns subagents that are not mild. It does nothing wrong, nobody
ends it, and it must answer whatever the others do.
"""

import contextlib
import random
from collections import Counter

import trio

from greenroom.core import (
    Instrument,
    Interrupt,
    MailboxFullError,
    Message,
    SelfWaitError,
    Shutdown,
    ToolError,
    ToolResult,
    TurnError,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import EndStatus, describe_error, leaves
from greenroom.resilience import Backoff, Budget
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeClosedError, RuntimeLimits
from greenroom.runtime._internal import SupervisionError
from greenroom.runtime.calls import current_slot
from greenroom.session import AgentSession, InMemoryStore
from tests.runtime.chaos.books import Book, Violation, expect, refuses
from tests.runtime.chaos.deeds import LONGEST_SHIELD, Deeds

STRATEGIES = ["one_for_one", "rest_for_one", "one_for_all"]
RESTARTS = ["permanent", "transient", "temporary"]
LEFT_OPEN = ["enter_turn", "misnest", "leave_cleanup_open"]
WAYS = ["leave", "raise", "cancel"]


class Tasks(trio.abc.Instrument):
    """Keeps the living tasks of each agent, as trio tells of them."""

    def __init__(self):
        self._books = {}

    def begin(self, book):
        """The current task, and all that is started below it, is an agent's."""
        task = trio.lowlevel.current_task()
        self._books[task] = book
        book.tasks.add(task)

    def task_spawned(self, task):
        nursery = task.parent_nursery
        book = self._books.get(nursery.parent_task) if nursery else None
        if book is not None:
            self._books[task] = book
            book.tasks.add(task)

    def task_exited(self, task):
        book = self._books.pop(task, None)
        if book is not None:
            book.tasks.discard(task)


class Ends(Instrument):
    """Notes when each agent has ended."""

    def __init__(self, world):
        self._world = world

    def after_agent(self, agent, end):
        book = self._world.books.get(agent.session_id)
        if book is not None:
            book.ended = self._world.tick(), trio.current_time()
            self._world.tally[f"outcome {end.status}"] += 1


class Patience:
    """The block of a wait for an agent, which has an end: with that of the agent at the latest."""

    def __init__(self, world, handle):
        self._waits, self._world, self._book = world.waits, world, world.books[handle.session_id]

    def __str__(self):
        return f"a wait for {self._book.handle} has no end"

    async def __aenter__(self):
        self._waits.add(self)

    async def __aexit__(self, kind, error, _):
        self._waits.discard(self)
        self._world.wait_ended.set()
        if isinstance(error, trio.Cancelled) and self._book.ended and current_slot() is None:
            _, ended = self._book.ended
            if trio.current_time() > ended + 2:
                self._world.complain(self)


class World:
    """What both kinds of programs share; `begin` says who is there at the beginning."""

    watchers = ()  # further instruments of the runtime
    book = Book
    store = InMemoryStore

    refusals = (
        AgentNotRunningError,
        MailboxFullError,
        RuntimeClosedError,
        SelfWaitError,
        SupervisionError,
        ToolError,
        TurnError,
    )

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.way = self.random.choice(WAYS)
        self.deeds = Deeds(self)
        self.tasks = Tasks()
        self.tally = Counter()
        self.books = {}
        self.supervisors = {}
        """Each with the life of the agent that owns it, or None."""
        self.purses = [Budget(concurrency=self.random.randrange(1, 3))]
        self.running = set()
        """The calls that run."""
        self.left_calls = []
        """The calls that were entered and are never left: the life of each, and the budgets that
        may count it. It may hold a slot of theirs too many until that life is over, since any wait
        of the life may be cut off."""
        self.client_calls = []
        self.waits = set()
        self.wait_ended = trio.Event()
        self.complaints = []
        self.outside = None
        """The application's own nursery, while it takes tasks."""
        self._moments = 0
        self._names = Counter()
        self.limits = RuntimeLimits(
            mailbox=3,
            subagents=3,
            ring_chunks=self.random.choice([20, 100_000, 100_000]),
            permission_timeout=10.0,
        )

    def chance(self, share):
        return self.random.random() < share

    def tick(self):
        """Number a moment."""
        self._moments += 1
        return self._moments

    def new(self, what):
        self._names[what] += 1
        return f"{what}-{self._names[what]}"

    def complain(self, what):
        self.complaints.append(str(what))

    async def rest(self):
        await trio.sleep(self.random.random())

    def someone(self):
        """Choose an agent that is not the mild one."""
        return self.random.choice([book for book in self.books.values() if book is not self.mild])

    def patience(self, handle):
        return Patience(self, handle)

    def look_at_purses(self):
        exceeding = sum(call.may_exceed for call in self.running)
        running_on = [budgets for life, budgets in self.left_calls if not life.is_over]
        for budget in self.purses:
            figures = budget.statistics()
            limit = figures.limits.get("concurrency", 0)
            excess = exceeding + sum(budget in budgets for budgets in running_on)
            expect(figures.running <= limit + excess, "concurrency is a bound", figures, excess)

    def enrol(self, handle, **facts):
        """Open the book of an agent that was just spawned."""
        book = self.books[handle.session_id] = self.book(handle, **facts)
        return book

    def spawn_root(self):
        budget = self.purses[0] if self.chance(0.5) else None
        unattended = self.random.choice(["ask", "deny"])
        self.enrol(
            self.runtime.spawn(
                AgentSession.new("root"), self.agent, 2, budget=budget, unattended=unattended
            )
        )

    def grow(self, supervisor, depth, life=None):
        """Put agents and supervisors below a supervisor."""
        self.supervisors[supervisor] = life
        for _ in range(self.random.randrange(1, 4)):
            with contextlib.suppress(*self.refusals):
                if depth and self.chance(0.3):
                    self.grow(supervisor.supervisor(**self.options(nested=True)), depth - 1, life)
                else:
                    self.spawn_supervised(supervisor, depth, life)

    def options(self, *, nested=False):
        options = {
            "strategy": self.random.choice(STRATEGIES),
            "intensity": self.random.randrange(4),
            "period": self.random.choice([1.0, 5.0, 20.0]),
            "backoff": Backoff(first=self.random.random(), jitter=0.5, random=self.random.random),
        }
        return {**options, "restart": self.random.choice(RESTARTS)} if nested else options

    def spawn_supervised(self, supervisor, depth, life=None):
        restart = self.random.choice(RESTARTS)
        budget = self.purses[0] if self.chance(0.5) else None
        handle = supervisor.spawn(
            AgentSession.new("worker"), self.agent, depth, restart=restart, budget=budget
        )
        turn = life and life.book.actor.turns.current
        self.enrol(handle, parent=life, restart=restart, turn=turn and turn.message.id)

    async def agent(self, agent, depth):
        """Be an agent: in one of several styles of loop, with a mishap now and then."""
        book = self.books.get(agent.session.session_id) or self._enrol_late(agent)
        life = book.begin_life(agent, depth)
        self.tasks.begin(book)
        try:
            if self.chance(0.05):
                raise self.deeds.error(life)
            if self.supervises and depth and self.chance(0.3):
                self.grow(agent.supervisor(**self.options()), depth - 1, life)
            await self.random.choice(
                [self.by_inputs, self.by_receive, self.by_two, self.by_worker]
            )(life)
            book.value = self.new("value")
            life.returned = True
            return book.value
        except BaseException as error:
            self._heed(error)
            raise
        finally:
            life.ended = self.tick()
            life.was_ended = not agent._actor.takes_results

    def _heed(self, error):
        """What no deed does is a mistake in this program, or a promise that was not kept."""
        for leaf in leaves(error):
            if isinstance(leaf, Violation | AttributeError | LookupError | NameError | TypeError):
                self.complain(describe_error(leaf))

    def _enrol_late(self, agent):
        """Open the book of an agent of a fan-out: its parent asks it, and waits for its end."""
        handle = self.runtime.get(agent.session.session_id)
        parent = self.books[handle.parent.session_id]
        book = self.enrol(handle, parent=parent.lives[-1])
        book.touched = True
        return book

    async def by_inputs(self, life):
        async for message in life.agent.inputs():
            life.book.take(life, message)
            if self.chance(0.06):
                raise self.deeds.error(life)
            await self.answer(life, message)
            if self.chance(0.05):
                return

    async def by_receive(self, life):
        while not isinstance(message := await life.agent.receive(), Shutdown):
            if not isinstance(message, Interrupt):
                life.book.take(life, message)
                await self.answer(life, message)

    async def by_worker(self, life):
        """One task takes the inputs, another one opens the turns."""
        send, receive = trio.open_memory_channel(self.random.randrange(2))
        life.alone = False

        async def read():
            async with send:
                async for message in life.agent.inputs():
                    life.book.take(life, message)
                    await send.send(message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            async for message in receive:
                await self.answer(life, message)

    async def by_two(self, life):
        """Two tasks take inputs, and open turns in turn."""
        lock = trio.Lock()
        life.alone = False

        async def work():
            while not isinstance(message := await life.agent.receive(), Shutdown):
                if not isinstance(message, Interrupt):
                    life.book.take(life, message)
                    async with lock:
                        await self.answer(life, message)
            async with lock:
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            nursery.start_soon(work)

    async def answer(self, life, message):
        turn = life.agent.turn(message, steer=self.chance(0.3))
        if self.chance(0.01):
            self.tally["enter_turn"] += 1
            life.never_leaves = True
            await turn.__aenter__()
            await self._work(life, message)
            return
        async with turn:
            await self._work(life, message)

    async def _work(self, life, message):
        life.turn, life.texts, life.left_open = message, [], False
        before = len(life.agent.session.history) - 1
        for _ in range(self.random.randrange(4)):
            await self.deeds.do(life, 0.08)
        said = [each.text for each in life.agent.session.history[before:] if each.role == "user"]
        texts = [text for text in (*said, *life.texts) if len(text) < 20]
        life.agent.session.add_message(Message.assistant(f"re {' '.join(texts)}"))

    async def be_mild(self, agent):
        """Answer, and spawn subagents that are not mild."""
        book = self.books[agent.session.session_id]
        life = book.begin_life(agent, 2)
        self.tasks.begin(book)
        try:
            async for message in agent.inputs():
                book.take(life, message)
                async with agent.turn(message):
                    if isinstance(message, UserInput) and self.chance(0.3):
                        with contextlib.suppress(TurnError):
                            self.deeds.spawn(
                                life, detached=False, scope="agent", report=self.chance(0.7)
                            )
                    agent.session.add_message(Message.assistant(f"re {message.text[:20]}"))
            life.returned = True
        finally:
            life.ended = self.tick()
            life.was_ended = not agent._actor.takes_results

    async def visit(self):
        """Ask the mild agent from time to time."""
        for _ in range(5):
            await self.rest()
            await self.ask_mild()

    async def ask_mild(self):
        with trio.move_on_after(5) as scope:
            text = self.new("visit")
            result = await self.mild.handle.ask(text)
        expect(not scope.cancelled_caught, "the mild agent answers in time")
        expect(result.status is TurnStatus.COMPLETED, "the mild agent answers", result)
        expect(result.text == f"re {text}", "the mild agent answers what it was asked", result)

    async def person(self):
        for _ in range(10):
            await self.rest()
            with contextlib.suppress(*self.refusals), trio.move_on_after(60):
                book = self.someone()
                async with self.patience(book.handle):
                    await self.meddle(book.handle)

    async def meddle(self, handle, life=None):
        """Do anything to an agent, as a person, or as the agent whose life it is."""
        book = self.books[handle.session_id]
        match self.random.randrange(18):
            case 0 | 1 | 2 | 3:
                await self.send(book)
            case 4 | 5:
                with trio.move_on_after(self.random.random() * 5):
                    await self.ask(book, life)
            case 6:
                await self.ask(book, life, timeout=self.random.random() * 3)
            case 7 | 8:
                await self.interrupt(book)
            case 9:
                with trio.move_on_after(20):
                    await handle.interrupt("after_step", grace=self.random.random())
            case 10:
                handle.interrupt_nowait(self.random.choice(["now", "after_step"]))
            case 11:
                await self.answer_prompts(handle)
            case 12:
                await self.withdraw(book)
            case 13 if self.chance(0.3):
                self._is_touched(book, life)
                await handle.shutdown(self.random.random())
                expect(book.outcome is not None, "shutdown() returns after the end", handle)
            case 14 if self.chance(0.3):
                await self.kill(book, life)
            case 15:
                await self.stream(book)
            case 16 if life is None:
                await self.do_to_the_whole()
            case 17:
                await self.hand_in_result()

    @staticmethod
    def _is_touched(book, life):
        """Note that an agent waits for its own subagent."""
        if life is not None and book.parent is not None and book.parent.book is life.book:
            book.touched = True

    async def send(self, book):
        text = self.new("hello")
        if self.chance(0.5):
            receipt = await book.handle.send_input(text)
        else:
            receipt = book.handle.send_input_nowait(text)
        book.sent[text] = receipt.input_id

    async def ask(self, book, life=None, timeout=None):
        self._is_touched(book, life)
        text = self.new("ask")
        self.tally["ask"] += 1
        try:
            book.asked[text] = await book.handle.ask(text, timeout)
        except SelfWaitError:
            self.tally["a wait without an end refused"] += 1
            raise

    async def interrupt(self, book):
        actor, grace, began = book.actor, self.random.random(), trio.current_time()
        turn = actor.turns.in_flight
        report = await book.handle.interrupt(grace=grace)
        self.tally["interrupt"] += 1
        took = trio.current_time() - began
        expect(took <= grace + 0.2501, "an interrupt returns in time", took, grace)
        if not any(self.tally[mishap] for mishap in LEFT_OPEN):
            # No shield lasts longer than the margin, and the grace has shortened all clean-ups.
            expect(not report.abandoned, "an interrupt leaves nothing behind", report, grace)
        if turn is None or report.abandoned:
            return
        expect(actor.turns.current is not turn, "an interrupted turn is over", book.handle)
        # A turn that was dropped before it was opened has no end.
        is_completed = turn._done is not None and turn._done.status is TurnStatus.COMPLETED
        left = [] if is_completed else actor.children.alive(of_turn=turn)
        expect(not left, "what an interrupted turn spawned is gone", book.handle, left)

    async def kill(self, book, life):
        book.handle.kill()
        if life is None:
            with trio.move_on_after(LONGEST_SHIELD + 0.1) as scope:
                await book.handle.wait()
            expect(not scope.cancelled_caught, "a killed agent ends at once", book.handle)

    async def withdraw(self, book):
        withdrawn = await book.handle.withdraw_inputs(*book.sent.values())
        expect(not book.withdrawn & set(withdrawn), "an input is withdrawn once", withdrawn)
        book.withdrawn |= set(withdrawn)

    async def answer_prompts(self, handle):
        async with handle.subscribe(answers=True):
            await self.rest()
            for request in await handle.pending():
                await handle.respond_permission(
                    request.request_id, self.random.choice(["allow", "deny"])
                )

    async def hand_in_result(self):
        if self.client_calls:
            handle, call_id = self.random.choice(self.client_calls)
            await handle.send_tool_result(call_id, ToolResult.ok("done"))

    async def stream(self, book):
        receipt = None
        if self.chance(0.5):
            text = self.new("hello")
            receipt = await book.handle.send_input(text)
            book.sent[text] = receipt.input_id
        with trio.move_on_after(self.random.random() * 3):
            async for _ in book.handle.stream(receipt):
                pass

    async def do_to_the_whole(self):
        supervisor = self.random.choice([*self.supervisors] or [None])
        match self.random.randrange(4):
            case 0 if supervisor is not None:
                with trio.move_on_after(self.random.random() * 3):
                    await supervisor.shutdown(self.random.random())
            case 1 if supervisor is not None:
                self.spawn_supervised(supervisor, 1, self.supervisors[supervisor])
            case 2 if not self.supervises:
                self.spawn_root()
            case 3:
                for book in self.books.values():
                    await book.handle.statistics()
                    await book.handle.partial_text()

    async def read(self, book):
        """Read an agent from its first chunk to its last, at any pace."""
        chunks, missed = [], 0
        async with book.handle.subscribe("all") as subscription:
            async for chunk in subscription:
                if type(chunk).__name__ == "Lagged":
                    missed += chunk.missed
                else:
                    chunks.append(chunk)
                if self.chance(0.01):
                    await self.rest()
        book.readers.append((chunks, missed))

    async def _give_up(self):
        """End the program where something that no cancel reaches goes on for ever."""
        await trio.sleep(20_000)
        raise Violation("the program does not end")

    async def run(self):
        trio.lowlevel.spawn_system_task(self._give_up)
        living = trio.lowlevel.current_statistics().tasks_living
        leaving = KeyError("the block's own error")
        with trio.fail_after(10_000):
            async with trio.open_nursery() as self.readers:
                with trio.CancelScope() as scope:
                    try:
                        await self.live(scope, leaving)
                    except KeyError as error:
                        expect(error is leaving, "the block's own error leaves as it was")
            expect(
                trio.lowlevel.current_statistics().tasks_living == living, "no living task is left"
            )
            await self.audit()

    async def live(self, scope, leaving):
        async with AgentRuntime(
            store=self.store(), limits=self.limits, instruments=[Ends(self), *self.watchers]
        ) as self.runtime:
            self.mild = self.enrol(self.runtime.spawn(AgentSession.new("mild"), self.be_mild))
            self.begin()
            for book in self.random.sample(list(self.books.values()), 2):
                self.readers.start_soon(self.read, book)
            await self.act()
            await self.ask_mild()
            if self.way == "cancel":
                scope.cancel()
                await trio.sleep_forever()
            if self.way == "raise":
                raise leaving

    async def act(self):
        async with trio.open_nursery() as outside, trio.open_nursery() as people:
            self.outside = outside
            people.start_soon(self.visit)
            for _ in range(3):
                people.start_soon(self.person)
            while people.child_tasks:
                self.look()
                await trio.sleep(0.7)
            self.outside = None
        await self.settle()

    async def settle(self):
        """Let all waits end; they do, unless an agent never leaves what it entered by hand."""
        with trio.move_on_after(300):
            while self.waits:
                self.wait_ended = trio.Event()
                await self.wait_ended.wait()
        if not any(self.tally[mishap] for mishap in ("enter_turn", "leave_slot_open")):
            for wait in self.waits:
                self.complain(wait)

    def look(self):
        self.look_at_purses()
        for book in self.books.values():
            book.look(self.runtime)

    async def audit(self):
        expect(self.runtime.list_active() == (), "the registry is empty")
        expect(self.runtime.supervisors == (), "no supervisor is left")
        self.look()
        for budget in self.purses:
            figures = budget.statistics()
            expect(
                (figures.running, figures.waiting) == (0, 0), "all slots are given back", figures
            )
        for book in self.books.values():
            await book.audit()
            await refuses(book.handle)
            self.tally["restart"] += book.outcome.restarts
        for supervisor in self.supervisors:
            outcome = await supervisor.wait()
            expect(supervisor.children == (), "a supervisor that ended has no children")
            expect(outcome.restarts == supervisor.statistics().restarts, "restarts are counted")
        ended = EndStatus.COMPLETED if self.way == "leave" else EndStatus.CANCELLED
        expect(self.mild.outcome.status is ended, "the mild agent lives on", self.mild.outcome)
        expect(not self.complaints, "a program goes as it should", *self.complaints)


class Family(World):
    """Agents under the runtime, with their subagents."""

    supervises = False

    def begin(self):
        for _ in range(self.random.randrange(1, 4)):
            self.spawn_root()


class Tree(World):
    """Agents under supervisors, which may be under agents."""

    supervises = True

    def begin(self):
        for _ in range(2):
            self.grow(self.runtime.supervisor(**self.options()), 2)
        while len(self.books) < 2:
            self.grow(self.runtime.supervisor(**self.options()), 0)


__all__ = ["Family", "Tree", "Violation", "World"]
