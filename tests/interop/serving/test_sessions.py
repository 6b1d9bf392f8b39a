"""Sessions over HTTP: made, spoken to, answered, interrupted, forked, ended, removed."""

import os

import pytest
import trio

from greenroom import AgentSession, InMemoryStore, PermissionManager
from greenroom.agents import AskPerson
from greenroom.core import Message
from greenroom.interop import ServerLimits
from greenroom.permissions import PermissionRule
from greenroom.testing import call
from tests.interop.serving.services import echo, scripted, until

CUT = 5.0 if os.environ.get("GREENROOM_SERVING") == "long" else 0.2  # seconds without a reader


async def finished(client, id_, input_id):
    reply = await client.get(f"/api/sessions/{id_}/inputs/{input_id}?wait=20")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def show(client, id_):
    return (await client.get(f"/api/sessions/{id_}")).json()


async def pending(client, id_):
    """Wait until the session has an open question, and return it."""

    async def find():
        return (await show(client, id_))["pending"]

    return (await until(find))[0]


async def last_text(client, id_, text):
    """Wait until the conversation ends with this text."""

    async def is_there():
        last = (await show(client, id_))["messages"][-1]["content"][-1]
        return last.get("text") == text

    await until(is_there)


async def test_a_session_is_made_spoken_to_and_read(serve):
    async with serve() as service, service.client() as client:
        made = (await client.post("/api/sessions", json={"agent": "echo", "input": "one"})).json()
        id_ = made["id"]
        await finished(client, id_, made["input_id"])
        sent = await client.post(f"/api/sessions/{id_}/input", json={"content": "two", "id": "i-2"})
        assert (sent.status_code, sent.json()) == (202, {"input_id": "i-2"})
        assert (await finished(client, id_, "i-2"))["text"] == "two"
        shown = (await client.get(f"/api/sessions/{id_}")).json()
        texts = [each["content"][0]["text"] for each in shown["messages"]]
        assert texts == ["one", "one", "two", "two"]
        assert (shown["id"], shown["agent"], shown["title"]) == (id_, "echo", "one")
        assert (shown["state"], shown["partial"], shown["pending"]) == ({"kind": "idle"}, "", [])
        epoch, _, seq = shown["position"].partition(".")
        assert int(epoch) > 0
        assert int(seq) > 10
        ended = await client.post(f"/api/sessions/{id_}/shutdown", json={"grace": 1})
        assert ended.json()["status"] == "completed"
        assert (await client.get(f"/api/sessions/{id_}/outcome")).json()["status"] == "completed"
        after = (await client.get(f"/api/sessions/{id_}")).json()
        assert after["position"] is None
        assert after["messages"] == shown["messages"]
        assert after["usage"] == shown["usage"]


async def test_the_same_input_again_changes_nothing_and_another_under_its_id_is_409(serve):
    store = InMemoryStore()
    async with serve(store=store) as service, service.client() as client:
        id_ = await service.create("echo")
        path = f"/api/sessions/{id_}/input"
        first = await client.post(path, json={"content": "one", "id": "mine"})
        again = await client.post(path, json={"content": "one", "id": "mine"})
        assert (first.status_code, again.status_code) == (202, 200)
        assert first.json() == again.json() == {"input_id": "mine"}
        other = await client.post(path, json={"content": "two", "id": "mine"})
        assert other.status_code == 409
        await finished(client, id_, "mine")
    async with serve(store=store) as service, service.client() as client:  # a new process
        assert (await client.post(path, json={"content": "one", "id": "mine"})).status_code == 200
        assert (await client.post(path, json={"content": "two", "id": "mine"})).status_code == 409
        shown = (await client.get(f"/api/sessions/{id_}")).json()
        assert len(shown["messages"]) == 2


async def test_of_two_answers_the_first_counts_and_a_wrong_digest_is_refused(serve):
    async with serve() as service, service.client() as client:
        id_ = await service.create("asker", "go")
        asked = await pending(client, id_)
        path = f"/api/sessions/{id_}/permissions/{asked['request_id']}"
        wrong = await client.post(path, json={"decision": "allow", "digest": "d-2"})
        assert (wrong.status_code, "digest" in wrong.json()["error"]) == (409, True)
        assert await pending(client, id_) == asked
        always = {"decision": "allow", "digest": "d-1", "remember": "always"}
        assert (await client.post(path, json=always)).status_code == 403
        given = {"decision": "allow", "digest": "d-1", "message": "fine"}
        statuses = []

        async def give():
            statuses.append((await client.post(path, json=given)).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give)
            nursery.start_soon(give)
        assert sorted(statuses) == [200, 409]
        await last_text(client, id_, "allow: fine by ann")


async def test_a_question_stays_open_while_its_reader_is_cut_off(serve):
    async with serve() as service, service.client() as client:
        id_ = await service.create("asker")
        async with client.stream("GET", f"/api/stream?session={id_}"):
            await client.post(f"/api/sessions/{id_}/input", json={"content": "go"})
            asked = await pending(client, id_)
        await trio.sleep(CUT)
        assert service.runtime.get(id_).state.kind == "waiting_for_permission"
        async with client.stream("GET", f"/api/stream?session={id_}"):
            assert (await show(client, id_))["pending"] == [asked]
            path = f"/api/sessions/{id_}/permissions/{asked['request_id']}"
            given = {"decision": "allow", "digest": "d-1"}
            assert (await client.post(path, json=given)).status_code == 200
            await last_text(client, id_, "allow:  by ann")


def deploying(*replies, ran, more=()):
    def deploy(place: str) -> str:
        """Deploy it."""
        ran.append(place)
        return "deployed"

    rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
    return {"scripted": scripted(*replies, tools=[deploy, *more], permissions=rules)}


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_question_is_suspended_and_its_answer_resumes_it(serve, restarts):
    store, ran = InMemoryStore(), []
    agents = deploying(call("deploy", place="here"), "done", ran=ran)
    async with serve(store=store, agents=agents, away=0.1) as service, service.client() as client:
        id_ = await service.create("scripted", "go")
        asked = await pending(client, id_)
        if not restarts:
            await gone(service, id_)
            await answered_later(client, id_, asked, ran)
    if restarts:
        agents = deploying("done", ran=ran)
        async with serve(store=store, agents=agents) as service, service.client() as client:
            await answered_later(client, id_, asked, ran)


async def answered_later(client, id_, asked, ran):
    """Answer a question whose turn was suspended, and see it go on."""
    assert ran == []
    shown = await show(client, id_)
    assert shown["state"] == {"kind": "waiting"}
    assert [each["request_id"] for each in shown["pending"]] == [asked["request_id"]]
    path = f"/api/sessions/{id_}/permissions/{asked['request_id']}"
    wrong = {"decision": "allow", "digest": "other"}
    assert (await client.post(path, json=wrong)).status_code == 409
    given = {"decision": "allow", "digest": asked["digest"]}
    reply = await client.post(path, json=given)
    assert reply.status_code == 200, reply.text
    await last_text(client, id_, "done")
    assert ran == ["here"]
    assert (await client.post(path, json=given)).status_code == 409


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_question_of_a_loop_itself_is_suspended_and_answered_later(serve, restarts):
    store = InMemoryStore()
    async with serve(store=store, away=0.1) as service, service.client() as client:
        id_ = await service.create("asker", "go")
        asked = await pending(client, id_)
        if not restarts:
            await gone(service, id_)
            await allowed_later(client, id_, asked)
    if restarts:
        async with serve(store=store) as service, service.client() as client:
            await allowed_later(client, id_, asked)


async def allowed_later(client, id_, asked):
    shown = await show(client, id_)
    assert (shown["state"], shown["pending"]) == ({"kind": "waiting"}, [asked])
    path = f"/api/sessions/{id_}/permissions/{asked['request_id']}"
    given = {"decision": "allow", "digest": "d-1", "message": "late"}
    assert (await client.post(path, json=given)).status_code == 200
    await last_text(client, id_, "allow: late by ann")
    assert (await show(client, id_))["pending"] == []


async def test_a_question_of_a_running_tool_waits_though_nobody_is_there(serve):
    from greenroom.runtime._internal import calling_internals

    go, asked = trio.Event(), trio.Event()

    async def check() -> str:
        """Ask in the middle of the work."""
        await go.wait()
        asked.set()
        answer = await calling_internals().request_permission("check", "go on", digest="d-1")
        return f"{answer.decision} by {answer.by}"

    rules = PermissionManager([PermissionRule.allow_tool("check")])
    agent = scripted(call("check"), "done", tools=[check], permissions=rules)
    async with serve(agents={"scripted": agent}, away=0.05) as service, service.client() as client:
        id_ = await service.create("scripted", "go")
        await trio.sleep(0.3)  # nobody asks for it any more
        go.set()
        await asked.wait()
        await trio.sleep(0.2)
        request = await pending(client, id_)
        path = f"/api/sessions/{id_}/permissions/{request['request_id']}"
        assert (
            await client.post(path, json={"decision": "allow", "digest": "d-1"})
        ).status_code == 200
        await last_text(client, id_, "done")
        assert "allow by ann" in str((await show(client, id_))["messages"])


async def gone(service, id_):
    """Wait until nobody is there for a session any more, so that its turn is suspended."""

    async def is_idle():
        return service.runtime.get(id_).state.kind == "idle"

    await until(is_idle)


async def test_a_denial_of_a_person_by_name_is_told_as_the_users(serve):
    agents = deploying(
        call("deploy", place="here"), call("AskPerson", question="why?"), "done", ran=[],
        more=[AskPerson()],
    )  # fmt: skip
    async with serve(agents=agents) as service, service.client() as client:
        id_ = await service.create("scripted", "go")
        for _ in range(2):
            asked = await pending(client, id_)
            path = f"/api/sessions/{id_}/permissions/{asked['request_id']}"
            given = {"decision": "deny", "digest": asked["digest"]}
            assert (await client.post(path, json=given)).status_code == 200
            await until(lambda asked=asked: is_other(client, id_, asked))
        await last_text(client, id_, "done")
        told = str((await show(client, id_))["messages"])
    assert "The user did not allow this call." in told
    assert "The user does not want to answer." in told
    assert "ann" not in told


async def is_other(client, id_, asked):
    return asked not in (await show(client, id_))["pending"]


async def test_another_input_answers_what_was_suspended_as_not_run(serve):
    ran = []
    agents = deploying(call("deploy", place="here"), "never mind", ran=ran)
    async with serve(agents=agents, away=0.1) as service, service.client() as client:
        id_ = await service.create("scripted", "go")
        await pending(client, id_)
        await gone(service, id_)
        await client.post(f"/api/sessions/{id_}/input", json={"content": "leave it"})
        await last_text(client, id_, "never mind")
        assert (await show(client, id_))["pending"] == []
    assert ran == []


async def test_a_question_waits_while_an_operator_reads_and_no_longer_for_a_viewer(serve):
    agents = deploying(call("deploy", place="here"), ran=[])
    async with serve(agents=agents, away=0.1) as service, service.client() as client:
        id_ = await service.create("scripted")
        async with client.stream("GET", f"/api/stream?session={id_}"):
            await client.post(f"/api/sessions/{id_}/input", json={"content": "go"})
            asked = await pending(client, id_)
            await trio.sleep(0.5)
            assert service.runtime.get(id_).state.kind == "waiting_for_permission"
        async with (
            service.client("ann-viewer") as viewer,
            viewer.stream("GET", f"/api/stream?session={id_}"),
        ):
            await gone(service, id_)
        shown = await show(client, id_)
        assert [each["request_id"] for each in shown["pending"]] == [asked["request_id"]]


async def test_an_interrupt_returns_when_it_is_true(serve):
    async def sleeper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep_forever()

    async with serve(agents={"sleeper": sleeper}) as service, service.client() as client:
        made = (await client.post("/api/sessions", json={"agent": "sleeper", "input": "x"})).json()
        path = f"/api/sessions/{made['id']}"

        async def is_working():
            return service.runtime.get(made["id"]).state.kind == "processing"

        await until(is_working)
        not_yet = await client.get(f"{path}/inputs/{made['input_id']}?wait=0.01")
        assert not_yet.status_code == 202
        report = await client.post(f"{path}/interrupt", json={"grace": 1})
        assert report.status_code == 200
        assert set(report.json()) == {"stopped", "cleaned", "abandoned", "repaired"}
        assert (await finished(client, made["id"], made["input_id"]))["status"] == "interrupted"
        assert (await client.post(f"{path}/interrupt", json={"mode": "x"})).status_code == 400


async def test_sessions_are_forked_listed_found_and_removed(serve):
    async with serve() as service, service.client() as client, service.client("bob") as other:
        ids = [await service.create("echo", f"text {n}") for n in range(3)]
        for id_ in ids:
            await client.post(f"/api/sessions/{id_}/shutdown")
        fork = (await client.post(f"/api/sessions/{ids[0]}/fork", json={"at": 1})).json()["id"]
        shown = (await client.get(f"/api/sessions/{fork}")).json()
        assert len(shown["messages"]) == 1
        listed, after = [], None
        for _ in range(4):
            query = {"limit": 1, **({"after": after} if after else {})}
            page = (await client.get("/api/sessions", params=query)).json()
            listed += [each["id"] for each in page["sessions"]]
            after = page["after"]
        assert (sorted(listed), after) == (sorted([*ids, fork]), None)
        assert (await other.get("/api/sessions")).json()["sessions"] == []
        found = (await client.get("/api/sessions?q=text 2")).json()["sessions"]
        assert [each["id"] for each in found] == [ids[2]]
        assert (await other.get("/api/sessions?q=text")).json()["sessions"] == []
        assert (await client.get("/api/sessions?after=x")).status_code == 400
        assert (await client.get("/api/sessions?limit=x")).status_code == 400
        assert (await client.delete(f"/api/sessions/{fork}")).status_code == 403
        async with service.client("root") as admin:
            assert (await admin.delete(f"/api/sessions/{fork}")).status_code == 204
        assert (await client.get(f"/api/sessions/{fork}")).status_code == 404


async def test_a_body_that_does_not_fit_is_told_with_the_fields_there_are(serve):
    async with serve() as service, service.client() as client:
        made = (await client.post("/api/sessions", json={"agent": "echo"})).json()
        reply = await client.post(f"/api/sessions/{made['id']}/input", json={"input": "hello"})
        assert reply.status_code == 400
        assert reply.json() == {
            "error": "the body does not fit: Object contains unknown field `input`",
            "kind": "bad_request",
            "hint": "its fields are content, id, metadata, sender; "
            "GET /openapi.json describes them",
        }


@pytest.mark.parametrize("key", ["owner", "archived", "forked_from", "workspace"])
async def test_metadata_of_the_machinery_cannot_be_set(serve, key):
    async with serve() as service, service.client() as client:
        body = {"agent": "echo", "metadata": {key: "bob"}}
        assert (await client.post("/api/sessions", json=body)).status_code == 400
        body["metadata"] = {"ticket": 7}
        id_ = (await client.post("/api/sessions", json=body)).json()["id"]
        session = await AgentSession.load(id_, store=service.runtime.store)
        assert session.metadata == {"ticket": 7, "owner": "ann"}


async def test_what_belongs_to_nobody_belongs_to_the_owner_and_the_admins(serve):
    store = InMemoryStore()
    session = AgentSession.new("echo", store=store)
    session.add_message(Message.user("from the terminal"))
    await session.save()
    path = f"/api/sessions/{session.session_id}"
    for options, statuses in (({}, (404, 404, 200)), ({"owner": "bob"}, (404, 200, 200))):
        async with serve(store=store, **options) as service:
            for who, status in zip(("ann", "bob", "root"), statuses, strict=True):
                async with service.client(who) as client:
                    assert (await client.get(path)).status_code == status


async def test_a_session_that_another_process_holds_is_read_only(serve):
    store = InMemoryStore()
    async with serve(store=store) as service, service.client() as client:
        id_ = await service.create("echo")
        async with await _held(store, id_):
            path = f"/api/sessions/{id_}"
            assert (await client.get(path)).status_code == 200
            refused = await client.post(f"{path}/input", json={"content": "x"})
            assert refused.status_code == 409
            assert store.holder in refused.json()["hint"]


async def _held(store, id_):
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def hold():
        writer = await store.acquire(id_)
        yield
        await writer.release()

    return hold()


async def test_a_type_that_is_not_served_is_read_only(serve):
    store = InMemoryStore()
    async with serve(store=store) as service, service.client() as client:
        unknown = await client.post("/api/sessions", json={"agent": "other"})
        assert unknown.status_code == 409
        id_ = await service.create("echo")
    async with serve(store=store, agents={"new": echo}) as service, service.client() as client:
        assert (await client.get(f"/api/sessions/{id_}")).status_code == 200
        sent = await client.post(f"/api/sessions/{id_}/input", json={"content": "x"})
        assert (sent.status_code, "new" in sent.json()["hint"]) == (409, True)


async def test_a_full_mailbox_is_429(serve):
    from greenroom.runtime import RuntimeLimits

    async def deaf(agent):
        await trio.sleep_forever()

    limits = {"limits": RuntimeLimits(mailbox=2)}
    async with (
        serve(agents={"deaf": deaf}, runtime_options=limits) as service,
        service.client() as client,
    ):
        id_ = await service.create("deaf")
        path = f"/api/sessions/{id_}/input"
        found = [(await client.post(path, json={"content": "x"})).status_code for _ in range(4)]
        assert found == [202, 202, 429, 429]
        service.runtime.get(id_).kill()  # which would only end after its grace


async def test_a_traceparent_becomes_that_of_the_input(serve):
    seen = []

    async def noter(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(dict(message.metadata))

    parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with serve(agents={"noter": noter}) as service, service.client() as client:
        headers = {"traceparent": parent}
        id_ = await service.create("noter")
        for body in (
            {"content": "x", "id": "1"},
            {"content": "y", "id": "2", "metadata": {"a": 1}},
        ):
            await client.post(f"/api/sessions/{id_}/input", json=body, headers=headers)
        await client.post(
            f"/api/sessions/{id_}/input",
            json={"content": "z", "id": "3"},
            headers={"traceparent": "nonsense"},
        )
        await finished(client, id_, "3")
    assert seen == [{"traceparent": parent}, {"traceparent": parent, "a": 1}, {}]


async def test_sources_that_are_there_are_shown_and_missing_ones_are_404(serve):
    from greenroom import Usage
    from greenroom.observability import Ledger, Metrics
    from greenroom.observability.ledger import LedgerKey

    ledger = Ledger()
    for owner in ("ann", "bob"):
        ledger.rows[LedgerKey(None, "echo", "m", "s", "s", owner)] = Usage(1, 2)

    async def spans(session_id):
        return {"spans": [session_id]}

    sources = {"ledger": ledger, "metrics": Metrics(), "trace": spans}
    async with serve(**sources) as service, service.client() as client:
        id_ = await service.create("echo")
        assert (await client.get(f"/api/sessions/{id_}/trace")).json() == {"spans": [id_]}
        (row,) = (await client.get("/api/cost")).json()["rows"]
        assert (row["owner"], row["usage"]["input_tokens"]) == ("ann", 1)
        async with service.client("root") as admin:
            assert len((await admin.get("/api/cost")).json()["rows"]) == 2
            assert (await admin.get("/api/audit")).status_code == 404
        async with service.client("auditor") as auditor:
            assert (await auditor.get("/metrics")).headers["content-type"].startswith("text/plain")
    async with serve() as service, service.client() as client:
        id_ = await service.create("echo")
        for path in (f"/api/sessions/{id_}/trace", f"/api/sessions/{id_}/memory?q=x"):
            reply = await client.get(path)
            assert (reply.status_code, bool(reply.json()["hint"])) == (404, True)


async def test_costs_are_those_on_record_also_of_before_the_start(serve):
    from greenroom import Usage
    from greenroom.testing import Reply

    store = InMemoryStore()
    for _ in range(2):
        agents = {"scripted": scripted(Reply("hi", usage=Usage(12, 3)))}
        async with serve(store=store, agents=agents) as service, service.client() as client:
            made = await client.post("/api/sessions", json={"agent": "scripted", "input": "go"})
            await finished(client, made.json()["id"], made.json()["input_id"])
    async with serve(store=store) as service, service.client() as client:
        rows = (await client.get("/api/cost")).json()["rows"]
        assert [(each["owner"], each["usage"]["input_tokens"]) for each in rows] == [
            ("ann", 12)
        ] * 2
        assert (await client.get("/api/cost?since=2999-01-01")).json() == {"rows": []}
        assert (await client.get("/api/cost?since=soon")).status_code == 400
        async with service.client("bob") as other:
            assert (await other.get("/api/cost")).json() == {"rows": []}


async def test_artifacts_are_listed_and_saved_as_files(serve):
    async def maker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for text in ("<script>1</script>", "<script>2</script>"):
                    await agent.context.save_artifact('a "b".html', text)

    async with serve(agents={"maker": maker}) as service, service.client() as client:
        made = (await client.post("/api/sessions", json={"agent": "maker", "input": "go"})).json()
        await finished(client, made["id"], made["input_id"])
        path = f"/api/sessions/{made['id']}/artifacts"
        listed = (await client.get(path)).json()["artifacts"]
        assert [(each["name"], each["version"]) for each in listed] == [
            ('a "b".html', 1),
            ('a "b".html', 2),
        ]
        newest = await client.get(f"{path}/a%20%22b%22.html")
        assert newest.text == "<script>2</script>"
        assert newest.headers["content-disposition"] == (
            "attachment; filename*=UTF-8''a%20%22b%22.html"
        )
        assert newest.headers["x-content-type-options"] == "nosniff"
        assert (await client.get(f"{path}/a%20%22b%22.html?version=1")).text[8] == "1"
        assert (await client.get(f"{path}/a%20%22b%22.html?version=3")).status_code == 404
        assert (await client.get(f"{path}/other")).status_code == 404
        async with service.client("bob") as other:
            assert (await other.get(path)).status_code == 404


async def test_a_subagents_session_belongs_to_the_owner_of_its_root(serve):
    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.request_permission("Deploy", "deploy it", digest="d-1")

    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                handle = agent.spawn(AgentSession.new("child"), child)
                await handle.ask("go")

    async with (
        serve(agents={"parent": parent}) as service,
        service.client() as client,
        service.client("bob") as other,
    ):
        id_ = await service.create("parent", "go")
        asked = await pending(client, id_)
        (below,) = (await show(client, id_))["children"]
        assert asked["session_id"] == below
        assert (await client.get(f"/api/sessions/{below}")).status_code == 200
        assert (await other.get(f"/api/sessions/{below}")).status_code == 404
        assert below not in (await client.get("/api/sessions")).text
        given = {"decision": "deny", "digest": "d-1"}
        path = f"permissions/{asked['request_id']}"
        assert (await other.post(f"/api/sessions/{id_}/{path}", json=given)).status_code == 404
        assert (await client.post(f"/api/sessions/{id_}/{path}", json=given)).status_code == 200
        await client.post(f"/api/sessions/{id_}/shutdown")
        assert (await client.get(f"/api/sessions/{below}")).status_code == 200
        assert (await other.get(f"/api/sessions/{below}")).status_code == 404


async def test_an_agent_that_idles_ends_and_the_next_input_starts_it_again(serve):
    limits = ServerLimits(idle_agent=0.1)
    async with serve(limits=limits, away=0.05) as service, service.client() as client:
        id_ = await service.create("echo", "one")

        async def is_gone():
            return not service.runtime.is_running(id_)

        await until(is_gone)
        sent = await client.post(f"/api/sessions/{id_}/input", json={"content": "two"})
        assert sent.status_code == 202
        await last_text(client, id_, "two")


async def test_more_agents_than_the_limit_are_refused(serve):
    async with serve(limits=ServerLimits(sessions=1)) as service, service.client() as client:
        first = await service.create("echo", "one")
        second = await service.create("echo")
        path = f"/api/sessions/{second}/input"
        refused = await client.post(path, json={"content": "x"})
        assert (refused.status_code, refused.json()["kind"]) == (503, "too_many_sessions")
        await client.post(f"/api/sessions/{first}/shutdown")

        async def is_taken():
            return (await client.post(path, json={"content": "x"})).status_code == 202

        await until(is_taken)


async def test_a_client_runs_a_tool_and_gives_a_credential(serve):
    from greenroom.core import Credential

    seen = []

    async def waiter(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                result = await agent.wait_tool_result("c-1")
                seen.append((result.text, result.is_error))
                seen.append(Credential("token").find(agent.context))

    async with serve(agents={"waiter": waiter}) as service, service.client() as client:
        made = (await client.post("/api/sessions", json={"agent": "waiter", "input": "x"})).json()
        path = f"/api/sessions/{made['id']}"
        given = await client.post(f"{path}/credentials/token", json={"value": "s3cret"})
        assert given.status_code == 200

        async def is_taken():
            body = {"content": "done", "is_error": True}
            return (await client.post(f"{path}/tool-results/c-1", json=body)).status_code == 202

        await until(is_taken)
        await finished(client, made["id"], made["input_id"])
        assert "s3cret" not in (await client.get(path)).text
    assert seen == [("done", True), "s3cret"]


async def test_a_subagents_question_waits_though_nobody_is_there(serve):
    go, asked = trio.Event(), trio.Event()

    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await go.wait()
                asked.set()
                answer = await agent.request_permission("Deploy", "deploy it", digest="d-1")
                agent.session.add_message(Message.assistant(f"{answer.decision} by {answer.by}"))

    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                result = await agent.spawn(AgentSession.new("child"), child).ask("go")
                agent.session.add_message(Message.assistant(result.text))

    async with serve(agents={"parent": parent}, away=0.05) as service, service.client() as client:
        id_ = await service.create("parent", "go")
        await trio.sleep(0.5)  # nobody asks for it any more
        go.set()
        await asked.wait()
        await trio.sleep(0.2)
        request = await pending(client, id_)
        path = f"/api/sessions/{id_}/permissions/{request['request_id']}"
        given = {"decision": "allow", "digest": "d-1"}
        assert (await client.post(path, json=given)).status_code == 200
        await last_text(client, id_, "allow by ann")


async def test_with_nobody_to_wait_for_a_question_is_suspended_at_once(serve):
    async with serve(away=0) as service, service.client() as client:
        made = await service.create("asker", "go")

        async def find():
            shown = (await client.get(f"/api/sessions/{made}")).json()
            return shown["pending"] if shown["state"]["kind"] == "waiting" else None

        (asked,) = await until(find)
        body = {"decision": "allow", "digest": asked["digest"]}
        path = f"/api/sessions/{made}/permissions/{asked['request_id']}"
        assert (await client.post(path, json=body)).status_code == 200
