"""Invalid graphs are refused when they are built, or at the first node that shows it."""

import operator
from functools import partial
from threading import Thread
from typing import Annotated, ClassVar, Literal, TypedDict

import msgspec
import pytest
import trio

from greenroom import Agent, ConfigurationError, Message
from greenroom.core._internal import InvalidJSONError
from greenroom.flow import END, START, Workflow, add_messages
from greenroom.flow._internal import WorkflowError, WorkflowLimitError
from greenroom.testing import ScriptedProvider


class State(TypedDict, total=False):
    number: int
    text: str
    items: list[int]
    any: object


async def work(state: State) -> None:
    """Change nothing."""


def chain(*names):
    workflow = Workflow(State)
    for name in names:
        workflow.node(name, work)
    for source, target in zip((START, *names), names, strict=False):
        workflow.edge(source, target)
    return workflow


def route(state: State) -> Literal["b", "END"]:
    return "b"


AGENT = Agent(ScriptedProvider())


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: chain("a").edge("a", "c"), "names 'c', which is not a node"),
        (lambda: chain("a").edge("c", "a"), "names 'c', which is not a node"),
        (lambda: chain("a").edge("a", START), "names 'START'"),
        (lambda: chain("a").edge("a", END).edge(END, "a"), "names 'END'"),
        (lambda: chain("a").edge("a", END).node("b", work).edge("b", END), "b can't be reached"),
        (lambda: chain("a"), "has no way to END"),
        (lambda: Workflow(State), "START has no way to END"),
        (lambda: chain("a", "b").edge("b", "a"), "has no way to END"),
        (
            lambda: chain("a", "b").edge("a", END).edge("b", "b", when=lambda state: True),
            "b has no way to END",
        ),
        (lambda: chain("a", "b", "c").edge("c", END).node("d", work).route("d", route), "d can't"),
        (lambda: chain("a").node("c", work).edge("c", END).route("a", route), "names 'b'"),
        (lambda: chain("a", "a"), "the name 'a' is taken"),
        (lambda: chain("a").node(END, work), "the name 'END' is taken"),
        (lambda: chain("a").node("b", lambda state: None), "not an async function"),
        (lambda: chain("a").edge("a", END, when=work), "has an async function"),
        (lambda: chain("a").node("b", work, timeout=-1), "b has a timeout of -1"),
        (lambda: chain("a").node("b", AGENT, input="nothing"), "no field 'nothing'"),
        (lambda: chain("a").each("a", "nothing"), "no field 'nothing'"),
        (lambda: chain("a").each("b", "items"), "there is no node 'b'"),
        (lambda: chain("a").edge("a", END).build().node("b", work), "already built"),
        (
            lambda: chain("a").edge("a", "b").node("b", AGENT, output="text").edge("b", END),
            "b is an agent without an input",
        ),
        (lambda: Workflow(dict), "can't be the state"),
        (lambda: Workflow(State, output="nothing"), "no field 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(make, problem):
    with pytest.raises(WorkflowError, match=problem):
        make().build()


def route_to_either(state: State) -> Literal["b"] | list[Literal["c"]] | None:
    return "b"


def route_to_any(state: State) -> list[str]:
    return ["b"]


@pytest.mark.parametrize("route", [lambda state: "b", route_to_either, route_to_any])
def test_a_route_may_lead_to_all_that_its_annotation_lists_or_anywhere(route):
    workflow = chain("a").node("b", work).node("c", work)
    workflow.edge("b", END).edge("c", END).route("a", route).build()


def fail(old: int, update: int) -> int:
    raise ZeroDivisionError


class Sum(msgspec.Struct):
    kind: ClassVar[str] = "sum"
    number: Annotated[int, fail] = 0


def test_a_reducer_that_fails_is_named_and_class_variables_are_no_fields():
    async def add(state):
        return {"number": 1}

    workflow = Workflow(Sum).node("a", add).edge(START, "a").edge("a", END)
    with pytest.raises(ZeroDivisionError) as caught:
        run(workflow, {})
    assert caught.value.__notes__ == ["in the reducer of number, with the update of a"]


def test_a_state_whose_types_are_not_to_be_found_is_refused():
    class Local(msgspec.Struct):
        number: "Hidden"

    class Hidden(msgspec.Struct):
        number: int

    with pytest.raises(WorkflowError, match="name 'Hidden' is not defined"):
        Workflow(Local)


def run(workflow, state, **options):
    result = trio.run(partial(workflow.run, state, **options))
    _ = result.output
    return result


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"other": 1}, "no field 'other'"),
        ({"number": "many"}, "a can't set number"),
        ([1], "a returned list"),
        ({"any": Thread()}, "a can't set any: .*Thread"),
        ({"any": float("nan")}, "a can't set any: nan is not a JSON number"),
        ({"number": float("inf")}, "a can't set number: inf is not a JSON number"),
    ],
)
def test_changes_that_the_state_can_not_take_are_refused_with_the_node(changes, problem):
    async def change(state):
        return changes

    workflow = Workflow(State).node("a", change).edge(START, "a").edge("a", END)
    with pytest.raises((WorkflowError, InvalidJSONError), match=problem):
        run(workflow, {})


def test_a_reducer_of_no_number_is_refused_with_the_node():
    class Mean(TypedDict):
        mean: Annotated[float, lambda old, new: float("nan")]

    async def change(state):
        return {"mean": 1.0}

    workflow = Workflow(Mean).node("a", change).edge(START, "a").edge("a", END)
    with pytest.raises(InvalidJSONError, match="with the update of a, can't set mean: nan is not"):
        run(workflow, {"mean": 0.0})


def test_a_field_may_hold_json_that_nobody_decodes():
    class Found(TypedDict):
        pages: Annotated[list[msgspec.Raw], operator.add]

    async def change(state):
        return {"pages": [{"b": 2}]}

    workflow = Workflow(Found).node("a", change).edge(START, "a").edge("a", END)
    pages = run(workflow, {"pages": [{"a": 1}]}).state["pages"]
    assert [bytes(each) for each in pages] == [b'{"a":1}', b'{"b":2}']


def test_where_a_reducer_spoils_a_value_in_a_step_of_two_nodes_both_are_named():
    def spoil(old: list[int], new: list[int]) -> list[object]:
        return [*old, *("one" if each == 1 else each for each in new)]

    class Numbers(TypedDict):
        found: Annotated[list[int], spoil]

    async def first(state):
        return {"found": [1]}

    async def second(state):
        return {"found": [2]}

    workflow = Workflow(Numbers).node("a", first).node("b", second)
    workflow.edge(START, "a").edge(START, "b").edge("a", END).edge("b", END)
    with pytest.raises(WorkflowError, match="with the update of a or b, can't set found"):
        run(workflow, {"found": []})


def test_two_writes_to_one_plain_field_are_refused_with_both_nodes():
    async def count(state):
        return {"number": 1}

    workflow = Workflow(State)
    for name in ("left", "right"):
        workflow.node(name, count).edge(START, name).edge(name, END)
    with pytest.raises(WorkflowError, match="left and right both set number in one step"):
        run(workflow, {})


def test_a_node_that_leads_nowhere_is_named():
    workflow = chain("a").edge("a", END, when=lambda state: False)
    with pytest.raises(WorkflowError, match="no edge of a can be followed"):
        run(workflow, {})
    for name, problem in (("x", "a route of a names 'x'"), (None, "a route returned None")):
        with pytest.raises(WorkflowError, match=problem):
            run(chain("a").route("a", lambda state, name=name: name), {})


def test_a_cycle_ends_at_its_limit():
    workflow = chain("a").edge("a", "a").edge("a", END, when=lambda state: False)
    with pytest.raises(WorkflowLimitError, match="7 steps were taken, and a would be next"):
        run(workflow, {}, max_steps=7)


class Task(msgspec.Struct):
    goal: str
    tries: int = 0


@pytest.mark.parametrize(
    ("state", "problem"),
    [({}, "goal"), ({"goal": 1}, "START can't set goal"), ({"goal": "a", "x": 1}, "no field 'x'")],
)
def test_a_first_state_that_does_not_fit_is_refused(state, problem):
    workflow = Workflow(Task).node("a", work).edge(START, "a").edge("a", END)
    with pytest.raises(WorkflowError, match=problem):
        run(workflow, state)
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        run(workflow, None)


def test_messages_are_added_and_replaced_by_their_ids():
    class Chat(TypedDict):
        messages: Annotated[list[Message], add_messages]

    async def say(state, words):
        return {"messages": Message.user(words, id=words[0])}

    workflow = Workflow(Chat)
    for words in ("b!", "c", "a?"):
        workflow.node(words, partial(say, words=words)).edge(START, words).edge(words, END)
    first = [Message.user("a", id="a"), Message.user("b", id="b")]
    state = run(workflow, {"messages": first}).state
    assert [message.text for message in state["messages"]] == ["a?", "b!", "c"]
    assert state["messages"][0].created_at
