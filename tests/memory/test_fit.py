"""Messages that fit a window, for any conversation and any budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from greenroom.core import (
    ConfigurationError,
    ContentBlock,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import RECALLED, SUMMARY
from greenroom.llm import EstimatedCounter, ModelRequest, StreamEnd
from greenroom.llm.responses.decode import ResponsesDecoder
from greenroom.memory import ContextBudget, fit
from greenroom.memory.context_window import is_repeated, units_of
from greenroom.memory.importance import rate_all
from tests.llm import wire
from tests.llm.dialects import encode_responses
from tests.llm.refusals import refuse_responses

texts = st.text(alphabet="ab c\n素😀", max_size=8).flatmap(
    lambda text: st.integers(1, 400).map(lambda times: text * times)
)
said = st.builds(lambda text: [Message.user(text or "?")], texts)
special = st.builds(
    lambda text, sender: [Message.user(text or "?", sender=sender)],
    texts,
    st.sampled_from([SUMMARY, RECALLED]),
)


@st.composite
def steps(draw: st.DrawFn) -> list[Message]:
    """Draw a reply, its calls, and their results, which a person's word may precede."""
    count = draw(st.integers(0, 4))
    ids = [f"call-{draw(st.integers(0, 10**9))}-{number}" for number in range(count)]
    calls = [ToolUseBlock(each, "Read", {"path": [draw(texts)], "n": 1}) for each in ids]
    blocks: list[ContentBlock] = [TextBlock(draw(texts) or "."), *calls]
    if draw(st.booleans()):
        blocks.insert(0, ThinkingBlock(draw(texts), "signed"))
    results = [
        ToolResultBlock(each, (ImageBlock("image/png", "aGk="), TextBlock(draw(texts))))
        for each in ids
    ]
    between = [Message.user("And quickly.")] if draw(st.booleans()) else []
    return [Message.assistant(blocks), *([*between, Message.user(results)] if calls else [])]


conversations = st.lists(st.one_of(said, special, steps()), min_size=1, max_size=12).map(
    lambda parts: [message for part in parts for message in part]
)
budgets = st.builds(
    lambda room, recent: ContextBudget(room + 10, reply=10, recent=recent),
    st.integers(64, 4_000),
    st.sampled_from([0.1, 0.5]),
)


def test_an_old_summary_behind_the_newest_message_does_not_take_its_place() -> None:
    said = Message.user("a " * 63)
    old, summary = (Message.user("?", sender=SUMMARY) for _ in range(2))
    kept = fit([said, old, summary], ContextBudget(74, reply=10), EstimatedCounter())
    assert said in kept


@given(conversations, budgets)
def test_what_fits_never_exceeds_never_parts_a_call_and_keeps_the_newest(
    messages: list[Message], budget: ContextBudget
) -> None:
    counter = EstimatedCounter()
    kept = fit(messages, budget, counter)
    assert counter.count(kept) <= budget.room
    if counter.count(messages) <= budget.room:
        assert kept == tuple(messages)
    calls = [call.id for message in kept for call in message.tool_uses]
    results = [result.tool_use_id for message in kept for result in message.tool_results]
    assert calls == results
    newest = next(
        (m for m in reversed(messages) if m.sender not in (SUMMARY, RECALLED)), messages[-1]
    )
    is_noted = any("are left out: they are too long" in message.text for message in kept)
    assert newest.id in [message.id for message in kept] or is_noted
    assert kept[0].role == "user" or kept[0].id == messages[0].id
    known = [message.id for message in messages]
    order = [known.index(message.id) for message in kept if message.id in known]
    assert order == sorted(set(order))


def test_each_kind_has_its_share_and_gives_what_it_does_not_use() -> None:
    counter = EstimatedCounter()
    summary = Message.user("alpha " * 500, sender=SUMMARY)
    recalled = [Message.user("beta " * 40, sender=RECALLED) for _ in range(9)]
    talk = [Message.user("gamma " * 40) for _ in range(30)]
    budget = ContextBudget(1_010, reply=10)

    kept = fit([summary, *recalled, *talk], budget, counter)
    shares = {
        sender: counter.count([message for message in kept if message.sender == sender])
        for sender in (SUMMARY, RECALLED, "")
    }
    assert 200 < shares[SUMMARY] <= 300
    assert 100 < shares[RECALLED] <= 200
    assert shares[""] >= 450
    assert "left out" in kept[0].text

    alone = fit(talk, budget, counter)
    assert counter.count(alone) > 900


def test_what_is_least_important_is_left_out_first() -> None:
    filler = "word " * 40
    talk = [Message.user(f"The task. {filler}")]
    for number in range(10):
        use = ToolUseBlock(f"c{number}", "Read", {"path": filler})
        result = ToolResultBlock(use.id, (TextBlock(filler),))
        talk += [Message.assistant([use]), Message.user([result])]
        talk += [Message.assistant(f"Answer {number}. {filler}")]
        talk += [Message.user(f"Question {number}. {filler}")]
    counter = EstimatedCounter()
    seen = set()
    for room in range(200, counter.count(talk), 50):
        budget = ContextBudget(room, reply=0, recent=0)
        kept = [message.text.split(" ")[0] or "Step" for message in fit(talk, budget, counter)]
        questions, answers, steps = map(kept.count, ("Question", "Answer", "Step"))
        assert kept[0] == "The"
        assert questions == 10 or not answers
        assert answers == 10 or not steps
        seen.add((answers > 0, steps > 0))
    assert seen == {(False, False), (True, False), (True, True)}


def test_one_long_message_does_not_push_out_the_others() -> None:
    talk = [Message.user("paste " * 5_000), *(Message.user(f"{n} " * 20) for n in range(40))]
    kept = fit(talk, ContextBudget(800, reply=0), EstimatedCounter())
    assert EstimatedCounter().count(kept) > 700
    assert not kept[0].text.startswith("paste")


@given(conversations, budgets)
def test_nothing_is_left_out_for_something_less_important_that_is_older(
    messages: list[Message], budget: ContextBudget
) -> None:
    counter = EstimatedCounter()
    kept = {message.id for message in fit(messages, budget, counter)}
    units = units_of(messages)
    ratings = rate_all(units)
    for place, unit in enumerate(units):
        older = [
            other
            for other, rating in zip(units[:place], ratings, strict=False)
            if rating <= ratings[place] and not is_repeated(other[0]) and other[0].id in kept
        ]
        if unit[0].id not in kept and not is_repeated(unit[0]):  # each one kept takes less room
            assert all(counter.count(other) <= counter.count(unit) for other in older)


def test_one_message_that_is_too_long_is_cut_in_the_middle() -> None:
    counter = EstimatedCounter()
    message = Message.user("It begins. " + "blah " * 5_000 + "It ends.")
    (kept,) = fit([message], ContextBudget(300, reply=100), counter)
    assert kept.text.startswith("It begins.")
    assert kept.text.endswith("It ends.")
    assert "characters left out" in kept.text
    assert 150 < counter.count([kept]) <= 200


@pytest.mark.parametrize(
    "arguments",
    [{"window": 5_000, "overhead": 900}, {"window": 8_000, "recent": 0.9}, {"window": 0}],
)
def test_a_budget_without_room_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        ContextBudget(**arguments)  # type: ignore[arg-type]


def test_a_long_conversation_is_counted_a_few_times_only() -> None:
    class Counter(EstimatedCounter):
        seen = 0

        def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
            self.seen += 0 if isinstance(what, ModelRequest) else len(what)
            return super().count(what, model=model)

    # Each message counts a little more than its figure says, so that the figures add up to too
    # little.
    counter, said = Counter(), [Message.user("a b c d e") for _ in range(2_000)]
    room = int(counter.count(said) * 0.8)
    kept = fit(said, ContextBudget(room, reply=0), counter)
    assert 1_500 < len(kept) <= 1_600
    assert counter.seen < 20 * len(said)


def _search(size: int) -> Message:
    """Make a reply in which the vendor's own search found something of this size."""
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "it"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "x" * size}
    cited = TextBlock("It is so. " * 30, {"citations": [{"encrypted_index": "x"}]})
    blocks = [ThinkingBlock("hm", "signed"), UnknownBlock(asked), UnknownBlock(found), cited]
    return Message("assistant", tuple(blocks), provider="anthropic")


@pytest.mark.parametrize("room", range(70, 2_000, 97))
def test_what_only_the_provider_understands_is_kept_or_left_out_together(room: int) -> None:
    whole = _search(2_000)
    messages = [Message.user("word " * 400), whole]
    reply = fit(messages, ContextBudget(room + 10, reply=10), EstimatedCounter())[-1]
    private = [block for block in reply.content if not isinstance(block, TextBlock)]
    assert private in ([], list(whole.content[:3]))
    citing = [block for block in reply.content if block.extra] if not private else []
    assert citing == []


@pytest.mark.parametrize("room", range(70, 2_000, 97))
def test_a_reply_that_lost_its_reasoning_is_accepted_by_the_api_that_gave_it(room: int) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    call = wire.call_item("fc_1_reasoned", "call_1", "look_up", '{"topic": "it"}')
    items = [wire.reasoning_item("rs_1", "hm", "secret" * 500), call, search]
    end = wire.run(ResponsesDecoder(), wire.responses_stream(*items))[-1]
    assert isinstance(end, StreamEnd)
    results = Message.user([ToolResultBlock("call_1", (TextBlock("found " * 900),))])
    messages = [Message.user("word " * 90), end.message, results]
    kept = fit(messages, ContextBudget(room + 10, reply=10), EstimatedCounter())
    body = encode_responses(ModelRequest(messages=kept), model="gpt-5.4")
    assert refuse_responses(body) == ""
    sent = body["input"]
    has_reasoning = any(each.get("type") == "reasoning" for each in sent)
    assert has_reasoning == any("id" in each for each in sent)


def test_a_pause_stays_with_what_it_goes_on_with() -> None:
    whole = _search(40)
    first = replace(whole, content=whole.content[:2], stop_reason=StopReason.PAUSE)
    rest = replace(whole, content=whole.content[2:])
    assert units_of([Message.user("hi"), first, rest, Message.user("And?")])[1] == (first, rest)
