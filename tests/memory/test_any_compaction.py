"""Properties of a compaction of any conversation, with any counter."""

from collections.abc import Sequence
from math import ceil
from typing import NoReturn

import pytest
import trio
from hypothesis import given, settings, strategies as st

from greenroom import AgentSession, InMemoryStore, Message
from greenroom.core import BudgetExceededError, ModelRequest, ToolUseBlock
from greenroom.llm import EstimatedCounter
from greenroom.memory import Compactor, ContextBudget
from greenroom.memory.context_window import is_from_person, units_of
from greenroom.memory.summary import Summary
from greenroom.testing import ScriptedProvider
from tests.conftest import few
from tests.memory.test_fit import conversations
from tests.memory.test_kills import Internals
from tests.session.accepted import check_accepted


class Steps(EstimatedCounter):
    """Counts in steps of fifty, so that parts count more than the whole."""

    def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
        return 50 * ceil(super().count(what, model=model) / 50)


class Nothing(EstimatedCounter):
    """Says that nothing takes any room."""

    def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
        return 0


async def compact(session: AgentSession, budget: ContextBudget, counter: EstimatedCounter) -> None:
    llm = ScriptedProvider("## Facts\n" + "It is so. " * 90)
    await Compactor(llm, budget, counter=counter).compact(Internals(session))  # type: ignore[arg-type]


@settings(max_examples=few(30))
@given(
    conversations,
    st.integers(300, 4_000),
    st.sampled_from([EstimatedCounter, Steps, Nothing]),
    st.booleans(),
)
def test_calls_keep_their_results_and_the_newest_message_stays(
    messages: list[Message], window: int, counter: type[EstimatedCounter], is_open: bool
) -> None:
    session = AgentSession.new("agent", store=InMemoryStore())
    for message in (Message.user("Begin."), *messages):
        session.add_message(message)
    if is_open:
        session.add_message(Message.assistant([ToolUseBlock("open", "Read", {})]))
    before = session.history
    trio.run(compact, session, ContextBudget(window, reply=100), counter())
    check_accepted(session.history[:-1] if is_open else session.history)
    assert units_of(session.history)[-1][-1].role == before[-1].role
    if is_open:
        assert [call.id for call in session.unstarted] == ["open"]
    if counter is EstimatedCounter and session.history != before:
        assert counter().count(session.history) <= counter().count(before) + 150
    summary = Summary.find(session.history)
    said = {message.text for message in before if is_from_person(message)}
    if summary is not None and counter is EstimatedCounter:
        assert all(
            text in said or "left out" in text or "\\u{" in text for text in summary.user_messages
        )


@pytest.mark.parametrize("counter", [EstimatedCounter, Steps, Nothing])
def test_a_conversation_of_a_few_words_stays_as_it_is(counter: type[EstimatedCounter]) -> None:
    session = AgentSession.new("agent", store=InMemoryStore())
    session.add_message(Message.user("Begin."))
    session.add_message(Message.assistant("."))
    before = session.history
    trio.run(compact, session, ContextBudget(300, reply=100), counter())
    assert session.history == before


class Poor(Internals):
    """An agent whose budget is spent."""

    def model_call(self, llm: object, request: ModelRequest, count: object) -> NoReturn:
        raise BudgetExceededError("spent")


def test_a_budget_that_does_not_pay_for_the_notes_changes_nothing() -> None:
    session = AgentSession.new("agent", store=InMemoryStore())
    for number in range(9):
        session.add_message(Message.user(f"{number} " + "word " * 200))
    before = session.history
    compactor = Compactor(ScriptedProvider("notes"), ContextBudget(1_000, reply=100))
    with pytest.raises(BudgetExceededError):
        trio.run(compactor.prepare, Poor(session))
    assert session.history == before
