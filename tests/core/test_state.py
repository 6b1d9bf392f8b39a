"""The states: one table says every move, and the page of the docs is that table."""

from pathlib import Path

import pytest

from greenroom.core import TRANSITIONS, AgentState, StateKind

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "states.md"
FINAL = {StateKind.DONE, StateKind.FAILED}


def test_the_table_has_every_kind_and_each_can_be_reached_from_idle():
    assert set(TRANSITIONS) == set(StateKind)
    reached, waiting = set(), [StateKind.IDLE]
    while waiting:
        kind = waiting.pop()
        reached.add(kind)
        waiting += TRANSITIONS[kind] - reached
    assert reached == set(StateKind)


def test_a_final_state_is_never_left_and_every_other_may_end():
    for kind, after in TRANSITIONS.items():
        assert after & FINAL == (set() if kind in FINAL else FINAL)
        assert AgentState(kind).is_final is (kind in FINAL) is (not after)


@pytest.mark.parametrize("kind", StateKind)
def test_a_state_may_become_what_the_table_says(kind):
    allowed = {other for other in StateKind if AgentState(kind).may_become(AgentState(other))}
    assert allowed == TRANSITIONS[kind]


def test_the_phase_is_the_detail_of_processing_and_of_nothing_else():
    planning = AgentState.processing("planning")
    assert (planning.phase, planning.detail, str(planning)) == (
        "planning",
        "planning",
        "processing: planning",
    )
    assert AgentState.processing().phase == AgentState.executing_tool("Bash").phase == ""
    assert AgentState.processing("") == AgentState.processing() != planning


def as_table():
    def words(kinds):
        names = [kind.replace("_", " ") for kind in StateKind if kind in kinds]
        return ", ".join(names) or "nothing"

    moves = (f"| {words({kind})} | {words(after)} |" for kind, after in TRANSITIONS.items())
    return "\n".join(["| from | to |", "| --- | --- |", *moves, ""])


def test_the_page_of_the_docs_is_the_table():
    assert as_table() in PAGE.read_text()
