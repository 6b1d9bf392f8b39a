"""A2A: tasks of other people's programs, their states, questions and results."""

import base64
import json

import pytest
import trio

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    tool,
)
from greenroom.core import Custom, ImageBlock, Message, TextBlock
from greenroom.interop import A2AServer, ServerLimits, Tokens, WebServer
from greenroom.interop.serving import a2a_tasks
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.llm import ModelError
from greenroom.testing import ScriptedProvider, call
from tests.interop.serving.a2a import VERSION, Client, outline, said, state_of, text_of
from tests.interop.serving.services import echo, until, write_tokens

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
NOT_FOUND, NOT_CANCELABLE, NO_PUSH, UNSUPPORTED, NO_TYPE = range(-32001, -32006, -1)
INVALID, NO_VERSION = -32602, -32009


def deploy(place: str) -> str:
    """Deploy it."""
    return f"deployed {place}"


@tool(category="other")
async def report(texts: list[str], context: AgentContext, name: str = "report.txt") -> str:
    """Write a report, text by text."""
    for number, text in enumerate(texts, 1):
        complete = number == len(texts)
        await context.save_artifact(name, text, append=number > 1, complete=complete)
    return "written"


def agent(*steps, **options):
    rules = PermissionManager(
        [PermissionRule.ask_for_tool("deploy"), PermissionRule.allow_tool("report")]
    )
    tools = [deploy, report]
    return Agent(
        ScriptedProvider(*steps), name="scripted", tools=tools, permissions=rules, **options
    )


def serving(*steps, **options):
    return {"agents": {"scripted": agent(*steps)}, "a2a": True, **options}


def down(request):
    raise ModelError("it is down")


class Slow:
    """An agent whose turns last until they are let go."""

    def __init__(self):
        self.go = trio.Event()

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await self.go.wait()
                agent.session.add_message(Message.assistant(f"did {message.text}"))


async def test_a_message_begins_a_task_and_the_next_one_goes_on_in_its_context(serve):
    async with serve(**serving("Hi!", "Bye.")) as service:
        client = Client(service)
        task = await client.send("hello")
        assert (state_of(task), said(task)) == ("COMPLETED", "Hi!")
        assert [text_of(each) for each in task["history"]] == ["hello", "Hi!"]
        other = await client.send("go", contextId=task["contextId"])
        assert (other["contextId"], said(other)) == (task["contextId"], "Bye.")
        assert other["id"] != task["id"]
        assert await client.call("GetTask", id=task["id"]) == task
        assert await service.runtime.store.exists(f"ann:{task['contextId']}")


async def test_a_stream_tells_the_life_of_a_task_and_nothing_of_how_it_works(serve):
    steps = (call("deploy", place="here"), call("report", texts=["a", "bé"]), "done")
    async with serve(**serving(*steps)) as service:
        client = Client(service)
        first = await client.follow("go")
        assert outline(first) == [
            "task SUBMITTED", "statusUpdate WORKING", "statusUpdate INPUT_REQUIRED",
        ]  # fmt: skip
        events = await client.follow("allow", taskId=first[0]["task"]["id"])
        assert outline(events) == [
            "task WORKING",
            "artifactUpdate report.txt",
            "artifactUpdate report.txt",
            "statusUpdate COMPLETED",
        ]
        made = [each["artifactUpdate"] for each in events[1:3]]
        assert [text_of(each["artifact"]) for each in made] == ["a", "bé"]
        marks = [(each.get("append"), each.get("lastChunk")) for each in made]
        assert marks == [(None, None), (True, True)]
        assert said(events[-1]["statusUpdate"]) == "done"
        wire = json.dumps(first + events)
        for internal in ("deployed", "written", "tool_use", "usage", "chunk", "permission_request"):
            assert internal not in wire


async def test_an_answer_is_for_the_question_that_was_shown(serve):
    steps = [call("deploy", place="here"), call("deploy", place="there"), "done"]
    async with serve(**serving(*steps)) as service:
        client = Client(service)
        task = await client.send("go")
        assert "here" in said(task)
        first = task["status"]["message"]["parts"][1]["data"]["question"]
        again = await client.send("yes", taskId=task["id"], configuration=now())
        assert again["id"] == task["id"]
        # The second question is open by now, and this client has not seen it.
        await until(lambda: is_asked(service, "there"))
        given = [{"data": {"decision": "allow", "question": first}}]
        assert await client.send("allow", taskId=task["id"]) == UNSUPPORTED
        assert await client.send(given, taskId=task["id"]) == UNSUPPORTED
        seen = await client.call("GetTask", id=task["id"])
        assert "there" in said(seen)
        given[0]["data"]["question"] = seen["status"]["message"]["parts"][1]["data"]["question"]
        assert said(await client.send(given, taskId=task["id"])) == "done"
        session = await client_history(service, task)
        assert [each.content[0].text for each in session if each] == [
            "deployed here", "deployed there",
        ]  # fmt: skip


async def is_asked(service, place):
    handles = [service.runtime.get(each) for each in service.runtime.list_active()]
    asked = [each for handle in handles for each in await handle.pending()]
    return any(place in str(each.input) for each in asked)


async def client_history(service, task):
    handle = service.runtime.get(f"ann:{task['contextId']}")
    return [each for message in await handle.history() for each in message.tool_results]


def now():
    return {"returnImmediately": True}


async def test_whatever_is_not_a_yes_is_a_no_with_words(serve):
    async with serve(**serving(call("deploy", place="x"), "as you like")) as service:
        client = Client(service)
        task = await client.send("go")
        task = await client.send("yes, but only on Monday", taskId=task["id"])
        assert (state_of(task), said(task)) == ("COMPLETED", "as you like")
        ((result,),) = [[each] for each in await client_history(service, task)]
        assert result.is_error
        assert "only on Monday" in result.content[0].text
        assert [text_of(each) for each in task["history"]][2] == "yes, but only on Monday"


async def test_a_question_in_words_and_one_for_an_object(serve):
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
                words = await agent.request_permission("ask", "Which one?", options=("a", "b"))
                form = await agent.request_permission("ask", "How big?", fields=schema)
                text = f"{words.message}, {form.input}"
                agent.session.add_message(Message.assistant(text))

    async with serve(agents={"asks": asks}, a2a=True) as service:
        client = Client(service)
        task = await client.send("go")
        shown = task["status"]["message"]["parts"][1]["data"]
        assert (shown["kind"], shown["options"]) == ("words", ["a", "b"])
        task = await client.send("the second", taskId=task["id"])
        assert task["status"]["message"]["parts"][1]["data"]["kind"] == "form"
        assert await client.send("big", taskId=task["id"]) == INVALID
        given = {"data": {"decision": "allow", "input": {"size": 3}}}
        assert said(await client.send([given], taskId=task["id"])) == "the second, {'size': 3}"


async def test_a_question_that_waits_for_long_is_suspended_and_answered_later(serve):
    steps = (call("deploy", place="x"), "done")
    async with serve(**serving(*steps, away=0.3)) as service:
        client = Client(service)
        task = await client.send("go")
        handle = service.runtime.get(f"ann:{task['contextId']}")

        async def is_suspended():
            return handle.state.kind == "idle"

        await until(is_suspended)
        task = await client.call("GetTask", id=task["id"])
        assert state_of(task) == "INPUT_REQUIRED"
        task = await client.send("allow", taskId=task["id"])
        assert (state_of(task), said(task)) == ("COMPLETED", "done")


@pytest.mark.parametrize("is_suspended", [False, True])
async def test_a_task_that_asks_is_cancelled(serve, is_suspended):
    away = 0.3 if is_suspended else 300
    async with serve(**serving(call("deploy", place="x"), "done", away=away)) as service:
        client = Client(service)
        task = await client.send("go")
        handle = service.runtime.get(f"ann:{task['contextId']}")

        async def has_state():
            return (handle.state.kind == "idle") is is_suspended

        await until(has_state)
        task = await client.call("CancelTask", id=task["id"])
        assert state_of(task) == "CANCELED"
        assert await client.call("CancelTask", id=task["id"]) == NOT_CANCELABLE
        assert await client.send("allow", taskId=task["id"]) == UNSUPPORTED
        assert await client.call("SubscribeToTask", id=task["id"]) == UNSUPPORTED


async def test_a_call_that_is_cancelled_is_no_fault_of_the_server(serve, caplog):
    begun = trio.Event()

    @tool(category="read")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await trio.sleep_forever()

    waits = Agent(
        ScriptedProvider(call("wait")),
        name="waits",
        tools=[wait],
        permissions=PermissionManager([PermissionRule.allow_tool("wait")]),
    )
    async with serve(agents={"waits": waits}, a2a=True) as service:
        client = Client(service)
        task = await client.send("go", configuration=now())
        await begun.wait()
        assert state_of(await client.call("CancelTask", id=task["id"])) == "CANCELED"
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_task_that_is_cancelled_while_it_begins_does_not_run(serve, nursery, monkeypatch):
    slow, require, results = Slow(), ServedSessions._require_agent, []

    async def require_late(sessions, known, **options):
        monkeypatch.undo()
        (task,) = sessions.tasks.list("ann")
        nursery.start_soon(cancel, task.id)
        lock = sessions.serve(known.session_id).lock
        while not results and not lock.statistics().tasks_waiting:
            await trio.lowlevel.checkpoint()
        return await require(sessions, known, **options)

    async def cancel(task_id):
        results.append(await client.call("CancelTask", id=task_id))

    monkeypatch.setattr(ServedSessions, "_require_agent", require_late)
    async with serve(agents={"slow": slow}, a2a=True) as service:
        client = Client(service)
        await client.send("one", contextId="c", configuration=now())

        async def is_cancelled():
            return results

        await until(is_cancelled)
        assert state_of(results[0]) == "CANCELED"
        slow.go.set()
        assert said(await client.send("two", contextId="c")) == "did two"
        said_to = await service.runtime.get("ann:c").history()
        assert "did one" not in [each.text for each in said_to]


async def test_running_and_waiting_tasks_are_cancelled_and_the_next_one_runs(serve):
    slow = Slow()
    async with serve(agents={"slow": slow}, a2a=True) as service:
        client = Client(service)
        one = await client.send("one", configuration=now(), contextId="c")
        two = await client.send("two", configuration=now(), contextId="c")
        three = await client.send("three", configuration=now(), contextId="c")
        assert await client.send("more", taskId=one["id"]) == UNSUPPORTED
        assert state_of(await client.call("CancelTask", id=two["id"])) == "CANCELED"
        assert state_of(await client.call("CancelTask", id=one["id"])) == "CANCELED"
        async with client.stream("SubscribeToTask", id=three["id"]) as events:
            await anext(events)
            slow.go.set()
            *_, last = [each async for each in events]
        assert (state_of(*last.values()), said(*last.values())) == ("COMPLETED", "did three")
        said_to = await service.runtime.get("ann:c").history()
        assert [each.text for each in said_to if each.role == "user"] == ["one", "three"]


async def test_streams_side_by_side_tell_the_same_and_one_that_ends_stops_nothing(serve):
    slow = Slow()
    async with serve(agents={"slow": slow}, a2a=True) as service:
        client = Client(service)
        task = await client.send("one", configuration=now())
        found = []

        async def follow(task_status):
            async with client.stream("SubscribeToTask", id=task["id"]) as events:
                first = await anext(events)
                task_status.started()
                found.append([first, *[each async for each in events]])

        async with trio.open_nursery() as nursery:
            await nursery.start(follow)
            await nursery.start(follow)
            async with client.stream("SubscribeToTask", id=task["id"]) as events:
                await anext(events)
            slow.go.set()
        assert found[0] == found[1]
        assert outline(found[0])[-1] == "statusUpdate COMPLETED"


async def test_a_server_that_is_started_again_knows_the_tasks_of_the_record(serve):
    store = InMemoryStore()
    steps = ("Hi!", call("report", texts=["a"]), call("deploy", place="x"))
    async with serve(store=store, **serving(*steps)) as service:
        client = Client(service)
        ended = await client.send("hello", contextId="c")
        asks = await client.send("go", contextId="c")
    async with serve(store=store, **serving("done", down)) as client.service:
        bob = Client(client.service, "bob")
        assert await bob.call("GetTask", id=ended["id"]) == NOT_FOUND
        for unknown in ("c.a-none", "c.", "d.a-1", "a\nb.c"):
            assert await client.call("GetTask", id=unknown) == NOT_FOUND
        again = await client.call("GetTask", id=ended["id"])
        assert (state_of(again), said(again)) == ("COMPLETED", "Hi!")
        assert [text_of(each) for each in again["history"]] == ["hello", "Hi!"]
        assert await client.call("CancelTask", id=ended["id"]) == NOT_CANCELABLE
        again = await client.call("GetTask", id=asks["id"])
        assert (state_of(again), said(again)) == ("INPUT_REQUIRED", said(asks))
        task = await client.send("allow", taskId=asks["id"])
        assert (state_of(task), said(task)) == ("COMPLETED", "done")
        assert [text_of(each) for each in task["artifacts"]] == ["a"]
        failed = await client.send("more", id="again", contextId="c")
        assert state_of(failed) == "FAILED"
    async with serve(store=store, **serving()) as client.service:
        assert state_of(await client.call("GetTask", id=failed["id"])) == "FAILED"
        same = await client.send("more", id="again", contextId="c")
        assert (same["id"], state_of(same)) == (failed["id"], "FAILED")


async def test_a_client_that_waits_and_goes_away_stops_nothing(serve):
    slow = Slow()
    async with serve(agents={"slow": slow}, a2a=True) as service:
        client = Client(service)

        async def has_begun():
            return (await client.call("ListTasks", status="TASK_STATE_WORKING"))["tasks"]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, "go")
            (task,) = await until(has_begun)
            nursery.cancel_scope.cancel()
        slow.go.set()

        async def has_ended():
            return state_of(await client.call("GetTask", id=task["id"])) == "COMPLETED"

        await until(has_ended)


async def test_of_two_answers_the_first_counts_and_the_other_is_refused(serve):
    async with serve(**serving(call("deploy", place="x"), "done")) as service:
        client, found = Client(service), []
        task = await client.send("go")

        async def answer(text):
            found.append(await client.send(text, taskId=task["id"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, "allow")
            nursery.start_soon(answer, "deny")
        refused = [each for each in found if isinstance(each, int)]
        assert refused in ([UNSUPPORTED], [INVALID])
        assert len(await client_history(service, task)) == 1


async def test_a_failed_turn_is_a_failed_task_and_the_context_goes_on(serve):
    async with serve(**serving(down, "fine")) as service:
        client = Client(service)
        task = await client.send("go")
        assert (state_of(task), said(task)) == ("FAILED", "it is down")
        task = await client.send("again", contextId=task["contextId"])
        assert (state_of(task), said(task)) == ("COMPLETED", "fine")


async def test_the_same_message_again_is_the_same_task(serve):
    async with serve(**serving("one", "two")) as service:
        client = Client(service)
        first = await client.send("go", id="m", contextId="c")
        assert await client.send("go", id="m", contextId="c") == first
        assert await client.send("other", id="m", contextId="c") == INVALID
        assert said(await client.send("go", id="m", contextId="d")) == "two"


async def test_messages_side_by_side_may_begin_a_context(serve):
    found = []

    async def send(id_):
        found.append(await Client(service).send(f"go {id_}", id=id_, contextId="c"))

    async with serve(**serving("one", "two", "three")) as service:
        async with trio.open_nursery() as sending:
            for id_ in ("a", "b", "c", "c"):
                sending.start_soon(send, id_)
        assert {state_of(each) for each in found} == {"COMPLETED"}
        assert len({each["id"] for each in found}) == 3


async def test_a_task_is_found_by_its_owner_alone(serve):
    async with serve(**serving(call("deploy", place="x"), "done")) as service:
        ann, bob = Client(service), Client(service, "bob")
        task = await ann.send("go")
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert await bob.call(method, id=task["id"]) == NOT_FOUND
        assert await bob.send("allow", taskId=task["id"]) == NOT_FOUND
        assert (await bob.call("ListTasks"))["tasks"] == []
        for who, path in (("root", "/a2a"), ("bob", "/a2a/scripted")):
            assert await Client(service, who, path).call("GetTask", id=task["id"]) == NOT_FOUND
        async with service.client("ann-viewer") as http:
            assert (await http.post("/a2a", json={})).status_code == 403
        async with service.client(None) as http:
            assert (await http.post("/a2a", json={})).status_code == 401


async def test_tasks_are_listed_newest_first_in_pages(serve):
    async with serve(agents={"echo": echo}, a2a=True) as service:
        client = Client(service)
        tasks = [await client.send(f"t{n}", contextId="ab"[n % 2]) for n in range(5)]

        async def list_ids(**params):
            found, token = [], ""
            while True:
                page = await client.call("ListTasks", pageToken=token, **params)
                assert all("artifacts" not in each for each in page["tasks"])
                found += [tasks.index({**each}) for each in page["tasks"]]
                if not (token := page["nextPageToken"]):
                    return found, page["totalSize"]

        assert await list_ids(pageSize=2) == ([4, 3, 2, 1, 0], 5)
        assert await list_ids(contextId="b") == ([3, 1], 2)
        assert await list_ids(status="TASK_STATE_WORKING") == ([], 0)
        assert await list_ids(statusTimestampAfter=tasks[0]["status"]["timestamp"]) == (
            [4, 3, 2, 1, 0], 5,
        )  # fmt: skip
        assert (await list_ids(statusTimestampAfter="2999-01-01T00:00:00Z"))[1] == 0
        for wrong in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"},
                      {"statusTimestampAfter": "noon"}, {"historyLength": -1}):  # fmt: skip
            assert await client.call("ListTasks", **wrong) == INVALID


async def test_of_many_tasks_the_newest_are_listed_and_the_others_read_from_the_record(
    serve, monkeypatch
):
    monkeypatch.setattr(a2a_tasks, "_MOST_TASKS", 3)
    slow = Slow()
    async with serve(agents={"echo": echo, "slow": slow}, a2a=True) as service:
        client, other = Client(service), Client(service, path="/a2a/slow")
        tasks = [await client.send(f"t{n}") for n in range(5)]
        listed = (await client.call("ListTasks"))["tasks"]
        assert listed == [{**each} for each in tasks[:1:-1]]
        again = await client.call("GetTask", id=tasks[0]["id"])
        assert (state_of(again), again["id"]) == ("COMPLETED", tasks[0]["id"])
        for _ in range(3):
            await other.send("wait", configuration=now())
        assert await other.send("wait", configuration=now()) == -32603
        assert len(service.server._sessions.tasks._tasks) == 3
        slow.go.set()


async def test_what_is_kept_of_open_tasks_is_bounded(serve, monkeypatch):
    monkeypatch.setattr(a2a_tasks, "_MOST_BYTES", 20_000)

    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                while (await agent.request_permission("ask", "More?", options=())).message != "no":
                    pass

    async with serve(agents={"asks": asks}, a2a=True) as service:
        client = Client(service)
        task = await client.send("go")
        for _ in range(5):
            task = await client.send("a" * 8_000, taskId=task["id"])
        book = service.server._sessions.tasks
        assert book._size < 40_000
        assert await client.send("another") == -32603
        assert state_of(await client.send("no", taskId=task["id"])) == "COMPLETED"
        assert state_of(await client.send("another")) == "INPUT_REQUIRED"


async def test_no_more_of_the_history_than_is_wanted(serve):
    async with serve(agents={"echo": echo}, a2a=True) as service:
        client = Client(service)
        task = await client.send("hi", configuration={"historyLength": 0})
        assert "history" not in task
        task = await client.call("GetTask", id=task["id"], historyLength=1)
        assert [text_of(each) for each in task["history"]] == ["hi"]
        assert [each["role"] for each in task["history"]] == ["ROLE_AGENT"]


async def test_what_is_made_elsewhere_is_told_as_a_link_and_no_sense_is_left_out(serve):
    async def links(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for url in ("https://a.example/1", "https://a.example/2", 3):
                    await agent.send(Custom("artifact", {"name": "a.txt", "url": url}))
                assert message.metadata == {"a2a.message": "ann-1"}

    async with serve(agents={"links": links}, a2a=True) as service:
        task = await Client(service).send("go")
        (made,) = task["artifacts"]
        assert made["parts"] == [{"url": "https://a.example/2", "filename": "a.txt"}]


async def test_names_may_be_written_as_the_schema_has_them(serve):
    async with serve(agents={"echo": echo}, a2a=True) as service:
        client = Client(service)
        message = {"message_id": "m", "role": "ROLE_USER", "parts": [{"data": {"a_b": 1}}]}
        task = (await client.call("SendMessage", message=message))["task"]
        assert said(task) == '{"a_b":1}'
        task = await client.call("GetTask", id=task["id"], history_length=0)
        assert "history" not in task


async def test_pictures_and_data_are_taken_and_nothing_is_fetched(serve):
    async with serve(**serving("seen")) as service:
        client = Client(service)
        parts = [{"text": "look"}, {"raw": PNG, "mediaType": "image/png"}, {"data": {"a": None}}]
        task = await client.send(parts, contextId="c")
        assert said(task) == "seen"
        (message,) = (await service.runtime.get("ann:c").history())[:1]
        assert message.content == (
            TextBlock("look"), ImageBlock("image/png", PNG), TextBlock('{"a":null}'),
        )  # fmt: skip
        for part, code in (
            ({"url": "http://127.0.0.1:1/x"}, NO_TYPE),
            ({"raw": PNG, "mediaType": "application/x-other"}, NO_TYPE),
            ({"raw": "no!", "mediaType": "image/png"}, INVALID),
            ({"text": "a", "data": 1}, INVALID),
            ({"filename": "x"}, INVALID),
            ({"text": "  "}, INVALID),
        ):
            assert await client.send([part]) == code


async def test_each_refusal_has_the_protocols_code(serve):
    async with serve(**serving("one")) as service:
        client = Client(service)
        assert await client.call("Sing") == -32601
        assert await client.call("GetTask") == INVALID
        assert await client.call("GetTask", id="c.a-1") == NOT_FOUND
        assert await client.send("x", taskId="none") == NOT_FOUND
        assert await client.send("x", role="ROLE_AGENT") == INVALID
        assert await client.send([]) == INVALID
        assert await client.send("x", contextId="a\nb") == INVALID
        push = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:1"}}
        assert await client.send("x", configuration=push) == NO_PUSH
        for verb in ("Create", "Get", "Delete"):
            assert await client.call(f"{verb}TaskPushNotificationConfig") == NO_PUSH
        assert await client.call("ListTaskPushNotificationConfigs") == NO_PUSH
        async with service.client() as http:

            async def post(data, **headers):
                headers = {"content-type": "application/json", **VERSION, **headers}
                return (await http.post("/a2a", content=data, headers=headers)).json()["error"]

            assert (await post("{"))["code"] == -32700
            call_ = client.body("GetTask", {"id": "x"})
            for wrong in ([call_], {**call_, "jsonrpc": "1"}, {**call_, "id": True}, 1,
                          {**call_, "method": 3}, {**call_, "id": None}):  # fmt: skip
                assert (await post(json.dumps(wrong)))["code"] == -32600
            for given in ("", "0.3", "2.0", "1"):
                error = await post(json.dumps(call_), **{"A2A-Version": given})
                assert error["code"] == NO_VERSION
            assert (await post(json.dumps(call_), **{"A2A-Version": "1.0.7"}))["code"] == NOT_FOUND
            assert (await post("x", **{"content-type": "text/plain"}))["code"] == NO_TYPE
            (detail,) = (await post(json.dumps(call_)))["data"]
            assert (detail["reason"], detail["domain"]) == ("TASK_NOT_FOUND", "a2a-protocol.org")


async def test_the_binding_of_http_says_the_same(serve):
    async with serve(
        **serving("Hi!", call("report", texts=["{}"], name="r.json"), "done", "more")
    ) as service:
        async with service.client() as http:
            http.headers.update(VERSION)
            message = Client(service).message("hello")
            reply = await http.post("/a2a/v1/message:send", json={"message": message})
            task = reply.json()["task"]
            assert said(task) == "Hi!"
            shown = await http.get(f"/a2a/v1/tasks/{task['id']}?historyLength=1")
            assert len(shown.json()["history"]) == 1
            body = {"message": {**message, "messageId": "b", "contextId": "c"}}
            reply = await http.post("/a2a/scripted/v1/message:stream", json=body)
            events = [json.loads(each[6:]) for each in reply.text.splitlines() if each]
            assert outline(events)[1:] == [
                "statusUpdate WORKING", "artifactUpdate r.json", "statusUpdate COMPLETED",
            ]  # fmt: skip
            (part,) = events[2]["artifactUpdate"]["artifact"]["parts"]
            assert part == {"data": {}, "filename": "r.json", "mediaType": "application/json"}
            other = {"message": {**message, "messageId": "c", "contextId": "a:b"}}
            named = (await http.post("/a2a/v1/message:send", json=other)).json()["task"]["id"]
            for place, status in ((named, 200), (f"{named}:subscribe", 400)):
                assert (await http.get(f"/a2a/v1/tasks/{place}")).status_code == status
            listed = await http.get("/a2a/v1/tasks?contextId=c&pageSize=1&includeArtifacts=true")
            assert [each["id"] for each in listed.json()["tasks"]] == [events[0]["task"]["id"]]
            assert len(listed.json()["tasks"][0]["artifacts"]) == 1
            for method, path, status in (
                ("GET", "/a2a/v1/tasks/none", 404),
                ("POST", "/a2a/v1/tasks/none:cancel", 404),
                ("POST", f"/a2a/v1/tasks/{task['id']}:cancel", 400),
                ("POST", f"/a2a/v1/tasks/{task['id']}:subscribe", 400),
                ("GET", f"/a2a/v1/tasks/{task['id']}:subscribe", 400),
                ("POST", f"/a2a/v1/tasks/{task['id']}:sing", 404),
                ("GET", f"/a2a/v1/tasks/{task['id']}/pushNotificationConfigs", 400),
                ("GET", "/a2a/v1/tasks?pageSize=x", 400),
            ):
                reply = await http.request(method, path)
                assert (reply.status_code, reply.json()["error"]["code"]) == (status, status)
            card = (await http.get("/a2a/v1/extendedAgentCard")).json()
            assert card["name"] == "scripted"


async def test_the_card_says_who_and_where_to_anybody(serve):
    agents = {"one": agent("x", description="does one thing"), "two": agent("y")}
    async with serve(agents=agents, a2a=True, card={"version": "7"}) as service:
        async with service.client(None) as http:
            reply = await http.get("/.well-known/agent-card.json")
            card = reply.json()
            assert (card["name"], card["description"]) == ("one", "does one thing")
            assert card["version"] == "7"
            url = card["supportedInterfaces"][0]["url"]
            assert url == f"{service.link}/a2a"
            assert not card["capabilities"]["pushNotifications"]
            assert "max-age" in reply.headers["cache-control"]
            assert reply.headers["last-modified"].endswith("GMT")
            reply = await http.get("/a2a/two/.well-known/agent-card.json")
            assert reply.json()["supportedInterfaces"][0]["url"] == f"{url}/two"
            assert (await http.get("/a2a/no/.well-known/agent-card.json")).status_code == 401
        assert said(await Client(service, path="/a2a/two").send("go")) == "y"


async def test_without_it_there_is_no_a2a(serve):
    async with serve() as service, service.client() as http:
        assert (await http.post("/a2a", json={})).status_code == 404
        assert (await http.get("/a2a/v1/tasks")).status_code == 404
        assert (await http.get("/.well-known/agent-card.json")).status_code == 404


async def test_a_server_of_one_agent_has_nothing_else():
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        server = A2AServer(runtime, agent("Hi!"))
        link, _, token = (await nursery.start(server.serve)).partition("/#token=")
        service = Alone(link, token)
        assert said(await Client(service).send("hello")) == "Hi!"
        async with service.client("ann") as http:
            assert (await http.get("/api/agents")).status_code == 404
            assert (await http.get("/")).status_code == 404
            assert (await http.get("/health")).status_code == 200
        nursery.cancel_scope.cancel()


class Alone:
    """What a client needs of a server without tokens of a file."""

    def __init__(self, link, token):
        self.link, self.token = link, token

    def client(self, who):
        import httpx

        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.link, headers=headers, timeout=60, trust_env=False)


async def test_a_hundred_tasks_side_by_side_hear_of_themselves_alone(tmp_path):
    tokens, limits = Tokens.load(write_tokens(tmp_path / "tokens")), ServerLimits(per_token=200)
    ends = {}
    async with AgentRuntime(InMemoryStore()) as runtime:
        server = WebServer(runtime, {"echo": echo}, tokens=tokens, a2a=True, limits=limits)

        async def run(number):
            message = {"messageId": f"m{number}", "role": "ROLE_USER"}
            message["parts"] = [{"text": f"n{number}"}]
            told = await post(server.app, "SendStreamingMessage", message=message)
            ends[number] = (outline(told), said(told[-1]["statusUpdate"]))

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(run, number)
    life = ["task SUBMITTED", "statusUpdate WORKING", "statusUpdate COMPLETED"]
    assert ends == {number: (life, f"n{number}") for number in range(100)}


async def test_below_the_path_of_a_mount_it_is_where_the_card_says(tmp_path):
    tokens = Tokens.load(write_tokens(tmp_path / "tokens"))
    async with AgentRuntime(InMemoryStore()) as runtime:
        server = WebServer(runtime, {"echo": echo}, tokens=tokens, a2a=True)
        path = {"root_path": "/api", "path": "/api/.well-known/agent-card.json"}
        card = json.loads(await exchange(server.app, **path, method="GET"))
        url = card["supportedInterfaces"][0]["url"]
        assert url == "http://localhost/api/a2a"
        path["path"] = "/api/a2a"
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
        told = json.loads(await exchange(server.app, json.dumps(body).encode(), **path))
        assert told["result"]["tasks"] == []


async def post(app, method, **params):
    """Send a request to an application, without a socket; return the results of its stream."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    told = await exchange(app, body)
    return [json.loads(each[6:])["result"] for each in told.split(b"\n\n") if each]


async def exchange(app, body=b"", **changes):
    """Send a request to an application, without a socket; return the body of its reply."""
    headers = {"host": "localhost", "authorization": "Bearer token-of-ann", **VERSION}
    headers["content-type"] = "application/json"
    raw = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/a2a"}
    scope |= {"scheme": "http", "headers": raw, "query_string": b"", **changes}
    waiting, sent = [{"type": "http.request", "body": body}], []

    async def receive():
        if not waiting:
            await trio.sleep_forever()
        return waiting.pop()

    async def send(event):
        sent.append(event.get("body", b""))

    await app(scope, receive, send)
    return b"".join(sent)


async def test_a_task_that_ended_and_was_forgotten_meanwhile_can_be_dropped(monkeypatch):
    monkeypatch.setattr(a2a_tasks, "_MOST_TASKS", 1)
    async with AgentRuntime(InMemoryStore()) as runtime:
        book = a2a_tasks.TaskBook(runtime)
        refused, later = (
            a2a_tasks.ServedTask(each, "c", "ann", "s", f"i-{each}", size=10) for each in ("1", "2")
        )
        book.open(refused)
        book.end(refused, a2a_tasks.State.CANCELED)
        book.open(later)
        book.drop(refused)
        assert book.find("1", "ann") is None
        assert book.find("2", "ann") is later
        assert book._size == later.size


async def test_one_owner_leaves_room_for_the_tasks_of_others(monkeypatch):
    monkeypatch.setattr(a2a_tasks, "_MOST_OPEN", 2)
    async with AgentRuntime(InMemoryStore()) as runtime:
        book = a2a_tasks.TaskBook(runtime)

        def begin(id_, owner="ann"):
            task = a2a_tasks.ServedTask(id_, "c", owner, f"s-{id_}", f"i-{id_}")
            book.open(task)
            return task

        first = begin("1")
        begin("2")
        with pytest.raises(a2a_tasks.TaskRefusedError, match="too many of your tasks"):
            begin("3")
        begin("4", "ben")
        book.end(first, a2a_tasks.State.COMPLETED)
        assert begin("3")
