"""Bodies of A2A that make no sense: each is answered in the protocol's words, and nothing fails."""

import json
import os
import random

from tests.interop.serving.a2a import VERSION, Client
from tests.interop.serving.test_remote_a2a_hostile import Peer, change

COUNT = int(os.environ.get("GREENROOM_A2A_BODIES", "100"))
SEED = int(os.environ.get("GREENROOM_A2A_SEED", "41"))
CODES = {-32700, -32600, -32601, -32602, *range(-32009, -32000)}
PART = {"url": "", "mediaType": "image/png"}


def bodies(client, link, tasks):
    """Return requests that make sense."""
    message = client.message("hello", contextId="c")
    file = client.message([{"text": "look"}, {**PART, "url": f"{link}/x"}])
    push = {"taskPushNotificationConfig": {"url": f"{link}/hook"}}
    at_once = {"configuration": {"returnImmediately": True, "historyLength": 1}}
    given = [
        ("SendMessage", {"message": message, **at_once}),
        ("SendMessage", {"message": file}),
        ("SendMessage", {"message": message, "configuration": push}),
        ("SendStreamingMessage", {"message": client.message("hi")}),
        ("CreateTaskPushNotificationConfig", {"url": f"{link}/hook", "taskId": "t"}),
        ("ListTasks", {"pageSize": 3, "status": "TASK_STATE_WORKING", "includeArtifacts": True}),
        ("GetExtendedAgentCard", {}),
    ]
    if tasks:
        methods = ("GetTask", "CancelTask", "SubscribeToTask")
        given += [(method, {"id": tasks[-1]}) for method in methods]
    return [client.body(method, params) for method, params in given]


def spoil(order, body):
    """Return the bytes of a request, in which something is changed."""
    data = json.dumps(change(order, body)).encode()
    kind = order.randrange(8)
    if kind == 0:
        return data[: order.randrange(len(data) or 1)]
    if kind == 1:
        place = order.randrange(len(data) or 1)
        return data[:place] + order.randbytes(2) + data[place + 2 :]
    if kind == 2:
        return order.choice([b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe{}", b"", b"[" + data])
    return data


async def test_random_bodies_are_answered_in_the_protocols_words(serve, nursery, caplog):
    order, tasks = random.Random(SEED), []
    trap = await nursery.start(Peer().serve)
    async with serve(a2a=True, seconds=600) as service, service.client() as http:
        client = Client(service)
        http.headers.update({**VERSION, "content-type": "application/json"})
        for _ in range(COUNT):
            body = order.choice(bodies(client, trap.link, tasks))
            if order.random() < 0.3:
                verb = order.choice(["send", "stream"])
                data = spoil(order, body["params"])
                reply = await http.post(f"/a2a/v1/message:{verb}", content=data)
                assert reply.status_code < 500, data
                continue
            data = spoil(order, body)
            reply = await http.post("/a2a", content=data)
            assert reply.status_code == 200, data
            if reply.headers["content-type"] == "text/event-stream":
                told = [json.loads(each[6:]) for each in reply.text.splitlines() if each[:1] == "d"]
                answer = told[-1]
            else:
                answer = reply.json()
            if "error" in answer:
                assert answer["error"]["code"] in CODES, (answer, data)
            else:
                task = answer["result"].get("task", {})
                tasks += [task["id"]] if "id" in task else []
        book = service.server._sessions.tasks
        assert book._size == sum(each.size for each in book._tasks.values())
    assert trap.heads == []
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_parameters_that_are_nested_too_deeply_are_refused(serve, caplog):
    async with serve(a2a=True) as service, service.client() as http:
        http.headers.update({**VERSION, "content-type": "application/json"})
        body = json.dumps(Client(service).body("ListTasks", {"x": 0}))
        deep = body.replace('"x": 0', '"x": ' + "[" * 700 + "]" * 700)
        answer = (await http.post("/a2a", content=deep)).json()
        assert answer["error"]["code"] == -32602
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_body_of_more_than_8_mb_is_refused_before_it_is_read(serve):
    async with serve(a2a=True) as service, service.client() as http:
        body = json.dumps(Client(service).body("SendMessage", {"x": "a" * (9 << 20)}))
        assert (await http.post("/a2a", content=body, headers=VERSION)).status_code == 413
