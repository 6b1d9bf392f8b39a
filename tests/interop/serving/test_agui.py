"""AG-UI: runs of other people's programs, with tools and answers of theirs."""

import json
import os
import random
from pathlib import Path

import pytest
import trio

from greenroom import Agent, AgentSession, InMemoryStore, PermissionManager, PermissionRule
from greenroom.core import Custom, Message, TextBlock, TextDelta, ThinkingDelta
from greenroom.interop.serving import agui_routes
from greenroom.llm import ModelError
from greenroom.testing import ScriptedProvider, call
from tests.interop.serving.agui import Client, decide
from tests.interop.serving.services import echo, until

SEED = int(os.environ.get("GREENROOM_AGUI_SEED", "41"))
MODULES = os.environ.get("GREENROOM_AGUI", "")  # a folder with node_modules of @ag-ui/client
NPM_RUNS = 200
RUNS = int(os.environ.get("GREENROOM_AGUI_RUNS", "12"))


def deploy(place: str) -> str:
    """Deploy it."""
    return f"deployed {place}"


def breaks() -> str:
    """Break."""
    raise ValueError("it broke")


def agent(*steps, name="scripted", **options):
    rules = PermissionManager(
        [
            PermissionRule.ask_for_tool("deploy"),
            PermissionRule.allow_tool("breaks", "child"),
            PermissionRule.deny_tool("never"),
        ]
    )
    tools = [deploy, breaks, *options.pop("tools", ())]
    return Agent(ScriptedProvider(*steps), name=name, tools=tools, permissions=rules, **options)


def down(request):
    raise ModelError("it is down")


def with_agent(*steps, **options):
    return {"agents": {"scripted": agent(*steps, **options)}, "ag_ui": True}


async def test_a_run_tells_a_turn_and_the_next_one_goes_on_with_the_conversation(serve):
    async with serve(**with_agent("Hi!", "Bye.")) as service:
        client = Client(service)
        end = await client.run("hello")
        assert (end["outcome"], end["result"]) == ({"type": "success"}, "Hi!")
        assert end["usage"] == [{"model": "script", "inputTokens": 10, "outputTokens": 5}]
        client.add("assistant", content="something that it never said")
        await client.run("go")
        assert client.text == "Hi!Bye."
        said = [each["content"][0]["text"] for each in (await client.history())["messages"]]
        assert said == ["hello", "Hi!", "go", "Bye."]


async def test_a_client_runs_its_tools_or_refuses(serve):
    steps = ([TextBlock("one"), call("pick", what="a"), call("pick", what="b")], "thanks")
    async with serve(**with_agent(*steps)) as service:
        client = Client(service, tools=["pick"])
        first = (await client.run("go"))["outcome"]["pendingToolCallIds"][0]
        # The second may be told together with the first, or by the next run.
        (second,) = (await client.run(results={first: "red"}))["outcome"]["pendingToolCallIds"]
        assert (await client.run(results={second: None}))["outcome"] == {"type": "success"}
        assert client.texts("TOOL_CALL_RESULT", field="content") == []  # the client knows them
        results = (await client.history())["messages"][2]["content"]
        assert [each["content"][0]["text"] for each in results] == ["red", "refused"]
        assert [each.get("is_error", False) for each in results] == [False, True]


async def test_a_result_that_never_comes_is_given_up_for_a_new_message(serve):
    async with serve(**with_agent(call("pick"), "as you like")) as service:
        client = Client(service, tools=["pick"])
        (call_id,) = (await client.run("go"))["outcome"]["pendingToolCallIds"]
        assert (await client.run("never mind"))["outcome"] == {"type": "success"}
        assert client.text == "as you like"
        late = await client.post({"messages": [{"id": "x", "role": "tool", "content": "red",
                                                "toolCallId": call_id}]})  # fmt: skip
        assert late.status_code == 400


async def test_a_question_is_an_interrupt_and_its_answer_is_bound_to_what_was_shown(serve):
    steps = (call("deploy", place="here"), call("deploy", place="there"), "done")
    async with serve(**with_agent(*steps)) as service:
        client = Client(service)
        (asked,) = (await client.run("go"))["outcome"]["interrupts"]
        assert "here" in asked["message"]
        changed = decide([{**asked, "id": f"{asked['id'][:-1]}x"}])
        assert (await client.post({"resume": changed})).status_code == 409
        (asked,) = (await client.run(resume=decide([asked])))["outcome"]["interrupts"]
        given = [{"interruptId": asked["id"], "status": "cancelled"}]
        assert (await client.run(resume=given))["outcome"] == {"type": "success"}
        assert (await client.post({"resume": given})).status_code == 409
        results = client.texts("TOOL_CALL_RESULT", field="content")
        assert results[0] == "deployed here"
        assert "there" not in results[1]


async def test_a_suspended_question_is_answered_by_a_later_server(serve):
    store = InMemoryStore()
    async with serve(store=store, **with_agent(call("deploy", place="x"))) as service:
        client = Client(service)
        (asked,) = (await client.run("go"))["outcome"]["interrupts"]
    async with serve(store=store, **with_agent("done")) as client.service:
        assert (await client.run(resume=decide([asked])))["outcome"] == {"type": "success"}
        assert client.texts("TOOL_CALL_RESULT", field="content") == ["deployed x"]
        assert client.text == "done"


async def test_what_follows_an_answer_is_told_however_late_it_is_read(serve, monkeypatch):
    store, send_head = InMemoryStore(), agui_routes.send_head
    async with serve(store=store, **with_agent(call("deploy", place="x"))) as service:
        client = Client(service)
        (asked,) = (await client.run("go"))["outcome"]["interrupts"]

    async def send_late(*args):
        async def is_idle():
            return runtime.get("ann:t").state.kind == "idle"

        await until(is_idle)
        await send_head(*args)

    monkeypatch.setattr(agui_routes, "send_head", send_late)
    async with serve(store=store, **with_agent("done")) as client.service:
        runtime = client.service.server._sessions.runtime
        assert (await client.run(resume=decide([asked])))["outcome"] == {"type": "success"}
        assert client.texts("TOOL_CALL_RESULT", field="content") == ["deployed x"]


async def test_a_client_that_goes_away_stops_nothing_and_follows_the_turn_later(serve):
    go = trio.Event()

    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("one "))
                await go.wait()
                await agent.send(TextDelta("two"))

    async with serve(agents={"slow": slow}, ag_ui=True) as service:
        client = Client(service)
        client.add("user", content="go")
        with trio.CancelScope() as scope:
            async with service.client() as http, trio.open_nursery() as nursery:
                nursery.start_soon(leave_when_told, service, scope)
                body = {"threadId": "t", "runId": "r", "messages": client.messages}
                await http.post("/ag-ui", json=body)

        async def is_free():
            return service.server._sessions.streams == 0

        await until(is_free)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)

            async def is_followed():
                return service.server._sessions.streams == 1

            await until(is_followed)
            assert (await client.post({})).status_code == 409  # one run at a time
            go.set()
        assert client.text == "two"


async def leave_when_told(service, scope):
    async def is_told():
        return service.server._sessions.serve("ann:t").thread.position

    await until(is_told)
    scope.cancel()


async def test_an_error_of_a_turn_ends_the_run(serve):
    async with serve(**with_agent(down, "better")) as service:
        client = Client(service)
        end = await client.run("go")
        assert (end["type"], end["message"], end["code"]) == (
            "RUN_ERROR", "it is down", "ModelError"
        )  # fmt: skip
        assert (await client.run("again"))["outcome"] == {"type": "success"}


async def test_pictures_are_taken_and_what_has_to_be_fetched_is_not(serve):
    async with serve(**with_agent("nice")) as service:
        client = Client(service)
        source = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
        elsewhere = {"type": "url", "value": "http://example.com/x.png"}
        parts = [{"type": "text", "text": "look"}, {"type": "image", "source": source}]
        for part in ({"type": "image", "source": elsewhere}, {"type": "video", "source": source}):
            client.add("user", content=[part])
            assert (await client.post({})).status_code == 400
        await client.run(parts)
        (said, _) = (await client.history())["messages"]
        assert [each["type"] for each in said["content"]] == ["text", "image"]


@pytest.mark.parametrize(
    "message",
    [
        {"id": "x", "content": [{"type": "audio"}]},
        {"id": "x", "content": "  "},
        {"id": "x" * 129, "content": "never mind"},
    ],
)
async def test_a_message_that_is_refused_ends_nothing_that_waits(serve, message):
    async with serve(**with_agent(call("pick"), "thanks")) as service:
        client = Client(service, tools=["pick"])
        (call_id,) = (await client.run("go"))["outcome"]["pendingToolCallIds"]
        refused = await client.post({"messages": [{"role": "user", **message}]})
        assert refused.status_code == 400
        assert (await client.run(results={call_id: "red"}))["result"] == "thanks"


async def test_of_several_results_of_a_call_the_last_counts(serve):
    seen = []

    def look(request):
        seen.extend(each.text for each in request.messages[-1].tool_results)
        return "thanks"

    async with serve(**with_agent(call("pick"), look)) as service:
        client = Client(service, tools=["pick"])
        (call_id,) = (await client.run("go"))["outcome"]["pendingToolCallIds"]
        client.add("tool", toolCallId=call_id, content="red")
        assert (await client.run(results={call_id: "blue"}))["result"] == "thanks"
        assert seen == ["blue"]


async def test_what_makes_no_sense_is_refused_before_a_run_begins(serve):
    agents = {"scripted": agent("Hi!"), "echo": echo}
    async with serve(agents=agents, ag_ui=True) as service:
        said = {"messages": [{"id": "1", "role": "user", "content": "hi"}]}
        tool = [{"name": "pick", "description": "x"}]
        own, other = Client(service), Client(service, path="/ag-ui/echo")
        for client, body, status in (
            (own, {}, 400),  # nothing is new
            (own, {"messages": [{"id": "1", "role": "user", "content": " "}]}, 400),
            (own, {**said, "threadId": ""}, 400),
            (own, {**said, "threadId": "x" * 300}, 404),
            (own, {**said, "tools": [{"name": "deploy", "description": "x"}]}, 400),
            (own, {**said, "tools": [{"name": "a b", "description": "x"}]}, 400),
            (own, {**said, "tools": tool * 2}, 400),
            (own, {**said, "tools": tool * 65}, 400),
            (own, {**said, "resume": [{"interruptId": "p.1", "status": "resolved"}]}, 409),
            (other, {**said, "threadId": "u", "tools": tool}, 409),
            (Client(service, path="/ag-ui/none"), {**said, "threadId": "v"}, 409),
            (Client(service, who="ann-viewer"), said, 403),
        ):
            assert (await client.post(body)).status_code == status, body
        assert (await other.post({**said, "threadId": "t"})).status_code == 409  # another agent's
        foreign = Client(service, who="bob")
        await own.run("hi")
        await foreign.run("hi")  # the same thread under another name is another session
    async with serve() as service:
        assert (await Client(service).post(said)).status_code == 404


def make_steps(order):
    """Make the steps of a turn at random, its last one a text; failures may end it sooner."""
    steps = []
    for _ in range(order.randint(0, 4)):
        calls = [
            order.choice(
                [
                    call("deploy", place="x"), call("breaks"), call("never"), call("nowhere"),
                    call("pick", n=1), call("child", text="go"),
                ]
            )
            for _ in range(order.randint(1, 3))
        ]  # fmt: skip
        text = [TextBlock("so: ")] if order.random() < 0.5 else []
        steps.append([*text, *calls] if order.random() < 0.9 else down)
    return [*steps, "the end"]


async def child(agent):
    """Think, talk, ask and end."""
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(ThinkingDelta("hm"))
            await agent.send(TextDelta("below"))
            await agent.send(Custom("progress", {"at": 1}, "half"))
            answer = await agent.request_permission("Look", "look", digest="d")
            agent.session.add_message(Message.assistant(str(answer.decision)))


async def run_child(text: str) -> str:
    """Run a subagent."""
    from greenroom.runtime._internal import calling_internals

    handle = calling_internals().spawn(AgentSession.new("below"), child)
    return (await handle.ask(text)).text


async def test_random_conversations_are_runs_of_the_protocol(serve):
    order = random.Random(SEED)
    from greenroom import tool

    below = tool(run_child, name="child")
    runs = 0
    while runs < RUNS:
        steps = [make_steps(order) for _ in range(3)]
        flat = [step for turn in steps for step in turn]
        async with serve(seconds=120, **with_agent(*flat, tools=[below])) as service:
            client = Client(service, tools=["pick"])
            end = await client.run("go")
            for _ in range(60):
                runs += 1
                outcome = end.get("outcome", {"type": "error"})
                if waiting := outcome.get("pendingToolCallIds"):
                    if order.random() < 0.2:
                        end = await client.run("never mind")
                    else:
                        given = {each: order.choice(["red", None]) for each in waiting}
                        end = await client.run(results=given)
                elif outcome["type"] == "interrupt":
                    answer = order.choice(["allow", "deny"])
                    end = await client.run(resume=decide(outcome["interrupts"], answer))
                else:
                    break
            await client.settle()
            told = set(client.texts("TOOL_CALL_START", field="toolCallId"))
            assert set(client.texts("TOOL_CALL_RESULT", field="toolCallId")) <= told


@pytest.mark.skipif(not MODULES, reason="GREENROOM_AGUI names no folder with @ag-ui/client")
async def test_the_client_of_npm_accepts_random_conversations(serve):
    from greenroom import tool

    order, below = random.Random(SEED), tool(run_child, name="child")
    steps = [step for _ in range(10 * NPM_RUNS) for step in make_steps(order)]
    script = str(Path(__file__).with_name("agui_client.mjs"))
    async with serve(seconds=1200, **with_agent(*steps, tools=[below])) as service:
        words = (f"{service.link}/ag-ui", "token-of-ann", str(NPM_RUNS), str(SEED))
        done = await trio.run_process(
            ["node", script, MODULES, *words], capture_stdout=True, check=False
        )
    assert done.returncode == 0
    print(done.stdout.decode())
    assert {"pending", "interrupt", "success"} <= set(json.loads(done.stdout)["ends"])
