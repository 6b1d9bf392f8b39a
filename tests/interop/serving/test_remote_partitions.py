"""Agents elsewhere whose server can't be reached for a while: nothing is done or told twice."""

import json
import os
import random
from collections import Counter

import pytest
import trio

from greenroom import InMemoryStore, MailboxFullError
from greenroom.core import Custom, Lagged, Message, TextDelta
from greenroom.interop import Tokens, remote_turn
from greenroom.interop.serving import control_routes
from tests.interop.serving.remotes import (
    Partition,
    find_far,
    here,
    standing_between,
    told_text,
)
from tests.interop.serving.services import PEOPLE, until, write_tokens

PARTITIONS = int(os.environ.get("GREENROOM_REMOTE_PARTITIONS", "9"))
SEED = int(os.environ.get("GREENROOM_REMOTE_SEED", "41"))
LONGEST = 0.2 if PARTITIONS < 50 else 20.0  # seconds


class Letters:
    """Says each input letter by letter, and counts how often it was given each."""

    def __init__(self):
        self.given = Counter()

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                self.given[message.text] += 1
                for letter in message.text:
                    await agent.send(TextDelta(letter))
                agent.session.add_message(Message.assistant(message.text))


async def test_what_is_cut_held_or_dropped_is_told_once(serve):
    order, letters = random.Random(SEED), Letters()
    seconds = 60 + PARTITIONS * (LONGEST + 1)
    async with serve(agents={"letters": letters}, seconds=seconds) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, here(link) as (handle, chunks):
            await handle.ask("first")
            for turn in range(PARTITIONS):
                chunks.clear()
                kind, way = ("cut", "hold", "drop")[turn % 3], order.choice(["up", "down", "down"])
                after = order.randint(1, 900 if way == "up" else 4_000)
                parted.plan(kind, way, after, order.uniform(0.05, LONGEST))
                text = f"{turn}: " + "".join(order.choice("abc é") for _ in range(80))
                result = await handle.ask(text)
                assert (str(result.status), result.text) == ("completed", text), (kind, way, after)
                if not any(isinstance(each, Lagged) for each in chunks):
                    assert told_text(chunks) == text, (kind, way, after)
                assert letters.given[text] == 1
            assert parted.begun > PARTITIONS // 2
            said = [each.text for each in await handle.history() if each.role == "user"]
            assert len(said) == PARTITIONS + 1 == len(set(said))


async def test_while_the_server_is_away_the_state_says_so_and_few_inputs_wait(serve, monkeypatch):
    monkeypatch.setattr(remote_turn, "_SILENT", 0.15)
    begun, go_on = trio.Event(), trio.Event()

    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta(message.text))
                begun.set()
                await go_on.wait()
                agent.session.add_message(Message.assistant(message.text))

    async with serve(agents={"slow": slow}) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, here(link) as (handle, chunks):
            receipts = [await handle.send_input("0")]
            await begun.wait()
            parted.begin("cut")

            async def lines():
                return [each for each in chunks if isinstance(each, Custom)]

            (lost,) = await until(lines)
            assert handle.state.detail == "waiting for " + link.removeprefix("http://")
            assert (lost.kind, lost.data["lost"]) == ("remote.connection", True)
            assert "is broken" in lost.text
            receipts += [handle.send_input_nowait(str(each)) for each in range(1, 17)]
            with pytest.raises(MailboxFullError):
                handle.send_input_nowait("17")
            parted.end()
            go_on.set()
            answers = [(await handle.answer(each)).text for each in receipts]
            assert answers == [str(each) for each in range(17)]
            assert [each.data["lost"] for each in await lines()] == [True, False]
            for each in range(20):  # as many as ever
                handle.send_input_nowait(str(each))


async def test_a_token_that_is_removed_ends_the_turn_with_the_reason(serve, tmp_path):
    path = write_tokens(tmp_path / "own tokens")
    forever = trio.Event()

    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("working"))
                await forever.wait()

    async with serve(agents={"slow": slow}, tokens=Tokens.load(path)) as service:
        async with here(service.link) as (handle, chunks):
            receipt = await handle.send_input("go")

            async def is_told():
                return told_text(chunks)

            await until(is_told)
            write_tokens(path, {key: each for key, each in PEOPLE.items() if key != "ann"})
            result = await handle.answer(receipt)
            assert (str(result.status), result.kind) == ("failed", "RemoteError")
            assert "401" in result.error
            assert "token-of" not in result.error
            forever.set()


async def test_a_session_that_is_deleted_ends_its_turn_and_those_to_come(serve, monkeypatch):
    monkeypatch.setattr(control_routes, "_GRACE", 0.1)

    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("working"))
                await trio.sleep_forever()

    async with serve(agents={"slow": slow}) as service, here(service.link) as (handle, chunks):
        receipt = await handle.send_input("go")

        async def is_told():
            return told_text(chunks)

        await until(is_told)
        far = find_far(service, "slow")
        async with service.client("root") as client:
            assert (await client.delete(f"/api/sessions/{far.session_id}")).status_code == 204
        result = await handle.answer(receipt)
        assert (str(result.status), result.kind) == ("failed", "RemoteError")
        result = await handle.ask("again")
        assert (str(result.status), result.kind) == ("failed", "RemoteError")
        assert "404" in result.error


async def test_an_input_that_was_lost_behind_its_new_session_is_sent_by_the_same_request(serve):
    store = InMemoryStore()
    body = {"agent": "echo", "id": "mine", "input": "hello"}
    async with serve(store=store) as service, service.client() as client:
        made = await client.post("/api/sessions", json={"agent": "echo", "id": "mine"})
        assert made.json() == {"id": "ann:mine"}  # as after a server that ended right here
        first, second = [await client.post("/api/sessions", json=body) for _ in range(2)]
        assert first.json() == second.json()
        path = f"/api/sessions/ann:mine/inputs/{first.json()['input_id']}?wait=10"
        assert (await client.get(path)).json()["text"] == "hello"
        other = await client.post("/api/sessions", json={**body, "input": "goodbye"})
        assert other.status_code == 409
    async with serve(store=store) as service, service.client() as client:
        assert (await client.post("/api/sessions", json=body)).json() == first.json()
        shown = (await client.get("/api/sessions/ann:mine")).json()
        assert [each["role"] for each in shown["messages"]] == ["user", "assistant"]


async def test_a_session_that_is_asked_for_twice_is_one(serve):
    async with serve(store=InMemoryStore()) as service, service.client() as client:
        body = {"agent": "echo", "id": "mine"}
        first, second = [await client.post("/api/sessions", json=body) for _ in range(2)]
        assert (first.status_code, second.status_code) == (201, 200)
        assert first.json()["id"] == second.json()["id"] == "ann:mine"
        other = await client.post("/api/sessions", json={"agent": "asker", "id": "mine"})
        assert other.status_code == 409


async def test_a_turn_is_one_request_and_goes_on_from_a_position(serve):
    async with serve() as service, service.client() as client:
        path = f"/api/sessions/{await service.create('echo')}/turn"
        body = {"content": "hello", "id": "i-1"}
        first = (await client.post(path, json=body)).text
        assert first.count('"type":"text_delta"') == 5
        assert first.rstrip().endswith("}")
        assert '"status":"completed"' in first.rpartition("event: result")[2]
        places = [each[4:] for each in first.splitlines() if each.startswith("id: ")]
        again = (await client.post(f"{path}?after={places[3]}", json=body)).text
        assert again == first[first.index(f"id: {places[4]}") :]
        assert (await client.post(path, json={**body, "content": "x"})).status_code == 409


async def breaker(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            raise ValueError("boom")


async def leaver(agent):
    async for _ in agent.inputs():
        return


def end_of(stream):
    """Return the result in the stream of a turn, which is its last event."""
    event = stream.rpartition("event: result\ndata: ")[2]
    assert event.endswith("\n\n")
    return json.loads(event)


async def test_a_turn_that_has_ended_ends_its_stream_whoever_knows_of_it(serve):
    store, body = InMemoryStore(), {"content": "hello", "id": "i-1"}
    async with serve(store=store) as service, service.client() as client:
        id_ = await service.create("echo")
        path = f"/api/sessions/{id_}/turn"
        first = (await client.post(path, json=body)).text
        places = [each[4:] for each in first.splitlines() if each.startswith("id: ")]
        behind = (await client.post(f"{path}?after={places[-1]}", json=body)).text
        await client.post(path, json={"content": "more", "id": "i-2"})
        later = (await client.post(f"{path}?after={places[-1]}", json=body)).text
        await client.post(f"/api/sessions/{id_}/shutdown", json={})
        ended = (await client.post(path, json=body)).text
        assert end_of(behind) == end_of(later) == end_of(ended) == end_of(first)
        assert ended.count('"type":"text_delta"') == len("hellomore")
    async with serve(store=store) as service, service.client() as client:
        for query in ("", f"?after={places[3]}"):
            again = end_of((await client.post(path + query, json=body)).text)
            assert (again["status"], again["text"]) == ("completed", "hello")
        await client.post(path, json={"content": "next", "id": "i-3"})  # by another agent
        again = end_of((await client.post(f"{path}?after={places[3]}", json=body)).text)
        assert (again["status"], again["text"]) == ("completed", "hello")


@pytest.mark.parametrize(("agent", "why"), [(breaker, "boom"), (leaver, "ended before")])
async def test_the_stream_of_a_turn_whose_agent_ends_says_so(serve, agent, why):
    async with serve(agents={"one": agent}) as service, service.client() as client:
        path = f"/api/sessions/{await service.create('one')}/turn"
        for _ in range(2):
            told = end_of((await client.post(path, json={"content": "go", "id": "i-1"})).text)
            assert told["status"] == "failed"
            assert why in told["error"]


async def test_a_far_agent_that_ends_without_a_turn_fails_the_turn_here(serve):
    async with serve(agents={"one": leaver}) as service, here(service.link) as (handle, chunks):
        result = await handle.ask("go")
        assert (str(result.status), result.kind) == ("failed", "RemoteError")
        assert "ended before" in result.error
        assert [each.missed for each in chunks if isinstance(each, Lagged)] == [None]


async def test_a_turn_cut_off_by_the_end_of_a_server_ends_its_stream(serve):
    async def sleeper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                begun.set()
                await trio.sleep_forever()

    store, begun, body = InMemoryStore(), trio.Event(), {"content": "go", "id": "i-1"}
    async with serve(store=store, agents={"one": sleeper}) as service, service.client() as client:
        path = f"/api/sessions/{await service.create('one')}"
        await client.post(f"{path}/input", json=body)
        await begun.wait()
        service.runtime.get(path.rpartition("/")[2]).kill()
    async with serve(store=store, agents={"one": sleeper}) as service, service.client() as client:
        told = end_of((await client.post(f"{path}/turn", json=body)).text)
        assert (told["status"], told["text"]) == ("failed", "")


async def test_an_input_with_an_id_reads_no_stored_conversation_again(serve):
    class Counting(InMemoryStore):
        reads = 0

        async def read(self, *args, **options):
            self.reads += 1
            return await super().read(*args, **options)

    store = Counting()
    async with serve(store=store) as service, here(service.link) as (handle, _):
        await handle.ask("first")
        before = store.reads
        for _ in range(3):
            await handle.ask("again")
        assert store.reads == before
