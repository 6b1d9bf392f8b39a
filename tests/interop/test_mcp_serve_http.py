"""Our tools over HTTP, in both eras of the protocol, behind the guard."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import httpx
import pytest
import trio

from greenroom.core import AgentContext, Answer, ConfigurationError, RuleDecision
from greenroom.interop import MCPServer, MCPServers, Tokens, serve_mcp
from greenroom.interop._internal import Role
from greenroom.interop.mcp import connection as mcp_connection, served as mcp_served
from greenroom.interop.serving.tokens import add_token
from greenroom.testing import call as model_call
from tests.interop.servers import call
from tests.interop.test_mcp_serve import Waiting, add, ask, run_calls

# The SDK leaves the streams of responses to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http.*:ResourceWarning")


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    made = partial(mcp_connection.Client, mode=request.param)
    monkeypatch.setattr(mcp_connection, "Client", made)
    return request.param


def two_tokens() -> tuple[Tokens, str, str, str]:
    """Return the tokens of two operators, and of a viewer."""
    roles = {"ann": Role.OPERATOR, "bob": Role.OPERATOR, "eve": Role.VIEWER}
    made = [Tokens.make(name, role) for name, role in roles.items()]
    callers = tuple(tokens.find(token) for tokens, token in made)
    return Tokens(callers), *(token for _, token in made)


@asynccontextmanager
async def serving(*tools: object, **options: object) -> AsyncIterator[tuple[str, str, str, str]]:
    tokens, first, second, viewer = two_tokens()
    async with trio.open_nursery() as nursery:
        given = {"tokens": tokens, **options}
        serve = partial(serve_mcp, tools, http=("127.0.0.1", 0), **given)
        url = await nursery.start(serve)
        yield url, first, second, viewer
        nursery.cancel_scope.cancel()


def client(url: str, token: str) -> MCPServer:
    return MCPServer.http("demo", url, headers={"Authorization": f"Bearer {token}"})


async def test_tools_are_called_asked_about_and_cancelled(era) -> None:
    async def answer(request):
        return Answer(RuleDecision.ALLOW, input={"colour": "blue"})

    waiting = Waiting()
    async with serving(add, ask, waiting.wait) as (url, token, _, _):
        async with MCPServers(client(url, token)) as servers:
            calls = [model_call("mcp__demo__add", a=1, b=2), model_call("mcp__demo__ask")]
            found = await run_calls(servers, *calls, approve=answer)
            assert [each.text for each in found] == ["3", "True {'colour': 'blue'}"]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, servers, "wait")
                await waiting.began.wait()
                nursery.cancel_scope.cancel()
            with trio.fail_after(60):
                await waiting.ended.wait()
            assert (await call(servers, "add", a=2, b=2)).text == "4"


HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
}


def request(name: str, arguments: dict | None = None, **more: object) -> dict[str, object]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    params = {"name": name, "arguments": arguments or {}, "_meta": meta, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def post(url: str, token: str, body: dict, **headers: str) -> httpx.Response:
    sent = {**HEADERS, "Mcp-Name": body["params"]["name"], "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=60) as http:
        return await http.post(url, json=body, headers={**sent, **headers})


async def test_only_who_has_a_token_gets_in_and_only_under_our_names() -> None:
    body = request("add", {"a": 1, "b": 2})
    async with serving(add) as (url, token, _, viewer):
        assert (await post(url, token, body)).json()["result"]["content"][0]["text"] == "3"
        assert (await post(url, "wrong", body)).status_code == 401
        assert (await post(url, viewer, body)).status_code == 403
        assert (await post(url, token, body, Host="evil.example")).status_code == 421
        origin = await post(url, token, body, Origin="http://evil.example")
        assert (origin.status_code, origin.json()["kind"]) == (403, "origin")
        assert (await post(f"{url}/other", token, body)).status_code == 404
        unknown = await post(url, token, request("nothing"))
        assert unknown.json()["error"]["message"] == "Unknown tool: nothing"


async def test_an_answer_belongs_to_the_call_and_to_the_token_that_was_asked() -> None:
    async with serving(ask) as (url, token, other, _):
        first = (await post(url, token, request("ask"))).json()["result"]
        assert first["resultType"] == "input_required"
        assert [*first["inputRequests"]] == ["colour"]
        answer = {"colour": {"action": "accept", "content": {"colour": "red"}}}
        go_on = request("ask", inputResponses=answer, requestState=first["requestState"])
        for wrong in (
            await post(url, other, go_on),
            await post(url, token, request("ask", requestState=first["requestState"] + "x")),
            await post(url, token, {**go_on, "params": {**go_on["params"], "arguments": {"a": 1}}}),
        ):
            assert wrong.json()["error"]["code"] == -32602
        # What does not fit the form is asked for again.
        odd = {"colour": {"action": "accept", "content": {"colour": 3}}}
        again = request("ask", inputResponses=odd, requestState=first["requestState"])
        second = (await post(url, token, again)).json()["result"]
        go_on["params"]["requestState"] = second["requestState"]
        result = (await post(url, token, go_on)).json()["result"]
        assert result["content"][0]["text"] == "True {'colour': 'red'}"
        assert (await post(url, token, go_on)).json()["error"]["code"] == -32602


async def test_a_call_whose_answer_never_comes_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(mcp_served, "PATIENCE", 0.05)
    ended = trio.Event()

    async def ask_and_tell() -> str:
        """Ask, and tell when it is over."""
        try:
            return await ask(AgentContext(session_id="s", agent_type="test"))
        finally:
            ended.set()

    async with serving(ask_and_tell) as (url, token, _, _):
        first = (await post(url, token, request("ask_and_tell"))).json()["result"]
        with trio.fail_after(60):
            await ended.wait()
            go_on = request("ask_and_tell", requestState=first["requestState"])
            while "error" not in (late := (await post(url, token, go_on)).json()):
                go_on["params"]["requestState"] = late["result"]["requestState"]
        assert late["error"]["code"] == -32602


async def test_no_more_calls_are_taken_than_a_server_can_hold(monkeypatch) -> None:
    monkeypatch.setattr(mcp_served, "_MOST_CALLS", 1)
    async with serving(ask, add) as (url, token, _, _):
        await post(url, token, request("ask"))  # it waits for its answer
        refused = await post(url, token, request("add", {"a": 1, "b": 2}))
        assert "1 calls are on the way" in refused.json()["error"]["message"]


async def test_without_tokens_it_makes_one_and_listens_here_alone(capfd) -> None:
    with pytest.raises(ConfigurationError, match="this machine alone"):
        await serve_mcp([add], http=("0.0.0.0", 0))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_mcp, [add], http=("127.0.0.1", 0)))
        token = capfd.readouterr().err.split("Bearer ")[1].split()[0]
        assert (await post(url, token, request("add", {"a": 1, "b": 2}))).status_code == 200
        nursery.cancel_scope.cancel()


def old(token: str, session: str = "") -> dict[str, str]:
    """Return the headers of a request of the older era."""
    more = {"Mcp-Session-Id": session} if session else {}
    version = {"Accept": HEADERS["Accept"], "MCP-Protocol-Version": "2025-11-25"}
    return {**version, "Authorization": f"Bearer {token}", **more}


async def begin(http: httpx.AsyncClient, url: str, token: str) -> httpx.Response:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}}
    about["clientInfo"] = {"name": "test", "version": "1"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    return await http.post(url, json=body, headers=old(token))


async def test_a_session_of_the_older_era_belongs_to_the_token_that_began_it() -> None:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with serving(add) as (url, token, other, _), httpx.AsyncClient(timeout=60) as http:
        session = (await begin(http, url, token)).headers["mcp-session-id"]
        statuses = [
            (await http.post(url, json=ping, headers=old(each, session))).status_code
            for each in (token, other)
        ]
    assert statuses == [200, 404]


async def test_a_token_that_is_removed_ends_its_stream(tmp_path) -> None:
    path = tmp_path / "tokens"
    token, other = (add_token(path, name, Role.OPERATOR) for name in ("ann", "bob"))
    tokens = Tokens.load(path)
    async with serving(add, tokens=tokens) as (url, *_), httpx.AsyncClient(timeout=60) as http:

        def hear(token: str, session: str) -> AbstractAsyncContextManager[httpx.Response]:
            return http.stream("GET", url, headers=old(token, session))

        begun = [
            (await begin(http, url, each)).headers["mcp-session-id"] for each in (token, other)
        ]
        with trio.fail_after(60):
            async with hear(token, begun[0]) as removed, hear(other, begun[1]) as kept:
                lines = path.read_text().splitlines(keepends=True)
                path.write_text("".join(line for line in lines if "ann" not in line))
                with pytest.raises(httpx.RemoteProtocolError, match="closed"):  # it is cut off
                    assert [part async for part in removed.aiter_raw()] == []
                assert not kept.is_closed
        assert (await post(url, token, request("add", {"a": 1, "b": 2}))).status_code == 401
        assert (await post(url, other, request("add", {"a": 1, "b": 2}))).status_code == 200
