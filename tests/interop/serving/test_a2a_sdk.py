"""A2A as the client of its makers speaks it, in both bindings."""

import os
import random
from contextlib import aclosing, asynccontextmanager

import pytest
import trio
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import PushNotificationNotSupportedError, TaskNotFoundError
from google.protobuf.json_format import ParseDict

from greenroom import tool
from greenroom.testing import call
from tests.interop.serving.a2a import Client, state_of
from tests.interop.serving.test_a2a import Slow, serving
from tests.interop.serving.test_agui import agent as scripted, make_steps, run_child

ASKS = (call("deploy", place="here"), call("report", texts=["a", "b"]), "done")


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request):
    return request.param


@asynccontextmanager
async def connect(service, binding, *, streaming=True):
    async with service.client() as http:
        config = ClientConfig(
            httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming
        )
        client = await ClientFactory(config).create_from_url(service.link)
        yield client


def request(text, *, id="m", configuration=None, **fields):
    message = Message(message_id=id, role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
    return SendMessageRequest(message=message, configuration=configuration)


async def collect(events):
    async with aclosing(events):
        return [each async for each in events]


def states(events):
    """Return the states that the events tell, by their short names."""
    told = [each.task if each.HasField("task") else each.status_update for each in events]
    return [name(each.status.state) for each in told if each.HasField("status")]


def name(state):
    return TaskState.Name(state).removeprefix("TASK_STATE_")


async def test_it_sends_answers_and_reads_what_was_made(serve, binding):
    async with serve(**serving(*ASKS)) as service:
        async with connect(service, binding, streaming=False) as client:
            (event,) = await collect(client.send_message(request("go")))
            task = event.task
            assert name(task.status.state) == "INPUT_REQUIRED"
            assert "here" in task.status.message.parts[0].text
            answer = request("allow", id="n", task_id=task.id, context_id=task.context_id)
            (event,) = await collect(client.send_message(answer))
            assert name(event.task.status.state) == "COMPLETED"
            assert event.task.status.message.parts[0].text == "done"
            (made,) = event.task.artifacts
            assert (made.name, made.parts[0].text) == ("report.txt", "ab")
            found = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
            assert [part.text for part in found.history[0].parts] == ["done"]
            listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
            assert ([each.id for each in listed.tasks], listed.total_size) == ([task.id], 1)


async def test_it_streams_and_subscribes_again(serve, binding):
    async with serve(**serving(*ASKS)) as service:
        async with connect(service, binding) as client:
            events = await collect(client.send_message(request("go")))
            assert states(events) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
            task_id, told = events[0].task.id, []

            async def follow(task_status):
                subscription = client.subscribe(SubscribeToTaskRequest(id=task_id))
                async with aclosing(subscription):
                    async for event in subscription:
                        told.append(event)
                        if len(told) == 1:
                            task_status.started()

            async with trio.open_nursery() as nursery:
                await nursery.start(follow)
                answered = await collect(
                    client.send_message(request("allow", id="n", task_id=task_id))
                )
            assert states(answered) == ["WORKING", "COMPLETED"]
            assert states(told) == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
            made = [each.artifact_update for each in told if each.HasField("artifact_update")]
            assert [(each.append, each.last_chunk) for each in made] == [
                (False, False),
                (True, True),
            ]
            assert "".join(each.artifact.parts[0].text for each in made) == "ab"


async def test_it_cancels_and_is_refused_in_the_protocols_words(serve, binding):
    async with serve(agents={"slow": Slow()}, a2a=True) as service:
        async with connect(service, binding, streaming=False) as client:
            at_once = SendMessageConfiguration(return_immediately=True)
            (event,) = await collect(client.send_message(request("go", configuration=at_once)))
            task = await client.cancel_task(CancelTaskRequest(id=event.task.id))
            assert name(task.status.state) == "CANCELED"
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id="none"))
            push = TaskPushNotificationConfig(task_id=task.id, url="http://127.0.0.1:1")
            with pytest.raises(PushNotificationNotSupportedError):
                await client.create_task_push_notification_config(push)
            card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
            assert card.name == "slow"


async def test_random_turns_are_streams_of_the_protocols_own_types(serve):
    order, ends = random.Random(SEED), set()
    below = tool(run_child, name="child")
    steps = [make_steps(order) for _ in range(TURNS)]
    flat = [step for turn in steps for step in turn]
    agents = {"scripted": scripted(*flat, tools=[below])}
    async with serve(agents=agents, a2a=True, seconds=600) as service:
        client = Client(service)
        for number in range(TURNS):
            events = await client.follow("go", contextId=f"c{number}")
            task_id = events[0]["task"]["id"]
            while (end := state_of(*events[-1].values())) not in FINAL:
                assert end == "INPUT_REQUIRED"
                check(events)
                answer = order.choice(["allow", "no, not now"])
                events = await client.follow(answer, taskId=task_id)
            check(events)
            ends.add(end)
            told = await client.call("GetTask", id=task_id)
            assert state_of(told) == end
    assert ends == FINAL if TURNS > 20 else ends


FINAL = {"COMPLETED", "FAILED"}
TURNS = int(os.environ.get("GREENROOM_A2A_TURNS", "5"))
SEED = int(os.environ.get("GREENROOM_A2A_SEED", "41"))


def check(events):
    """Each event is one of the protocol, to the last field, and the last one alone is an end."""
    for each in events:
        ParseDict(each, StreamResponse())  # which knows all fields that there are
    told = [state_of(each["statusUpdate"]) for each in events if "statusUpdate" in each]
    assert not {*told[:-1]} & {*FINAL, "INPUT_REQUIRED", "CANCELED"}, told
    assert "task" in events[0]
    assert not any("task" in each for each in events[1:])
