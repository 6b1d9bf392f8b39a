"""Lines that are no good, requests without end, and the ends of a connection."""

import json
from functools import partial
from random import Random

import pytest
import trio

from greenroom.interop.acp.json_rpc import INVALID_PARAMS, MAX_OPEN, Peer, Reply, RPCError
from greenroom.interop.acp.wire import SessionName, read
from greenroom.interop.line_reader import LineReader
from tests.interop.acp.editor import Refused, open_editor
from tests.interop.acp.test_sessions import begin, opener, say


class Echo:
    """A handler that answers with what it was asked, when it may."""

    def __init__(self):
        self.may = trio.Event()
        self.may.set()

    async def answer(self, method, params):
        await self.may.wait()
        if method == "fail":
            raise ValueError("a fault of ours")
        return params

    async def note(self, method, params):
        pass


async def talk(*lines, handler=None, later=b""):
    """Send lines to a peer, some once it has done all that the others ask for; return its own."""
    written, unread = [], [later, b"".join(lines)]

    async def receive():
        await trio.testing.wait_all_tasks_blocked()
        return unread.pop() if unread else b""

    async def send(data):
        written.extend(map(json.loads, data.splitlines()))
        await trio.lowlevel.checkpoint()

    async def end():
        await trio.testing.wait_all_tasks_blocked()

    await Peer(receive, send, handler or Echo()).run(end)
    return written


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@pytest.mark.parametrize(
    ("bad", "code", "id_"),
    [
        (b"{\n", -32700, None),
        (b"\xff\n", -32700, None),
        (b"[]\n", -32600, None),
        (b'"text"\n', -32600, None),
        (b'{"id": 1, "method": "x"}\n', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": ["\xff"]}\n', -32700, 1),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "x"]\n', -32700, "a"),
        (line(id=1), -32600, 1),
        (line(id=1, method=2), -32600, 1),
        (line(id=None, method="x"), -32600, None),
        (line(id=[1], method="x"), -32600, None),
        (line(id=1, method="x", params="y" * (16 << 20)), -32600, 1),
        (line(id=1, method="fail"), -32603, 1),
    ],
)
async def test_a_bad_line_is_answered_by_an_error_and_the_next_one_counts(bad, code, id_):
    first, second = sorted(
        await talk(bad, line(id=2, method="x", params=[1])), key=lambda it: "result" in it
    )
    assert (first["error"]["code"], first["id"]) == (code, id_)
    assert second == {"jsonrpc": "2.0", "id": 2, "result": [1]}


async def test_answers_to_nothing_and_blank_lines_are_left_alone():
    assert (
        await talk(b"\n \n", line(id=7, result={}), line(id="a", error={}), line(method="n")) == []
    )


async def test_a_notification_that_fails_ends_nothing_else(caplog):
    class Failing(Echo):
        async def note(self, method, params):
            raise ValueError("a fault of ours")

    written = await talk(line(method="n"), line(id=1, method="x", params=[]), handler=Failing())
    assert written == [{"jsonrpc": "2.0", "id": 1, "result": []}]
    assert "a fault of ours" in caplog.text


@pytest.mark.parametrize("levels", [10, 900])
async def test_parameters_of_many_levels_are_refused(levels):
    deep = None
    for _ in range(levels):
        deep = [deep]
    with pytest.raises(RPCError) as caught:
        read({"sessionId": deep}, SessionName)
    assert caught.value.code == INVALID_PARAMS


async def test_a_cancel_behind_the_answer_is_not_a_second_one():
    class Following(Echo):
        async def answer(self, method, params):
            return Reply(params, trio.sleep_forever)

    cancel = line(method="$/cancel_request", params={"requestId": 1})
    written = await talk(line(id=1, method="x"), later=cancel, handler=Following())
    assert [each["id"] for each in written] == [1]


async def test_requests_beyond_the_bound_are_refused():
    handler = Echo()
    handler.may = trio.Event()
    lines = [line(id=number, method="x") for number in range(MAX_OPEN + 3)]
    refused = await talk(*lines, handler=handler)
    assert [each["id"] for each in refused] == [MAX_OPEN, MAX_OPEN + 1, MAX_OPEN + 2]
    assert all("wait for an answer" in each["error"]["message"] for each in refused)


async def test_notifications_beyond_the_bound_are_left_alone(caplog):
    class Slow(Echo):
        count = 0

        async def note(self, method, params):
            self.count += 1
            await trio.sleep_forever()

    handler = Slow()
    await talk(*[line(method="x")] * (MAX_OPEN + 3), handler=handler)
    assert handler.count == MAX_OPEN
    assert caplog.text.count("too many") == 3


async def test_our_own_requests_are_bounded_and_end_with_the_connection():
    async with trio.open_nursery() as nursery:
        ends, refused = [], 0
        may_end = trio.Event()

        async def receive():
            await may_end.wait()
            return b""

        async def send(data):
            await trio.lowlevel.checkpoint()

        async def end():
            pass

        peer = Peer(receive, send, Echo())

        async def ask():
            try:
                await peer.request("x", {})
            except RPCError as error:
                ends.append(error.message)

        nursery.start_soon(peer.run, end)
        for _ in range(MAX_OPEN):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RPCError, match="wait for an answer"):
            await peer.request("x", {})
        may_end.set()
    assert ends == ["the connection has ended"] * MAX_OPEN
    assert refused == 0


async def test_an_output_that_breaks_ends_it():
    async def receive():
        await trio.sleep_forever()

    async def send(data):
        raise BrokenPipeError(32, "Broken pipe")

    ended = []

    async def end():
        ended.append(True)

    peer = Peer(receive, send, Echo())

    async def notify():
        await peer.notify("x", {})

    with pytest.RaisesGroup(BrokenPipeError, allow_unwrapped=True, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(notify)
            await peer.run(end)
    assert ended == [True]


KEYS = ("jsonrpc", "id", "method", "params", "result", "error", "sessionId", "x")


def make_value(random, depth=3):
    kind = random.randrange(7 if depth else 5)
    if kind == 5:
        return [make_value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 6:
        found = {random.choice(KEYS): make_value(random, depth - 1) for _ in range(4)}
        return {**found, **({"jsonrpc": "2.0"} if random.random() < 0.7 else {})}
    return [None, True, random.randrange(-1, 3), "2.0", "x"][kind]


async def test_whatever_comes_in_the_next_request_is_answered():
    random = Random(7)
    lines = [json.dumps(make_value(random)).encode() for _ in range(2_000)]
    lines = [each if random.random() < 0.9 else each[:-1] for each in lines]
    written = await talk(*(each + b"\n" for each in lines), line(id="last", method="x"))
    assert any(each["id"] == "last" for each in written)
    assert len(written) > 500


METHODS = [
    "session/new",
    "session/load",
    "session/resume",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "initialize",
    "session/fork",
    "_ours/own",
]


async def test_parameters_that_make_no_sense_are_refused_one_by_one(tmp_path):
    (tmp_path / "README.md").write_text("A project of ours.\n")
    async with open_editor(opener()) as editor:
        session = await begin(editor, tmp_path)
        wrong = [
            None,
            [],
            {},
            {"sessionId": 1},
            {"sessionId": "s-unknown", "modeId": "plan", "prompt": [], "cwd": "relative"},
            {"sessionId": session, "prompt": []},
            {"sessionId": session, "prompt": [{"type": "audio", "data": "", "mimeType": "a/b"}]},
            {"cwd": "relative", "mcpServers": []},
            {"cwd": "/no/such/folder", "mcpServers": []},
        ]
        number = 1000
        for method in METHODS:
            for params in wrong:
                number += 1
                await editor.write(
                    {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                )
        await editor.until(lambda it: len(it.faults) == number - 1000)
        assert all("error" in each for each in editor.faults)
        await editor.tell("session/cancel", sessionId="s-unknown")
        await editor.tell("_unknown/note")
        assert await say(editor, session, "read README.md") == "end_turn"


async def test_initialize_comes_first_and_is_answered_with_our_version(tmp_path):
    async with open_editor(opener(), initialize=False) as editor:
        with pytest.raises(Refused, match="initialize comes first"):
            await begin(editor, tmp_path)
        answer = await editor.ask("initialize", protocolVersion=7)
        assert answer["protocolVersion"] == 1
        await begin(editor, tmp_path)


async def test_what_is_null_counts_as_left_out(tmp_path):
    async with open_editor(opener(), initialize=False) as editor:
        # As some libraries write it, which the schema does not allow and asks to bear with.
        params = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": None}}}
        await editor.write({"jsonrpc": "2.0", "id": 99, "method": "initialize", "params": params})
        await editor.until(lambda it: it.faults)
        assert "result" in editor.faults[0]
        abilities = {"elicitation": None, "session": None}
        await editor.ask("initialize", protocolVersion=1, clientCapabilities=abilities)
        session = await begin(editor, tmp_path)
        block = {"type": "text", "text": "hello", "annotations": None, "_meta": None}
        answer = await editor.ask("session/prompt", sessionId=session, prompt=[block])
        assert answer == {"stopReason": "end_turn"}
        await editor.ask("session/list", cwd=None, cursor=None)


async def test_the_end_of_the_input_ends_open_turns_and_saves_them(tmp_path):
    sessions = opener()
    async with open_editor(sessions) as editor:
        asked = trio.Event()

        async def never(params):
            asked.set()
            await trio.sleep_forever()

        editor.answers["session/request_permission"] = never
        session = await begin(editor, tmp_path)
        blocks = [{"type": "text", "text": "write a.txt: hello"}]
        await editor.begin("session/prompt", sessionId=session, prompt=blocks)
        await asked.wait()
    handle = sessions.handles[session]
    assert handle.state.is_final
    stored = await sessions.load(session)
    assert [each.role for each in stored.history][:2] == ["user", "assistant"]


async def test_a_text_cut_in_the_middle_of_a_character_is_read():
    asked = line(id=1, method="x", params=["a \ud83d"])
    assert await talk(asked) == [{"jsonrpc": "2.0", "id": 1, "result": ["a \ufffd"]}]


async def test_an_unreadable_line_says_nothing_about_a_request_that_is_in_hand():
    echo = Echo()
    echo.may = trio.Event()
    written = await talk(
        line(id=1, method="x", params=[]),
        b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": ["\xff"]}\n',
        handler=echo,
    )
    assert [(each["id"], each["error"]["code"]) for each in written] == [(None, -32700)]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b'{"jsonrpc": "2.0", "id": 1}', None),
        (b'{"jsonrpc": "2.0", "id": 1, "result": [2], "error": null}', [2]),
        (b'{"jsonrpc": "2.0", "id": 1, "result": "\\ud83d"}', "\ufffd"),
        (b'{"jsonrpc": "2.0", "id": 1, "result": "\xff"}', RPCError),
        (b'{"jsonrpc": "2.0", "result": NaN, "id": 1}', RPCError),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"message": "\xff"}}', RPCError),
    ],
)
async def test_an_answer_of_an_odd_form_ends_its_request(answer, found):
    to_peer, incoming = trio.open_memory_channel(10)

    async def send(data):
        await to_peer.send(answer + b"\n")

    async def end():
        pass

    peer = Peer(incoming.receive, send, Echo())
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.run, end)
            if found is RPCError:
                with pytest.raises(RPCError, match="can't be read"):
                    await peer.request("read", {})
            else:
                assert await peer.request("read", {}) == found
            peer.stop()


async def test_an_answer_that_is_too_long_fails_its_request_and_no_other(monkeypatch):
    monkeypatch.setattr("greenroom.interop.acp.json_rpc.LineReader", partial(LineReader, 10_000))
    to_peer, incoming = trio.open_memory_channel(10)
    written = []

    async def receive():
        return await incoming.receive()

    async def send(data):
        written.extend(map(json.loads, data.splitlines()))

    async def end():
        pass

    peer = Peer(receive, send, Echo())
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.run, end)
            await to_peer.send(line(id=2, result={"content": "x" * 20_000}))  # of no request
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(answer_too_long, peer, to_peer)
            with pytest.raises(RPCError, match="more than 16 MB"):
                await peer.request("read", {})
            await to_peer.send(b"")
    assert [each.get("method") for each in written] == ["read"]  # nothing was refused to them


async def answer_too_long(peer, to_peer):
    await trio.testing.wait_all_tasks_blocked()
    await to_peer.send(line(id=1, result={"content": "x" * 20_000}))
