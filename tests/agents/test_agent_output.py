"""`output_type`: a run comes to a validated value, and guards see it before anybody else."""

import dataclasses
import enum
from typing import Annotated, TypedDict

import msgspec
import pydantic
import pytest

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    FileStore,
    Guard,
    InMemoryStore,
    Reject,
    Rewrite,
    tool,
)
from greenroom.agents._internal import GuardError
from greenroom.core._internal import NamedTool
from greenroom.llm import ModelBadRequestError, ModelOutputError
from greenroom.llm._internal import ANSWER_TOOL
from greenroom.testing import Reply, ScriptedProvider, call


@dataclasses.dataclass
class City:
    name: str
    people: int


class Model(pydantic.BaseModel):
    name: str
    people: Annotated[int, pydantic.Field(gt=0)]


class Struct(msgspec.Struct):
    name: str
    people: int


class Dict(TypedDict):
    name: str
    people: int


LYON = {"name": "Lyon", "people": 522_000}
KINDS = {City: City(**LYON), Model: Model(**LYON), Struct: Struct(**LYON), Dict: Dict(**LYON)}


class WithSchemas(ScriptedProvider):
    """A provider that can hold its replies to a schema."""

    def accepts_output(self, output):
        return True


def look() -> str:
    """Look."""
    return "at the map"


def answer(**fields):
    return call(ANSWER_TOOL, **(fields or LYON))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("way", ["schema", "tool", "text"])
@pytest.mark.parametrize("tools", [(), (look,)], ids=["alone", "with tools"])
async def test_a_run_comes_to_a_value_of_the_type(kind, way, tools):
    final = answer() if way == "tool" else msgspec.json.encode(LYON).decode()
    script = [call("look"), final] if tools else [final]
    llm = (WithSchemas if way == "schema" else ScriptedProvider)(*script)
    agent = Agent(llm, tools=tools, output_type=kind)
    async with agent.stream("Which city?") as run:
        chunks = [chunk async for chunk in run]
    result = run.result
    assert (result.output, result.status, result.steps) == (KINDS[kind], "completed", len(script))
    assert chunks[-1].value == LYON
    requests = llm.requests
    assert [request.output is not None for request in requests] == [way == "schema"] * len(requests)
    names = [[each.name for each in request.tools] for request in requests]
    offered = [] if way == "schema" else [ANSWER_TOOL]
    assert names == [[each.__name__ for each in tools] + offered] * len(requests)
    must = NamedTool(ANSWER_TOOL) if way != "schema" and not tools else "auto"
    assert [request.tool_choice for request in requests] == [must] * len(requests)
    uses = {use.id for message in result.messages for use in message.tool_uses}
    assert uses == {r.tool_use_id for message in result.messages for r in message.tool_results}


@pytest.mark.parametrize(("kind", "value"), [(int, 42), (list[int], [1, 2]), (City | None, None)])
async def test_plain_types_and_unions_do_as_well(kind, value):
    agent = Agent(ScriptedProvider(answer(value=value)), output_type=kind)
    assert (await agent.run("What?")).output == value


class Colour(enum.StrEnum):
    RED = "red"


class Handle:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"handle {self.name}"


Handles = Annotated[Handle, pydantic.PlainValidator(Handle), pydantic.WithJsonSchema({})]


@pytest.mark.parametrize(
    ("kind", "given", "published"),
    [(Colour, "red", "red"), (float, "Infinity", "Infinity"), (Handles, "a", "handle a")],
)
async def test_a_value_that_is_no_json_is_published_as_text(kind, given, published):
    agent = Agent(ScriptedProvider(answer(value=given)), output_type=kind)
    async with agent.stream("What?") as run:
        chunks = [chunk async for chunk in run]
    assert run.result.status == "completed"
    assert chunks[-1].value == published
    assert isinstance(run.result.output, (Colour, float, Handle))


async def test_a_tool_can_not_have_the_name_of_the_one_that_takes_the_answer():
    @tool(name=ANSWER_TOOL)
    def given() -> str:
        """Give it."""
        return "x"

    result = await Agent(ScriptedProvider("x"), tools=[given], output_type=int).run("What?")
    assert isinstance(result.error, ConfigurationError)
    assert ANSWER_TOOL in str(result.error)


async def test_an_answer_that_does_not_fit_is_asked_for_again():
    bad = answer(name="Lyon", people="many"), "I don't know.", answer()
    llm = ScriptedProvider(*bad)
    result = await Agent(llm, output_type=City, tools=[look]).run("Which city?")
    assert (result.output, result.steps) == (City(**LYON), 3)
    told = [request.messages[-1] for request in llm.requests[1:]]
    assert "people" in told[0].tool_results[0].text
    assert "can't be used" in told[1].text
    choices = [request.tool_choice for request in llm.requests]
    assert choices == ["auto", NamedTool(ANSWER_TOOL), NamedTool(ANSWER_TOOL)]


@pytest.mark.parametrize(("options", "steps"), [({"output_retries": 1}, 2), ({"max_steps": 1}, 1)])
async def test_an_answer_that_never_fits_is_an_error(options, steps):
    llm = ScriptedProvider(*[answer(name="Lyon")] * 5)
    result = await Agent(llm, output_type=City, **options).run("Which city?")
    assert (result.status, result.steps) == ("failed", steps)
    assert isinstance(result.error, ModelOutputError)
    with pytest.raises(ModelOutputError):
        _ = result.output


async def test_at_the_last_step_the_answer_has_to_come():
    llm = ScriptedProvider(call("look"), answer())
    result = await Agent(llm, output_type=City, tools=[look], max_steps=2).run("Which city?")
    assert (result.output, result.is_truncated) == (City(**LYON), True)
    assert llm.requests[-1].tool_choice == NamedTool(ANSWER_TOOL)


async def test_calls_beside_the_answer_are_not_run():
    llm = ScriptedProvider([call("look"), answer()], answer())
    result = await Agent(llm, output_type=City, tools=[look]).run("Which city?")
    assert result.steps in (1, 2)
    uses = [use.id for message in result.messages for use in message.tool_uses]
    answered = [r.tool_use_id for message in result.messages for r in message.tool_results]
    assert sorted(uses) == sorted(answered)
    assert result.output == City(**LYON)


async def test_the_conversation_goes_on_behind_it():
    llm = ScriptedProvider(answer(), answer(name="Nice", people=340_000))
    agent = Agent(llm, output_type=City)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("cities"), agent)
        assert (await handle.ask("One?")).value == LYON
        assert (await handle.ask("Another?")).value["name"] == "Nice"


async def test_as_a_tool_it_answers_with_json():
    cities = Agent(
        ScriptedProvider(answer()), output_type=City, name="cities", description="Cities."
    )
    llm = ScriptedProvider(call("cities", prompt="?"), "Lyon it is.")
    result = await Agent(llm, tools=[cities.as_tool()]).run("Which city?")
    assert result.messages[2].tool_results[0].text == '{"name":"Lyon","people":522000}'


@pytest.mark.parametrize("way", ["schema", "tool"])
async def test_what_a_guard_rejects_is_in_no_chunk_and_no_file(way, tmp_path):
    final = answer() if way == "tool" else msgspec.json.encode(LYON).decode()
    llm = (WithSchemas if way == "schema" else ScriptedProvider)(final)
    guard = Guard(lambda context, text: Reject("no") if "Lyon" in text else None)
    async with Agent(llm, output_type=City, guards=[guard]).stream(
        "Which?", store=FileStore(tmp_path)
    ) as run:
        chunks = [chunk async for chunk in run]
    assert isinstance(run.result.error, GuardError)
    assert "Lyon" not in repr(chunks) + repr(run.result.messages)
    assert b"Lyon" not in b"".join(f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())


@pytest.mark.parametrize("way", ["schema", "tool"])
async def test_a_guard_may_change_it(way):
    final = answer() if way == "tool" else msgspec.json.encode(LYON).decode()
    llm = (WithSchemas if way == "schema" else ScriptedProvider)(final)
    guard = Guard(lambda context, text: Rewrite(text.replace("Lyon", "Nice")))
    result = await Agent(llm, output_type=City, guards=[guard]).run("Which?")
    assert result.output.name == "Nice"


def test_a_type_that_no_schema_can_express_is_refused_when_the_agent_is_made():
    with pytest.raises(ConfigurationError, match="no schema can express"):
        Agent("offline:", output_type=object())
    with pytest.raises(ConfigurationError, match="output_retries"):
        Agent("offline:", output_retries=-1)


async def test_a_server_that_does_not_force_a_call_is_asked_in_another_way():
    refusal = ModelBadRequestError("tool_choice is not supported with this model")
    answer = call(ANSWER_TOOL, name="Lyon", people=522_000)
    llm = ScriptedProvider(Reply(error=refusal), answer, answer)
    agent = Agent(llm, output_type=City)
    for _ in range(2):
        assert (await agent.run("Which city?")).output == City(**LYON)
    choices = [request.tool_choice for request in llm.requests]
    assert choices[:2] == [NamedTool(ANSWER_TOOL), "auto"]


async def test_it_is_not_asked_again_for_another_error():
    llm = ScriptedProvider(Reply(error=ModelBadRequestError("messages: at least one is needed")))
    result = await Agent(llm, output_type=City).run("Which city?")
    assert "messages" in str(result.error)
    assert len(llm.requests) == 1
