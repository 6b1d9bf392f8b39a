"""The routes of a server, in one table, which the documentation and OpenAPI are made from."""

from collections.abc import Sequence

import trio

from greenroom.interop.serving import (
    a2a_routes,
    agui_routes,
    control_routes,
    read_routes,
    source_routes,
)
from greenroom.interop.serving.asgi import Reply, json_reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.chunk_stream import stream_chunks, stream_turn
from greenroom.interop.serving.openapi import describe_api
from greenroom.interop.serving.refusals import RequestRefusedError, not_found
from greenroom.interop.serving.route import Route
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.interop.serving.tokens import Role


async def show_api(sessions: ServedSessions, call: Call) -> Reply:
    """Describe this API, in the form of OpenAPI 3.1."""
    await trio.lowlevel.checkpoint()
    return json_reply(describe_api(ROUTES))


_WAIT = ("wait", f"seconds to wait for it, at most {read_routes.LONGEST_WAIT:g} (0)")
_SESSION = "/api/sessions/{session}"

ROUTES = (
    Route("GET", "/api/agents", Role.VIEWER, read_routes.list_agents),
    Route(
        "GET",
        "/api/sessions",
        Role.VIEWER,
        read_routes.list_sessions,
        query=(
            ("q", "only those with this text"),
            ("after", "the `after` of the page before"),
            ("limit", "how many at most, up to 200 (50)"),
        ),
    ),
    Route("GET", _SESSION, Role.VIEWER, read_routes.show_session),
    Route(
        "GET",
        "/api/stream",
        Role.VIEWER,
        stream_chunks,
        query=(
            ("session", "the session"),
            ("after", "the position to go on from, else the header Last-Event-ID"),
        ),
    ),
    Route(
        "GET",
        f"{_SESSION}/inputs/{{input}}",
        Role.VIEWER,
        read_routes.show_answer,
        query=(_WAIT,),
        statuses=(200, 202),
    ),
    Route(
        "GET",
        f"{_SESSION}/outcome",
        Role.VIEWER,
        read_routes.show_outcome,
        query=(_WAIT,),
        statuses=(200, 202),
    ),
    Route("GET", f"{_SESSION}/tools", Role.VIEWER, read_routes.list_tools),
    Route(
        "GET",
        f"{_SESSION}/memory",
        Role.VIEWER,
        source_routes.search_memory,
        query=(("q", "what to look for"),),
    ),
    Route("GET", f"{_SESSION}/steps", Role.VIEWER, read_routes.list_steps),
    Route("GET", f"{_SESSION}/artifacts", Role.VIEWER, read_routes.list_artifacts),
    Route(
        "GET",
        f"{_SESSION}/artifacts/{{name}}",
        Role.VIEWER,
        read_routes.get_artifact,
        query=(("version", "which version (the newest)"),),
    ),
    Route("GET", f"{_SESSION}/trace", Role.VIEWER, source_routes.show_trace),
    Route(
        "GET",
        "/api/cost",
        Role.VIEWER,
        source_routes.show_cost,
        query=(("since", "the first day that counts, in UTC (all)"),),
    ),
    Route("GET", "/openapi.json", Role.VIEWER, show_api),
    Route("GET", "/api/hosts", Role.VIEWER, source_routes.list_hosts),
    Route(
        "POST",
        "/api/sessions",
        Role.OPERATOR,
        control_routes.create_session,
        control_routes.NewSession,
        statuses=(201, 200),
    ),
    Route(
        "POST",
        f"{_SESSION}/input",
        Role.OPERATOR,
        control_routes.send_input,
        control_routes.NewInput,
        statuses=(202, 200),
    ),
    Route(
        "POST",
        f"{_SESSION}/turn",
        Role.OPERATOR,
        stream_turn,
        control_routes.NewInput,
        query=(("after", "the position to go on from"),),
    ),
    Route(
        "POST",
        f"{_SESSION}/interrupt",
        Role.OPERATOR,
        control_routes.interrupt,
        control_routes.Interruption,
    ),
    Route(
        "POST",
        f"{_SESSION}/permissions/{{request}}",
        Role.OPERATOR,
        control_routes.answer,
        control_routes.GivenAnswer,
    ),
    Route(
        "POST",
        f"{_SESSION}/credentials/{{name}}",
        Role.OPERATOR,
        control_routes.give_credential,
        control_routes.GivenCredential,
    ),
    Route(
        "POST",
        f"{_SESSION}/fork",
        Role.OPERATOR,
        control_routes.fork,
        control_routes.ForkPoint,
        statuses=(201,),
    ),
    Route(
        "POST",
        f"{_SESSION}/tool-results/{{call}}",
        Role.OPERATOR,
        control_routes.send_result,
        control_routes.GivenResult,
        statuses=(202,),
    ),
    Route(
        "POST",
        f"{_SESSION}/shutdown",
        Role.OPERATOR,
        control_routes.shut_down,
        control_routes.Ending,
    ),
    Route("POST", "/ag-ui", Role.OPERATOR, agui_routes.run_agent, agui_routes.RunAgentInput),
    Route(
        "POST", "/ag-ui/{agent}", Role.OPERATOR, agui_routes.run_agent, agui_routes.RunAgentInput
    ),
    *a2a_routes.ROUTES,
    Route("DELETE", _SESSION, Role.ADMIN, control_routes.remove, statuses=(204,)),
    Route("GET", "/api/audit", Role.AUDITOR, source_routes.show_audit),
    Route("GET", "/metrics", Role.AUDITOR, source_routes.show_metrics),
)
"""Every route that needs a token."""


def find_route(method: str, segments: Sequence[str]) -> tuple[Route, dict[str, str]]:
    """Return the route of a request, and what its path names.

    Raises:
        RequestRefusedError: there is no such path, or it has no such method.
    """
    fitting = [(route, names) for route in ROUTES if (names := route.match(segments)) is not None]
    for route, names in fitting:
        if route.method == method:
            return route, names
    if fitting:
        allowed = ", ".join(sorted({route.method for route, _ in fitting}))
        raise RequestRefusedError(
            405,
            f"this path takes {allowed}",
            kind="method",
            headers=(("allow", allowed),),
        )
    raise not_found("there is no such path", "GET /openapi.json lists them")
