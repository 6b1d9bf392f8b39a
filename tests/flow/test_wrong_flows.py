"""What somebody who is new here gets wrong with teams, plans and workflows; what the error says."""

import math
import re
from typing import TypedDict

import pytest

from greenroom import Agent, ConfigurationError
from greenroom.flow import (
    END,
    START,
    ModelPlanner,
    Pattern,
    Plan,
    RecoveryPolicy,
    ReplanPolicy,
    Subtask,
    Topic,
    Workflow,
    committee,
    loop,
    orchestrator,
    pipeline,
    plan_and_execute,
)
from greenroom.flow.errors import PlanError, WorkflowError
from greenroom.testing import ScriptedProvider


class State(TypedDict, total=False):
    text: str


async def write(state: State) -> dict[str, object]:
    return {"text": "Hello."}


def make_workflow(**arguments) -> Workflow[State]:
    workflow = Workflow(State, **arguments).node("write", write)
    return workflow.edge(START, "write").edge("write", END)


def make_agent(name: str = "agent") -> Agent:
    return Agent(ScriptedProvider("Hello."), name=name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("refunds", r"capabilities is 'refunds' \(write capabilities="),
        ([5], "a capability is a word or two, not 5"),
        ([""], "a capability is a word or two, not ''"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda words: make_workflow(capabilities=words),
        lambda words: Pattern("team", write, capabilities=words),
        lambda words: Agent("offline:", capabilities=words),
    ],
)
def test_capabilities_are_words_everywhere(make, words, says):
    with pytest.raises(ConfigurationError, match=says):
        make(words)


def test_members_are_given_one_by_one():
    with pytest.raises(ConfigurationError, match=r"a star before it: \*agents"):
        pipeline([make_agent("a"), make_agent("b")])


@pytest.mark.parametrize("patience", ["5", 0])
def test_seconds_that_are_no_number_above_0_are_refused(patience):
    with pytest.raises(ConfigurationError, match="give a number above 0"):
        orchestrator("offline:", make_agent(), patience=patience)
    with pytest.raises(WorkflowError, match="give it seconds, more than 0"):
        Workflow(State).node("write", write, timeout=patience)


@pytest.mark.parametrize("count", ["3", 1.5, math.nan, True, -1], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda count: loop(make_agent(), max_rounds=count),
        lambda count: committee(make_agent(), quorum=count),
        lambda count: orchestrator("offline:", make_agent(), concurrency=count),
        lambda count: plan_and_execute("offline:", concurrency=count),
        lambda count: plan_and_execute("offline:", max_subtasks=count),
        lambda count: ModelPlanner("offline:", max_subtasks=count),
        lambda count: RecoveryPolicy(errors=count),
        lambda count: ReplanPolicy(revisions=count),
        lambda count: ReplanPolicy(consecutive=count),
        lambda count: Topic("news", keep=count),
        lambda count: make_workflow(max_steps=count),
        lambda count: make_workflow().each("write", over="text", concurrency=count),
    ],
)
def test_a_number_that_counts_nothing_is_refused_where_it_is_given(make, count):
    says = re.escape(repr(count)) + "|whole number"
    with pytest.raises((ConfigurationError, WorkflowError), match=says):
        make(count)


async def test_a_limit_of_steps_that_is_no_number_is_refused_by_a_run():
    with pytest.raises(WorkflowError, match=r"max_steps is '3' \(give a whole number\)"):
        await make_workflow().run({}, max_steps="3")


def test_a_plan_is_made_of_subtasks_with_ids():
    with pytest.raises(PlanError, match=r"'Find it' is not a subtask \(write Subtask\("):
        Plan("goal", ["Find it"])
    with pytest.raises(PlanError, match="1 can't be the id of a subtask"):
        Subtask(1, "Find it")


async def test_an_option_that_a_workflow_does_not_have_is_told_with_the_nearest_one():
    with pytest.raises(TypeError, match=r"has no option 'sesion': did you mean 'session'\?"):
        await make_workflow().run({}, sesion="x")
    with pytest.raises(TypeError, match=r"workflow has no option 'xyz'$"):
        await make_workflow().run({}, xyz=1)


def test_a_condition_is_a_function():
    with pytest.raises(WorkflowError, match=r"when of write is True \(give a function"):
        make_workflow().edge("write", END, when=True)
    with pytest.raises(WorkflowError, match=r"a route of write is 'END' \(give a function"):
        make_workflow().route("write", "END")


async def test_a_text_for_a_workflow_without_an_input_says_how_to_name_one():
    with pytest.raises(WorkflowError, match=r"the first state is not JSON.*Workflow\(…, input="):
        await make_workflow().run("Hello")


async def test_iterating_over_a_stream_without_its_block_says_how_to_write_it():
    with pytest.raises(TypeError, match=r"async with agent\.stream"):
        async for _ in make_workflow().stream({}):
            pass
