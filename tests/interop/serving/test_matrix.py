"""Every route, for every role, with an own and a foreign session, with no and a wrong token."""

from contextlib import AsyncExitStack

from greenroom.interop._internal import Role
from greenroom.interop.serving.route_table import ROUTES
from tests.interop.serving.services import PEOPLE

NAMES = {"input": "i-none", "request": "p-none", "name": "KEY", "call": "c-none", "agent": "echo"}
NAMES |= {"verb": "message:send", "task": "t-none", "config": "c-none"}
BODIES = {
    "/api/sessions": {"agent": "echo"},
    "input": {"content": "hello"},
    "permissions": {"decision": "allow", "digest": "d"},
    "credentials": {"value": "v"},
    "tool-results": {"content": "done"},
}


def address(route, session):
    path = route.path.format(session=session, **NAMES)
    query = {"/api/stream": f"?session={session}", "memory": "?q=x"}
    return path + next((text for key, text in query.items() if route.path.endswith(key)), "")


def body_of(route):
    if route.method != "POST":
        return None
    keys = [key for key in BODIES if key in route.parts or key == route.path]
    return BODIES[keys[0]] if keys else {}


async def ask(client, route, session):
    """Send a request; return its status, without the body of a stream."""
    request = client.build_request(route.method, address(route, session), json=body_of(route))
    reply = await client.send(request, stream=True)
    assert "token-of" not in str(reply.headers)
    if reply.status_code >= 400:
        await reply.aread()
        assert "token-of" not in reply.text
        assert set(reply.json()) == {"error", "kind", "hint"}, reply.text
        assert reply.json()["error"]
    elif route.path != "/api/stream":
        await reply.aread()
    await reply.aclose()
    return reply.status_code


def expect(route, who, owner):
    """Return the statuses that a request may have."""
    if who not in PEOPLE:
        return {401}
    name, role = PEOPLE[who]
    if not role.allows(route.role):
        return {403}
    has_session = "{session}" in route.path or route.path == "/api/stream"
    if has_session and role is not Role.ADMIN and name != owner:
        return {404}
    if route.path in ("/api/agents", "/api/sessions", "/api/stream", "/metrics"):
        return {*route.statuses} - ({200} if route.path == "/metrics" else set()) or {404}
    return {*range(200, 401), *range(404, 500)}


async def test_every_route_for_every_role_own_foreign_none_and_wrong_tokens(
    serve, caplog, tmp_path
):
    caplog.set_level("DEBUG")
    wrong = {}
    async with serve(seconds=120) as service, AsyncExitStack() as stack:
        clients = {
            who: await stack.enter_async_context(service.client(who))
            for who in (None, "nobody", *PEOPLE)
        }
        for owner in ("ann", "bob"):
            session = await service.create("echo", who=owner)
            for who, client in clients.items():
                for route in ROUTES:
                    status = await ask(client, route, session)
                    if status not in expect(route, who, owner):
                        wrong[owner, who, route.method, route.path] = status
                    if route.method == "DELETE" and status == 204:
                        session = await service.create("echo", who=owner)
    assert wrong == {}
    assert "token-of" not in "".join(
        each.getMessage() for each in caplog.records if each.name.startswith(("greenroom", "hyper"))
    )
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert files
    assert not any(b"token-of" in each.read_bytes() for each in files)


async def test_what_is_no_route_is_404_and_no_method_of_one_405(serve):
    async with serve() as service, service.client() as client:
        assert (await client.get("/api/nothing")).status_code == 404
        assert (await client.get("/")).status_code in (200, 404)
        reply = await client.request("PATCH", "/api/sessions/x")
        assert (reply.status_code, reply.headers["allow"]) == (405, "DELETE, GET")
        assert (await client.head("/api/agents")).status_code == 405
        assert (await client.get("/api/sessions/%00/")).status_code == 404
        assert (await client.get("/api/sessions/..%2f..%2fetc")).status_code == 404
