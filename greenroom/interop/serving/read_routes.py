"""What the routes for viewers answer: nothing here changes anything."""

from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote

import trio

from greenroom.core import Message, TurnError, UserInput
from greenroom.core._internal import JSON, clip, describe_error
from greenroom.interop.serving.asgi import Reply, json_reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.refusals import bad_request, not_found
from greenroom.interop.serving.served_sessions import OWNER, Known, ServedSessions
from greenroom.runtime import AgentHandle, AgentNotRunningError, Outcome
from greenroom.runtime._internal import take_snapshot
from greenroom.session import SessionMetadata
from greenroom.session._internal import MOST_VERSIONS, SessionSearch

LONGEST_WAIT = 60.0
"""Seconds that a request may wait for a result; then it is 202, and may be sent again."""

_AT_ONCE = 0.05  # seconds that it takes at most to return what is there
_MOST_PAGES = 20  # of the store that one page of a caller's sessions may be gathered from
_MOST_LISTED = 200
_MOST_STEPS = 1_000
_STEPS = ("plan.step", "workflow.node")


async def list_agents(sessions: ServedSessions, call: Call) -> Reply:
    """List the types of agents that are served, and say whether hosts can be listed."""
    await trio.lowlevel.checkpoint()
    described = [
        {"name": name, "description": str(getattr(each, "description", ""))}
        for name, each in sessions.agents.items()
    ]
    return json_reply({"agents": described, "hosts": sessions.sources.hosts_view is not None})


async def list_sessions(sessions: ServedSessions, call: Call) -> Reply:
    """List the caller's sessions, or find those with a text."""
    query = call.request.query
    limit = int(call.request.number("limit", 50, _MOST_LISTED)) or 1
    if query.get("q", "").strip():
        return await _search(sessions, call, query["q"], limit)
    found, after = list[SessionMetadata](), query.get("after") or None
    for _ in range(_MOST_PAGES):
        try:
            page = await sessions.store.list_page(after, limit, archived=False)
        except ValueError as error:
            raise bad_request(str(error)) from error
        found += [each for each in page.sessions if _is_listed(sessions, call, each)]
        after = page.after
        if found or after is None:
            break
    return json_reply({"sessions": [_describe(sessions, each) for each in found], "after": after})


async def _search(sessions: ServedSessions, call: Call, text: str, limit: int) -> Reply:
    listed = [
        each
        for each in await sessions.store.list_all()
        if not each.is_archived and _is_listed(sessions, call, each)
    ]
    search, hits = SessionSearch(text, listed, sessions.store), list[dict[str, object]]()
    while len(hits) < limit and (hit := await anext(search, None)) is not None:
        hits.append({**_describe(sessions, hit.session), "snippet": hit.snippet, "at": hit.at})
    return json_reply({"sessions": hits, "after": None})


def _is_listed(sessions: ServedSessions, call: Call, session: SessionMetadata) -> bool:
    is_root = session.parent_session_id is None
    return is_root and sessions.is_owned(session.metadata.get(OWNER), call.caller)


def _describe(sessions: ServedSessions, session: SessionMetadata) -> dict[str, object]:
    handle = sessions.runtime.get(session.session_id)
    return {
        "id": session.session_id,
        "agent": session.agent_type,
        "title": str(session.metadata.get("title", "")),
        "owner": str(session.metadata.get(OWNER, "")),
        "state": handle.state if handle else {"kind": "idle"},
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }


async def show_session(sessions: ServedSessions, call: Call) -> Reply:
    """Show a session as it is now, and where its stream goes on."""
    known = await sessions.find(call.session_id, call.caller)
    return json_reply(await snapshot_of(sessions, known))


async def snapshot_of(sessions: ServedSessions, known: Known) -> dict[str, object]:
    """Return what a client needs to show a session, all of one moment."""
    if (handle := sessions.runtime.get(known.session_id)) is not None:
        return _running_snapshot(handle)
    session = await sessions.load(known.session_id)
    if (handle := sessions.runtime.get(known.session_id)) is not None:  # it has begun meanwhile
        return _running_snapshot(handle)
    asked = tuple(each.request for each in session.open_questions if each.request)
    return {
        "id": known.session_id,
        "agent": session.agent_type,
        "title": str(session.get_metadata("title") or ""),
        "state": {"kind": "waiting" if asked else "idle"},
        "messages": session.history,
        "partial": "",
        "pending": asked,
        "usage": session.used.usage,
        "children": session.child_session_ids,
        "position": None,
    }


def _running_snapshot(handle: AgentHandle) -> dict[str, object]:
    now = take_snapshot(handle)
    return {
        "id": handle.session_id,
        "agent": handle.agent_type,
        "title": str(now.metadata.get("title") or ""),
        "state": {"kind": "waiting"} if now.is_suspended else now.state,
        "messages": now.messages,
        "partial": now.partial,
        "pending": now.pending,
        "usage": now.usage,
        "children": now.children,
        "position": write_position(now.position),
    }


def write_position(position: tuple[int, int]) -> str:
    """Write a position as EPOCH.SEQ, the id of an event."""
    return f"{position[0]}.{position[1]}"


async def show_answer(sessions: ServedSessions, call: Call) -> Reply:
    """Give the result of the turn that took an input, or say that there is none yet."""
    known = await sessions.find(call.session_id, call.caller)
    handle, input_id = sessions.runtime.get(known.session_id), call.names["input"]
    if handle is None:
        handle = sessions.serve(known.session_id).handle
    if handle is None:
        raise not_found("no agent of this session has run here", _LATE)
    try:
        with trio.move_on_after(_seconds(call)):
            return json_reply(await handle.answer(input_id))
    except (TurnError, AgentNotRunningError) as error:
        raise not_found(error.message, error.hint or _LATE) from error
    return json_reply({"status": "open", "input_id": input_id}, 202)


def _seconds(call: Call) -> float:
    """Return how long to wait: with none at all, even what is there would be cancelled."""
    return max(call.request.number("wait", 0, LONGEST_WAIT), _AT_ONCE)


_LATE = "the conversation has what was answered: GET /api/sessions/ID"


async def show_outcome(sessions: ServedSessions, call: Call) -> Reply:
    """Say how the session's agent ended, or that it runs."""
    known = await sessions.find(call.session_id, call.caller)
    handle = sessions.runtime.get(known.session_id)
    served = sessions.serve(known.session_id)
    handle = handle or served.handle
    if handle is None:
        raise not_found("no agent of this session has run here", "an input starts one")
    with trio.move_on_after(_seconds(call)):
        return json_reply(describe_outcome(await handle.wait()))
    return json_reply({"status": "running"}, 202)


def describe_outcome(outcome: Outcome) -> dict[str, object]:
    """Describe how an agent ended, as JSON can hold it."""
    error = outcome.error
    return {
        "status": outcome.status,
        "error": "" if error is None else clip(describe_error(error), 2_000),
        "kind": "" if error is None else type(error).__name__,
        "undelivered": [each.id for each in outcome.undelivered if isinstance(each, UserInput)],
        "abandoned": outcome.abandoned,
        "restarts": outcome.restarts,
    }


async def list_tools(sessions: ServedSessions, call: Call) -> Reply:
    """Count the calls of each tool in the conversation, and what they took since the start."""
    known = await sessions.find(call.session_id, call.caller)
    handle = sessions.runtime.get(known.session_id)
    if handle is not None:
        messages = await handle.history()
    else:
        messages = (await sessions.load(known.session_id)).history
    seconds = sessions.serve(known.session_id).tool_seconds
    return json_reply({"tools": _count_tools(messages, seconds)})


async def list_steps(sessions: ServedSessions, call: Call) -> Reply:
    """List the steps of the plans and workflows on record, as their chunks have them."""
    known = await sessions.find(call.session_id, call.caller)
    session = await sessions.load(known.session_id)
    steps = [
        {"kind": kind, "data": _without_results(record)}
        for kind in _STEPS
        for record in session.records(kind)[-_MOST_STEPS:]
    ]
    return json_reply({"steps": steps})


def _without_results(value: JSON) -> JSON:
    """Return a record of a step without what the step gave, which may be long."""
    if isinstance(value, dict):
        return {key: _without_results(each) for key, each in value.items() if key != "result"}
    return value


async def list_artifacts(sessions: ServedSessions, call: Call) -> Reply:
    """List every version of what the agent has made for people."""
    known = await sessions.find(call.session_id, call.caller)
    session = await sessions.load(known.session_id)
    return json_reply({"artifacts": session.artifacts()})


async def get_artifact(sessions: ServedSessions, call: Call) -> Reply:
    """Give the content of an artifact as a file to save: its newest version, or the one named."""
    known = await sessions.find(call.session_id, call.caller)
    session, name = await sessions.load(known.session_id), call.names["name"]
    version = int(call.request.number("version", 0, MOST_VERSIONS))
    fitting = [
        each for each in session.artifacts() if each.name == name and version in (0, each.version)
    ]
    if not fitting:
        raise not_found("there is no such artifact", "…/artifacts lists what there is")
    found = max(fitting, key=lambda each: each.version)
    content = await sessions.store.open_file(known.session_id, found.file)
    # Never shown in place: a browser saves it, whatever its type and its name say.
    headers = (("content-disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}"),)
    return Reply(200, content.getvalue(), found.media_type, headers)


def _count_tools(
    messages: tuple[Message, ...], seconds: Mapping[str, float]
) -> list[dict[str, object]]:
    names = {call.id: call.name for message in messages for call in message.tool_uses}
    results = [result for message in messages for result in message.tool_results]
    failures = Counter(names.get(each.tool_use_id, "") for each in results if each.is_error)
    return [
        {
            "name": name,
            "calls": count,
            "failures": failures[name],
            "seconds": round(seconds.get(name, 0.0), 3),
        }
        for name, count in Counter(names.values()).most_common()
    ]
