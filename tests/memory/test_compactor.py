"""A conversation that outgrows its window: what stays, what it costs, and what a crash leaves."""

import re

import pytest
import trio

from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    Custom,
    MemoryStore,
    Message,
    ModelContextTooLongError,
    ToolRegistry,
    TurnStatus,
    stream_reply,
    tool,
)
from greenroom.core import (
    ModelOverloadedError,
    ModelRequest,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.llm import EstimatedCounter
from greenroom.memory import Compactor, ContextBudget, EntryOrigin
from greenroom.memory.senders import RECALLED
from greenroom.memory.summary import Summary
from greenroom.testing import Reply, Scenario, ScriptedProvider, cancel_at_every_checkpoint
from greenroom.testing.fuzz.invariants import INVARIANTS, input_is_accounted_for

BUDGET = ContextBudget(8_000, reply=1_024)
FILLER = "The quick brown fox jumps over the lazy dog near the old river bank. " * 8
SAID = [
    "I'm vegetarian.",
    "My name is Ada Lovelace.",
    "The budget is 1,750 euros.",
    "We meet on 2027-03-14 at nine.",
    "The page is https://example.org/plans?id=7.",
    "The code is in /srv/app/main.py.",
    "My daughter is called Zoë.",
    "Never book a night train.",
    "The customer number is 88-1204.",
    "I prefer window seats.",
]
FACTS = [f"FACT-{number}: {text}" for number, text in enumerate(SAID)]


def is_summary(request: ModelRequest) -> bool:
    return "You keep the notes" in str(request.system)


class Model(ScriptedProvider):
    """Answers at length, and writes notes as it is told to; it refuses what its window does not take."""

    def __init__(self, notes="ok", window=8_000):
        super().__init__(*[self.answer] * 400)
        self.notes, self.window = notes, window
        self.summaries: list[ModelRequest] = []
        self.requests_sent: list[ModelRequest] = []

    def answer(self, request):
        size = EstimatedCounter().count(request)
        assert size + (request.max_tokens or 1_024) <= self.window, size
        usage = Usage(size, 100)
        if is_summary(request):
            self.summaries.append(request)
            return Reply(self.notes(request) if callable(self.notes) else self.notes, usage)
        self.requests_sent.append(request)
        return Reply(f"Answer {len(self.requests_sent)}. {FILLER}", usage)


async def talk(session, llm, texts, **options):
    """Hold a conversation; return what was told of compactions."""

    async def agent(internals: AgentInternals) -> None:
        compactor = Compactor(llm, BUDGET, **options)
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, system="Be kind.", compactor=compactor)

    told = []

    async def read(chunks):
        told.extend([chunk async for chunk in chunks if isinstance(chunk, Custom)])

    async with AgentRuntime(store=session.store or MemoryStore()) as runtime:
        handle = runtime.spawn(session, agent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, handle.subscribe())
            for text in texts:
                result = await handle.ask(text)
                assert result.status is TurnStatus.COMPLETED, result.error
            await handle.shutdown()
    return [chunk for chunk in told if chunk.kind == "memory.compacted"]


def inputs(count, said=SAID):
    return [
        said[turn] if turn < len(said) else f"Tell me about town {turn}." for turn in range(count)
    ]


def whole(request):
    return "\n".join(message.text for message in request.messages)


async def test_what_the_user_said_survives_200_turns_whatever_the_notes_say():
    llm = Model("ok")
    told = await talk(AgentSession.new("agent"), llm, inputs(200))
    late = whole(llm.requests_sent[149])
    assert [text for text in SAID if text not in late] == []
    assert 5 <= len(told) <= 25
    assert len(llm.summaries) == len(told)
    assert "Tell me about town 148." in late


async def test_facts_survive_by_the_notes_and_each_segment_is_read_once():
    def notes(request):
        return "\n".join(
            dict.fromkeys(re.findall(r"FACT-\d: .*?\.(?= The quick|\n|$)", whole(request)))
        )

    llm = Model(notes)
    texts = inputs(150, [f"{fact} {FILLER}" for fact in FACTS])
    told = await talk(AgentSession.new("agent"), llm, texts)
    late = whole(llm.requests_sent[149])
    assert [fact for fact in FACTS if fact.split(": ")[1] not in late] == []
    assert len(told) <= 25
    answers = [re.findall(r"Assistant: Answer (\d+)\.", whole(each)) for each in llm.summaries]
    read = [number for numbers in answers for number in numbers]
    assert len(read) == len(set(read)) > 100


async def test_between_compactions_each_request_extends_the_last():
    llm = Model("ok")
    told = await talk(AgentSession.new("agent"), llm, inputs(120))
    breaks = 0
    for before, after in zip(llm.requests_sent, llm.requests_sent[1:], strict=False):
        breaks += tuple(after.messages[: len(before.messages)]) != tuple(before.messages)
    assert breaks == len(told)


async def test_a_model_that_can_not_write_notes_costs_the_notes_alone():
    def fail(request):
        raise ModelOverloadedError("busy", provider="scripted")

    llm = Model(fail)
    told = await talk(AgentSession.new("agent"), llm, inputs(60))
    assert told
    assert SAID[0] in whole(llm.requests_sent[-1])


async def test_old_results_shrink_first_and_nobody_is_asked():
    llm, session = Model("ok"), AgentSession.new("agent")
    session.add_message(Message.user("Read them all."))
    for number in range(9):
        session.add_message(Message.assistant([ToolUseBlock(f"c{number}", "Read", {})]))
        block = ToolResultBlock(f"c{number}", (TextBlock(FILLER * 5),))
        session.add_message(Message.user([block]))
    session.add_message(Message.assistant("Done."))
    (told,) = await talk(session, llm, ["Thanks."])
    assert llm.summaries == []
    texts = [result.text for message in session.history for result in message.tool_results]
    assert (
        texts[0] == f"[{len(FILLER) * 5} characters that Read returned are left out here: call c0]"
    )
    assert texts[-1] == FILLER * 5
    assert told.data["after"] < told.data["before"]
    assert told.text.startswith("the conversation was shortened: ")


async def test_one_huge_message_is_cut_and_the_turn_goes_on():
    llm = Model("ok")
    told = await talk(AgentSession.new("agent"), llm, ["Read this. " + FILLER * 100, "And?"])
    assert len(told) == 1
    assert "characters left out" in whole(llm.requests_sent[0])


async def test_a_request_that_is_refused_as_too_long_is_compacted_and_sent_once_more():
    class Strict(Model):
        refused = 0

        def answer(self, request):
            if not is_summary(request) and len(request.messages) > 20 and not self.refused:
                self.refused += 1
                raise ModelContextTooLongError("too long", provider="scripted")
            return super().answer(request)

    llm = Strict("ok")
    told = await talk(AgentSession.new("agent"), llm, inputs(15), at=1.0)
    assert (llm.refused, len(told)) == (1, 1)


async def test_it_gives_up_where_nothing_can_be_left_out():
    def refuse(request):
        raise ModelContextTooLongError("too long", provider="scripted")

    llm = ScriptedProvider(*[refuse] * 9)
    session = AgentSession.new("agent")

    async def agent(internals):
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, compactor=Compactor(llm))

    async with AgentRuntime(store=MemoryStore()) as runtime:
        result = await runtime.spawn(session, agent).ask("Hi.")
    assert result.status is TurnStatus.FAILED
    assert len(llm.requests) <= 2


async def test_the_summary_is_a_record_that_a_rewind_takes_back():
    llm, session = Model("ok"), AgentSession.new("agent", store=MemoryStore())
    await talk(session, llm, inputs(40))
    summary = Summary.load(session)
    assert summary is not None
    assert summary.notes == "ok"
    assert summary.said[0] == SAID[0]
    assert session.history[0].sender == "summary"
    again = await AgentSession.load(session.session_id, store=session.store)
    assert Summary.load(again) == summary
    await session.rewind(0)
    assert Summary.load(session) is None


class Notes(list):
    """A memory that only takes."""

    async def add(self, text, /, **metadata):
        self.append((text, metadata))
        return "e"

    async def recall(self, query, *, limit=5, threshold=0.0, where=None):
        return []

    async def forget(self, id, /):
        return False

    async def clear(self, **where):
        return 0


async def test_what_is_taken_out_is_given_to_the_memory_by_whose_words_it_is():
    memory, session = Notes(), AgentSession.new("agent")
    await talk(session, Model("ok"), inputs(40), memory=memory)
    by_text = dict(memory)
    mine = {"origin": EntryOrigin.USER, "session_id": session.session_id, "turn": 1}
    assert by_text[SAID[0]] == mine
    assert by_text[SAID[9]]["turn"] == 10
    answer = next(text for text in by_text if text.startswith("Answer 3."))
    assert by_text[answer]["origin"] is EntryOrigin.AGENT
    assert len(by_text) == len(memory)


async def test_what_was_recalled_is_no_turn_of_its_own():
    memory, session = Notes(), AgentSession.new("agent")
    for number in range(1, 41):
        session.add_message(Message.user(f"Question {number}. {FILLER}"))
        session.add_message(Message.user("This is kept.", sender=RECALLED))
        session.add_message(Message.assistant(f"Answer {number}. {FILLER}"))
    await talk(session, Model("ok", window=10**6), inputs(1), memory=memory)
    turns = [(text.split(".")[0], metadata["turn"]) for text, metadata in memory]
    assert turns[:3] == [("Question 1", 1), ("Answer 1", 1), ("Question 2", 2)]
    summary = Summary.load(session)
    assert summary is not None
    assert summary.turns == turns[-1][1]


@tool
def look() -> str:
    """Look."""
    return FILLER


def test_an_interrupt_at_any_checkpoint_leaves_a_valid_conversation():
    tools = ToolRegistry([look])

    async def agent(internals, llm):
        compactor = Compactor(llm, ContextBudget(700, reply=100), memory=Notes())
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, tools, compactor=compactor)

    def scenario():
        llm = Model("ok", window=10**6)
        return Scenario(agent, llm, inputs=[f"{text} {FILLER}" for text in SAID[:3]])

    # What was said and summarised is in the session's file, and no more in its history.
    kept = [each for each in INVARIANTS if each is not input_is_accounted_for]
    report = cancel_at_every_checkpoint(scenario, invariants=kept, at_most=60)
    assert report.violations == ()


@pytest.mark.parametrize("shares", [(0.3, 0.5), (0.5, 0.0), (1.5, 0.3)])
def test_shares_that_make_no_sense_are_refused(shares):
    with pytest.raises(ValueError, match="can't go from"):
        Compactor(Model(), BUDGET, at=shares[0], down_to=shares[1])
