"""`ConsoleRenderer` on a terminal that the test holds in its hands."""

import logging
import os
import signal
import threading
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from greenroom.cli import ConsoleRenderer, painter, person, screen
from greenroom.cli.terminal import Closed, Frame, Key, KeyName, Line, PromptQuestion
from greenroom.cli.terminal_choice import terminal_opener
from greenroom.core import (
    GreenroomError,
    RuleDecision,
    TextComplete,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolProgress,
    ToolResult,
    ToolStart,
    Usage,
    UsageReport,
)
from greenroom.core._internal import EndStatus, notice
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore

ESC, CTRL_C, CTRL_D = KeyName.ESCAPE, KeyName.CTRL_C, KeyName.CTRL_D


class HandTerminal:
    """A terminal whose frames can be read, and whose person is the test."""

    colors = None
    size = (100, 40)
    is_live = True
    echoes = False

    def __init__(self):
        self.frames = [Frame()]
        self.cleared = 0
        self.put = []
        self.offered = {}
        self._send, self.events = trio.open_memory_channel(100)
        self._shown = trio.Event()

    @asynccontextmanager
    async def open(self):
        yield self

    async def show(self, frame):
        # In the order of the calls, as every terminal has to.
        self.frames.append(frame)
        self._shown.set()
        self._shown = trio.Event()
        await trio.lowlevel.checkpoint()

    def clear_line(self):
        self.cleared += 1

    def put_back(self, text):
        self.put.append(text)

    def adopt(self, options):
        self.options = options

    def restyle(self, styles):
        self.styles = styles

    def know(self, commands):
        self.commands = commands

    def offer(self, kind, candidates):
        self.offered[kind] = candidates

    @property
    def frame(self):
        return self.frames[-1]

    @property
    def text(self):
        printed = "".join(frame.scrollback for frame in self.frames)
        asked = self.frame.question
        question = f"{asked.shown.whole(99)}{asked.place}\n" if asked else ""
        return f"{printed}{self.frame.live}\n{question}{self.frame.hint}\n{self.frame.status(99)}"

    async def wait_for(self, *texts, without=()):
        with trio.fail_after(60):
            while not (
                all(text in self.text for text in texts)
                and not any(text in self.text for text in without)
            ):
                await self._shown.wait()

    async def say(self, text):
        await self._send.send(Line(text))

    async def answer(self, text):
        await self._send.send(Line(text, self.frame.question.id))

    async def press(self, name, line="", *, is_first=False):
        await self._send.send(Key(name, line, is_first))

    async def end(self):
        await self._send.send(Closed())

    def vanish(self):
        self._send.close()


class Stage:
    """An agent, a renderer that shows it, and the terminal in the test's hands."""

    def __init__(self, handle, terminal):
        self.handle = handle
        self.terminal = terminal
        self.result = "still running"


@asynccontextmanager
async def stage(agent, limits=None, **options):
    async with AgentRuntime(InMemoryStore(), limits) as runtime:
        handle = runtime.spawn(AgentSession.new("actor"), agent)
        terminal = HandTerminal()
        it = Stage(handle, terminal)

        async def run():
            it.result = await ConsoleRenderer(handle, terminal=terminal.open, **options).run()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield it
            with trio.fail_after(100):
                await handle.shutdown(grace=0)


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextDelta(f"you said {message.text}"))
            await agent.send(TextComplete(f"you said {message.text}"))


async def asker(agent):
    """Asks for as many permissions as it is told, side by side, and tells the answers."""
    async for message in agent.inputs():
        async with agent.turn(message):
            async with trio.open_nursery() as nursery:
                for number in range(int(message.text) if message.text.isdigit() else 0):
                    nursery.start_soon(ask, agent, number)
                    await trio.testing.wait_all_tasks_blocked()  # so that they ask in order


async def ask(agent, number):
    answer = await agent.request_permission(
        "Tool",
        f"action {number}",
        details=f"do {number}",
        remembers=("allow Tool",),
        forbids=("deny Bash(x)",),
    )
    await agent.send(
        TextComplete(f"{number}: {answer.decision} {answer.remember} {answer.message}")
    )


async def sleeper(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextDelta(f"begun with {message.text}"))
            await trio.sleep_forever()


async def test_what_is_said_goes_to_the_agent_and_its_answer_is_printed():
    async with stage(echo) as it:
        await it.terminal.say("hello")
        await it.terminal.wait_for("> hello\n", "you said hello", "idle")


async def test_it_says_how_the_agent_ended_and_returns_that():
    async def ends(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                pass
            return

    async with stage(ends) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("the agent has ended: completed")
    assert it.result.status is EndStatus.COMPLETED


async def test_it_says_why_the_agent_crashed():
    async def crashes(agent):
        await agent.receive()
        raise ValueError("of no use")

    async with stage(crashes) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("the agent has ended: crashed: ValueError: of no use")
    assert it.result.status is EndStatus.CRASHED


@pytest.mark.parametrize("command", ["/quit", "/exit"])
async def test_leaving_leaves_the_agent_running(command):
    async with stage(echo) as it:
        await it.terminal.say(command)
        with trio.fail_after(60):
            while it.result is not None:
                await trio.testing.wait_all_tasks_blocked()
        assert (await it.handle.ask("still there?")).text == ""
    assert it.result is None


async def test_a_path_is_no_command():
    async with stage(echo) as it:
        await it.terminal.say("/etc/hosts is what?")
        await it.terminal.wait_for("you said /etc/hosts is what?")


async def test_an_empty_line_is_nothing():
    async with stage(echo) as it:
        await it.terminal.say("  ")
        await it.terminal.say("x")
        await it.terminal.wait_for("you said x", without=["you said  "])


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("y", "0: allow None"),
        ("YES ", "0: allow None"),
        ("s", "0: allow session"),
        ("project", "0: allow project"),
        ("always", "0: allow always"),
        ("n", "0: deny None"),
        ("never", "0: deny always"),
    ],
)
async def test_each_choice_is_a_letter_or_a_word(typed, told):
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("action 0")
        await it.terminal.answer(typed)
        await it.terminal.wait_for(told, "idle")
        assert it.terminal.frame.question is None


@pytest.mark.parametrize("typed", ["yes please", "y, but list *.md first", "ye", "nope"])
async def test_what_is_no_choice_is_refused_with_the_choices_and_never_sent(typed):
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("action 0")
        await it.terminal.answer(typed)
        await it.terminal.wait_for(f"“{typed}” is not a choice, and was not sent: [y] once")
        await it.terminal.answer("y")
        await it.terminal.wait_for("0: allow", "idle", without=["queued", f"> {typed}"])


async def test_a_question_leaves_a_record_before_its_answer_and_a_withdrawn_one_says_so():
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("actor asks: action 0")
        await it.terminal.answer("y")
        record = "actor: do 0 · "
        await it.terminal.wait_for(f"✓ {record}Tool allowed by user", without=["actor asks"])
        await it.terminal.say("1")
        await it.terminal.wait_for("actor asks: action 0")
        await it.terminal.press(ESC)
        gone = f"- {record}the question about Tool was withdrawn"
        await it.terminal.wait_for(gone, without=["actor asks"])


async def test_one_question_at_a_time_and_each_answer_is_for_its_own():
    async with stage(asker) as it:
        terminal = it.terminal
        await terminal.say("3")
        await terminal.wait_for("action 0", "question 1 of 3", without=["action 1"])
        first = terminal.frame.question
        await terminal.answer("y")
        await terminal.wait_for("action 1", "question 2 of 3")
        # An answer to the question before is an answer to nothing now.
        await terminal._send.send(Line("y", first.id))
        await terminal.wait_for("decided already", "action 1")
        await terminal.answer("n")
        await terminal.wait_for("action 2")
        await terminal.answer("y")
        await terminal.wait_for("0: allow", "1: deny", "2: allow")


async def test_a_question_that_comes_while_all_is_unfolded_takes_its_place(monkeypatch):
    begun, paint = trio.Event(), painter.Painter.paint

    def notice_unfolding(self, parts, columns, **options):
        if options.get("unfolds"):
            begun.set()
        return paint(self, parts, columns, **options)

    async def asks_meanwhile(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for number in range(100):  # others run after each
                    await agent.send(TextComplete(f"part {number}"))
                await begun.wait()
                await ask(agent, 0)

    monkeypatch.setattr(painter.Painter, "paint", notice_unfolding)
    async with stage(asks_meanwhile) as it:
        await it.terminal.say("go")
        await it.terminal.wait_for("part 99")
        await it.terminal.press(KeyName.UNFOLD)
        await it.terminal.wait_for("action 0")
        await trio.testing.wait_all_tasks_blocked()
        assert not any(frame.page and frame.question for frame in it.terminal.frames)
        await it.terminal.answer("y")
        await it.terminal.wait_for("0: allow")


async def test_a_question_that_is_answered_elsewhere_closes():
    async with stage(asker) as it:
        await it.terminal.say("2")
        await it.terminal.wait_for("action 0", "question 1 of 2")
        [request, _] = await it.handle.pending()
        await it.handle.respond_permission(request.request_id, RuleDecision.DENY, by="the phone")
        await it.terminal.wait_for("Tool denied by the phone", "action 1")
        await it.terminal.answer("y")
        await it.terminal.wait_for("1: allow")


async def test_an_answer_that_comes_too_late_is_told_so_and_goes_nowhere():
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("action 0")
        asked = it.terminal.frame.question
        await it.terminal.press(ESC)
        await it.terminal.wait_for("was withdrawn", "idle")
        await it.terminal._send.send(Line("y", asked.id))
        await it.terminal.wait_for("that question is decided already", without=["> y"])
        await it.terminal._send.send(Line("yes, of course", asked.id))
        await it.terminal.say("hello")
        await it.terminal.wait_for("> hello", without=["> yes, of course"])


async def test_a_reason_may_be_left_out_and_the_question_stays():
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("action 0")
        await it.terminal.answer("why")
        with trio.fail_after(60):
            while not it.terminal.frame.question.is_follow_up:
                await it.terminal._shown.wait()
        await it.terminal.answer("")
        await it.terminal.wait_for("the question is still open")
        await it.terminal.answer("w")
        with trio.fail_after(60):
            while not it.terminal.frame.question.is_follow_up:
                await it.terminal._shown.wait()
        await it.terminal.answer("too dangerous")
        await it.terminal.wait_for("0: deny None too dangerous")


async def test_what_can_not_be_remembered_is_told_so():
    async def once(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.request_permission("Tool", "dynamic")

    async with stage(once) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("dynamic")
        await it.terminal.answer("always")
        await it.terminal.wait_for("always: not possible here")
        assert it.terminal.frame.question is not None
        await it.terminal.answer("")
        await it.terminal.answer("n")
        await it.terminal.wait_for("denied by user")


async def test_a_subagents_question_is_answered_here_and_its_output_nested():
    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                child = agent.spawn(
                    AgentSession.new("asker"), middle, name="the one in the middle of the family"
                )
                await child.ask("1")

    async def middle(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                child = agent.spawn(AgentSession.new("asker"), asker, name="grandchild")
                await child.ask(message.text)

    async with stage(parent) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("grandchild asks: action 0", "grandchild │ ")
        await it.terminal.answer("y")
        await it.terminal.wait_for("the one in the… │ grandchild │ 0: allow")


async def test_escape_interrupts_and_the_text_so_far_stays():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.press(ESC)
        await it.terminal.wait_for("begun with one\n\ninterrupted", "idle")


async def test_what_is_queued_stands_below_until_its_turn_begins():
    async with stage(asker) as it:
        await it.terminal.say("1")
        await it.terminal.wait_for("action 0")
        await it.terminal.say("two")
        await it.terminal.wait_for("queued: two", "Up takes it back", without=["> two"])
        await it.terminal.answer("n")
        await it.terminal.wait_for("> two", "idle", without=["queued: two"])


@pytest.mark.parametrize("key", [ESC, CTRL_C])
async def test_what_is_queued_comes_back_into_the_line_and_does_not_run(key):
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.say("and\nthree")
        await it.terminal.wait_for("queued: two", "queued: and")
        await it.terminal.press(key)
        await it.terminal.wait_for("begun with one", without=["queued"])
        assert it.terminal.put == ["two\nand\nthree"]
        await it.terminal.wait_for("interrupted", "idle", without=["> two"])
        await it.terminal.say("four")
        await it.terminal.wait_for("begun with four", without=["begun with two"])


async def test_a_key_takes_the_last_queued_input_back_and_leaves_the_others():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.say("and\nthree")
        await it.terminal.wait_for("queued: two", "queued: and")
        await it.terminal.press(KeyName.TAKE_BACK)
        await it.terminal.wait_for("queued: two", without=["queued: and"])
        await it.terminal.press(KeyName.TAKE_BACK)
        await it.terminal.wait_for("begun with one", without=["queued"])
        assert it.terminal.put == ["and\nthree", "two"]


async def test_the_first_queued_input_joins_the_turn_that_runs():
    told = trio.Event()

    async def stepper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextComplete(f"begun with {message.text}"))
                await told.wait()
                await agent.step()
                texts = [each.text for each in agent.session.history]
                await agent.send(TextComplete(f"knows {', '.join(texts)}"))

    async with stage(stepper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.say("three")
        await it.terminal.wait_for("queued: two", "queued: three")
        await it.terminal.press(KeyName.STEER)
        await it.terminal.wait_for("joins the turn")
        told.set()
        await it.terminal.wait_for("> two", "knows one, two", "begun with three")
        await it.terminal.wait_for("knows one, two, three", "idle", without=["begun with two"])


async def test_what_was_meant_for_the_turn_and_not_taken_comes_back_too():
    async def steerable(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                await agent.send(TextDelta(f"begun with {message.text}"))
                await trio.sleep_forever()

    async with stage(steerable) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.wait_for("> two")
        await it.terminal.press(ESC)
        await it.terminal.wait_for("interrupted", "idle", without=["begun with two"])
        assert it.terminal.put == ["two"]


async def test_a_terminal_without_a_line_of_its_own_is_told_what_was_not_sent():
    async with stage(sleeper) as it:
        it.terminal.is_live = False
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.wait_for("queued: two")
        await it.terminal.press(ESC)
        await it.terminal.wait_for("not sent: two", "idle", without=["begun with two"])


async def test_whoever_leaves_is_told_what_was_not_sent_any_more():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("two")
        await it.terminal.wait_for("queued: two")
        await it.terminal.say("/quit")
        await it.terminal.wait_for("not sent: two")


async def test_ctrl_c_interrupts_clears_a_line_and_twice_on_an_empty_one_leaves():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.press(CTRL_C, "half a line")
        await it.terminal.wait_for("interrupted", "idle")
        assert it.terminal.cleared == 0
        await it.terminal.press(CTRL_C, "half a line")
        await it.terminal.press(CTRL_C)
        await it.terminal.wait_for("Ctrl-C again leaves")
        assert it.terminal.cleared == 1
        assert it.result == "still running"
        await it.terminal.press(CTRL_C)
        with trio.fail_after(60):
            while it.result is not None:
                await trio.testing.wait_all_tasks_blocked()


async def test_any_key_between_two_ctrl_c_disarms_the_exit(autojump_clock):
    async with stage(echo) as it:
        await it.terminal.press(CTRL_C)
        await it.terminal.wait_for("Ctrl-C again leaves")
        await it.terminal.press(CTRL_C, is_first=True)
        await trio.sleep(0.1)
        assert it.result == "still running"
        await it.terminal.press(CTRL_C)
        while it.result is not None:
            await trio.testing.wait_all_tasks_blocked()


async def test_one_ctrl_c_while_idle_says_that_another_leaves(autojump_clock):
    async with stage(echo) as it:
        await it.terminal.press(CTRL_C)
        await it.terminal.wait_for("Ctrl-C again leaves")
        await it.terminal.wait_for("/help", without=["Ctrl-C again leaves"])
        await it.terminal.press(CTRL_C)
        await it.terminal.wait_for("Ctrl-C again leaves")
        assert it.result == "still running"
        await it.terminal.press(CTRL_C)
        while it.result is not None:
            await trio.testing.wait_all_tasks_blocked()


async def test_whoever_leaves_in_the_middle_keeps_what_was_said_so_far():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.say("/quit")
        with trio.fail_after(60):
            while it.result is not None:
                await trio.testing.wait_all_tasks_blocked()
        assert "begun with one" in "".join(frame.scrollback for frame in it.terminal.frames)


async def test_a_renderer_that_is_cancelled_keeps_what_was_said_so_far_on_the_screen(
    autojump_clock,
):
    terminal = HandTerminal()
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("actor"), sleeper)
        nursery.start_soon(ConsoleRenderer(handle, terminal=terminal.open).run)
        await terminal.say("one")
        await terminal.wait_for("begun with one")
        assert "begun with one" not in "".join(frame.scrollback for frame in terminal.frames)
        nursery.cancel_scope.cancel()
    assert "begun with one" in "".join(frame.scrollback for frame in terminal.frames)


async def test_ctrl_c_on_a_line_of_an_idle_agent_throws_the_line_away(autojump_clock):
    async with stage(echo) as it:
        await it.terminal.press(CTRL_C, "half a line")
        await trio.sleep(0.1)
        await it.terminal.press(CTRL_C, "half a line", is_first=True)
        await trio.sleep(60)
        assert it.terminal.cleared == 2
        assert it.result == "still running"


async def test_ctrl_d_on_an_empty_line_leaves_also_while_the_agent_works():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        await it.terminal.press(CTRL_D)
        with trio.fail_after(60):
            while it.result is not None:
                await trio.testing.wait_all_tasks_blocked()


async def test_an_interrupt_from_outside_is_one_like_ctrl_c():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun with one")
        os.kill(os.getpid(), signal.SIGINT)
        await it.terminal.wait_for("interrupted", "idle")


async def test_what_an_interrupt_had_to_leave_behind_is_told(autojump_clock):
    async def stubborn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("begun"))
                with trio.CancelScope(shield=True):
                    await trio.sleep(30)

    async with stage(stubborn) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun")
        await it.terminal.press(ESC)
        await it.terminal.wait_for("still running: ")


async def test_at_the_end_of_the_input_the_work_is_finished_and_questions_are_denied():
    async with stage(asker) as it:
        await it.terminal.say("2")
        await it.terminal.end()
        await it.terminal.wait_for("0: deny None standard input has ended", "1: deny")
    assert it.result is None


async def test_a_terminal_that_goes_away_is_left_at_once():
    async with stage(sleeper) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun")
        it.terminal.vanish()
        with trio.fail_after(60):
            while it.result is not None:
                await trio.testing.wait_all_tasks_blocked()


async def test_an_input_for_which_there_is_no_room_is_shown_again():
    async with stage(sleeper, RuntimeLimits(mailbox=1)) as it:
        await it.terminal.say("one")
        await it.terminal.wait_for("begun")
        await it.terminal.say("two")
        await it.terminal.say("three")
        await it.terminal.wait_for("not sent: three")


async def test_a_reader_that_was_too_slow_is_told_and_still_asks_what_is_open():
    async def flood(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for number in range(500):
                    agent.send_nowait(ThinkingDelta(f"{number} "))
                await agent.request_permission("Tool", "after the flood")

    async with stage(flood, RuntimeLimits(ring_chunks=50)) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("updates came too fast", "after the flood")
        await it.terminal.answer("y")
        await it.terminal.wait_for("allowed by user")


async def test_a_failed_turn_shows_the_error_and_what_to_do():
    async def fails(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                raise GreenroomError("the model is down", hint="try later")

    async with stage(fails) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("error: the model is down\n  → try later", "idle")


async def test_running_tools_are_live_and_are_printed_once_when_they_end():
    async def works(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(ThinkingDelta("let me see"))
                await agent.send(ToolStart("t", "Bash", {"command": "make"}))
                await agent.send(ToolProgress("t", "compiling\n"))
                await agent.send(ToolProgress("unknown", "x"))
                while (await agent.receive()).text != "on":
                    pass
                await agent.send(ToolEnd("t", ToolResult.ok("built")))
                usage = Usage(100, 500, cache_read_tokens=900)
                await agent.send(UsageReport(usage, Usage(), "model-x"))

    async with stage(works, model="early") as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("let me see", "● Bash", "compiling", "early")
        assert "● Bash" in it.terminal.frame.live
        await it.terminal.say("on")
        await it.terminal.wait_for("built", "1,500 tokens · cache 90 %", "model-x")
        assert it.terminal.text.count("● Bash") == 1


async def test_the_status_line_shows_how_full_the_window_is_where_it_is_known():
    async def talks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(UsageReport(Usage(40_000, 10_000), Usage(), "model-x"))
                await agent.send(UsageReport(Usage(18_000, 2_000, cache_read_tokens=0)))

    async with stage(talks, model="anthropic:claude-haiku-4-5") as it:
        await it.terminal.say("x")
        await it.terminal.wait_for(" · context 10% · ")
    async with stage(talks, model="acme:model") as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("70,000 tokens", without=["context"])


async def test_compact_is_an_input_that_says_nothing_and_waits_for_no_turn():
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextComplete(f"{message.text} with {message.metadata}"))
                if message.text == "stay":
                    await trio.sleep_forever()

    async with stage(agent_fn) as it:
        await it.terminal.say("/compact")
        await it.terminal.wait_for("/compact with {'command': 'compact'}", "idle")
        await it.terminal.say("stay")
        await it.terminal.wait_for("stay with {}")
        await it.terminal.say("/compact")
        await it.terminal.wait_for("/compact has to wait for the end of the turn")


@pytest.mark.parametrize(("cost", "shown"), [(1.23456, " · 1.2346 EUR"), (0.0, ""), (None, "")])
async def test_the_cost_is_shown_where_it_is_known_and_something_was_charged(cost, shown):
    async def costly(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(UsageReport(Usage(100, 500, cost=cost), Usage(), "model-x"))

    async with stage(costly, currency="EUR") as it:
        await it.terminal.say("x")
        await it.terminal.wait_for(f"model-x · 600 tokens{shown} · /help")


async def test_a_long_output_is_printed_even_while_the_reader_lags_behind():
    async def talks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(60):
                    agent.send_nowait(TextDelta("word " * 400 + "\n\nnext\n\n"))
                agent.send_nowait(TextDelta("finished"))

    async with stage(talks) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("finished")
        assert it.terminal.text.count("next") == 60


async def test_what_waits_to_be_painted_is_looked_at_once(monkeypatch):
    looked = []

    def look(part):
        looked.append(part)
        return True

    monkeypatch.setattr(screen, "is_simple", look)
    monkeypatch.setattr(screen, "is_parser_loaded", lambda: False)
    monkeypatch.setattr(screen, "_PAINTING", 0)  # nothing is painted, so all waits

    async def talks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(20):
                    await agent.send(TextDelta("word\n\nnext\n\n" * 20))
                    await trio.testing.wait_all_tasks_blocked()
                await agent.send(TextDelta("finished"))

    async with stage(talks) as it:
        await it.terminal.say("x")
        await it.terminal.wait_for("finished")
        monkeypatch.setattr(screen, "_PAINTING", 1)
    assert len(looked) < 4_000  # 800 paragraphs, each with a blank row, and what is live


async def test_what_comes_first_is_printed_first():
    async with stage(echo, opening=["welcome"]) as it:
        await it.terminal.wait_for("welcome")


def test_what_is_no_terminal_gets_plain_text():
    assert terminal_opener({"TERM": "xterm"}).__name__ == "open_plain_terminal"


async def test_what_is_logged_is_a_note_or_a_hint_and_never_written_across_the_screen(
    monkeypatch, capsys, autojump_clock
):
    logger = logging.getLogger("greenroom")
    monkeypatch.setattr(logger, "propagate", False)  # the tests' own handler takes everything
    watchdog = logging.getLogger("greenroom.watchdog")
    async with stage(echo) as it:
        await it.terminal.wait_for("idle")
        notice(watchdog, "blocked for 1.00 s by the agent x\n  File a.py, line 1")
        await it.terminal.wait_for("blocked for 1.00 s by the agent x")
        notice(watchdog, "the event loop goes on; it was blocked for 3.00 s")
        notice(logging.getLogger("greenroom.permissions"), "a rule has no effect")
        assert it.terminal.frame.hint == "blocked for 1.00 s by the agent x"
        await it.terminal.wait_for("a rule has no effect", without=["blocked for", "goes on"])
    notice(logger, "afterwards")
    assert capsys.readouterr().err == "greenroom: afterwards\n"


async def test_a_question_takes_no_answer_before_it_is_shown(monkeypatch):
    reached, release = threading.Event(), threading.Event()

    def slow(folder):
        reached.set()
        assert release.wait(10)
        return ""

    monkeypatch.setattr(person, "_warn_of_foreign", slow)
    async with stage(asker) as it:
        try:
            await it.terminal.say("1")
            await trio.to_thread.run_sync(reached.wait, 10)
            await it.terminal.say("hello")  # draws all anew
            await it.terminal.wait_for("queued: hello", without=["actor asks"])
            assert it.terminal.frame.question == PromptQuestion("", "")
        finally:
            release.set()
        await it.terminal.wait_for("actor asks: action 0")
        await it.terminal.answer("y")
        await it.terminal.wait_for("0: allow", "idle")


async def test_a_question_that_is_decided_before_it_is_shown_is_passed_over(monkeypatch):
    reached, release = threading.Event(), threading.Event()

    def slow(folder):
        reached.set()
        assert release.wait(10)
        return ""

    monkeypatch.setattr(person, "_warn_of_foreign", slow)
    async with stage(asker) as it:
        try:
            await it.terminal.say("3")
            await trio.to_thread.run_sync(reached.wait, 10)
            while len(pending := await it.handle.pending()) < 3:
                await trio.testing.wait_all_tasks_blocked()
            # The person at the keys ends the first, before anything of it is shown.
            await it.terminal.press(CTRL_D)
            while len(await it.handle.pending()) == 3:
                await trio.testing.wait_all_tasks_blocked()
            await it.handle.respond_permission(pending[1].request_id, RuleDecision.DENY)
        finally:
            release.set()
        await it.terminal.wait_for("actor asks: action 2")
        await it.terminal.answer("y")
        await it.terminal.wait_for("2: allow", "idle", without=["actor asks: action 0"])


async def test_a_question_in_words_is_answered_with_a_line_and_ctrl_d_gives_none():
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answer = await agent.request_permission(
                    "AskPerson", "Answer a question", details="Which?", options=()
                )
                await agent.send(TextComplete(f"told: {answer.decision} {answer.message}."))

    async with stage(asks) as it:
        await it.terminal.say("go")
        await it.terminal.wait_for("Which?", "type an answer")
        await it.terminal.answer("/quit")
        await it.terminal.wait_for("told: allow /quit.")
        await it.terminal.say("again")
        await it.terminal.wait_for("type an answer")
        await it.terminal.press(CTRL_D)
        await it.terminal.wait_for("told: deny .")


async def test_all_that_an_agent_said_is_printed_however_soon_it_ends(monkeypatch):
    """To paint it takes far longer than a terminal has for the last frame."""
    monkeypatch.setattr("greenroom.cli.renderer._LAST_FRAME", 0.01)

    async def talker(agent):
        for n in range(900):
            await agent.send(TextDelta(f"paragraph {n}.\n\n"))

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker)
        terminal = HandTerminal()
        with trio.fail_after(60):
            await ConsoleRenderer(handle, terminal=terminal.open).run()
    printed = "".join(frame.scrollback for frame in terminal.frames)
    assert [f"paragraph {n}." in printed for n in (0, 450, 899)] == [True] * 3


def test_what_is_not_a_handle_is_told_with_what_to_write():
    with pytest.raises(TypeError, match=r"write ConsoleRenderer\(runtime.spawn\(session, agent"):
        ConsoleRenderer("desk")
