"""The states: which are final, and what a phase is."""

from greenroom.core import AgentState, StateKind


def test_done_and_failed_are_final():
    final = {kind for kind in StateKind if AgentState(kind).is_final}
    assert final == {StateKind.DONE, StateKind.FAILED}


def test_the_phase_is_the_detail_of_processing_and_of_nothing_else():
    planning = AgentState.processing("planning")
    assert (planning.phase, planning.detail, str(planning)) == (
        "planning",
        "planning",
        "processing: planning",
    )
    assert AgentState.processing().phase == AgentState.executing_tool("Bash").phase == ""
    assert AgentState.processing("") == AgentState.processing() != planning
