"""What the routes answer that show what observers have: traces, costs, the audit, figures."""

from datetime import date

import trio

from greenroom.interop.serving.asgi import Reply, json_reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.refusals import RequestRefusedError, bad_request, not_found
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.memory import Memory
from greenroom.observability import Ledger

_MOST_ENTRIES = 50  # of a memory


def _missing(what: str) -> RequestRefusedError:
    return not_found(f"this server has no {what}", f"start it with one: WebServer({what}=…)")


async def show_trace(sessions: ServedSessions, call: Call) -> Reply:
    """Give the spans of a session, where the server has a trace."""
    known = await sessions.find(call.session_id, call.caller)
    if sessions.sources.trace is None:
        raise _missing("trace")
    return json_reply(await sessions.sources.trace(known.session_id))


async def show_cost(sessions: ServedSessions, call: Call) -> Reply:
    """Give what was paid for, in rows of the caller's sessions; an admin gets all."""
    since = _read_day(call.request.query.get("since", ""))
    ledger = sessions.sources.ledger
    if ledger is None:
        # One after another: each reads the record of every session.
        async with sessions.counting:
            ledger = await Ledger.of_store(sessions.store, since)
    rows = [
        {**_fields_of(key), "usage": usage}
        for key, usage in tuple(ledger.rows.items())
        if sessions.is_owned(getattr(key, "owner", ""), call.caller)
        and (since is None or getattr(key, "day", since) >= since)
    ]
    return json_reply({"rows": rows})


def _read_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise bad_request("since is a day, such as 2026-01-31") from error


def _fields_of(key: tuple[object, ...]) -> dict[str, object]:
    names = getattr(key, "_fields", ())
    return dict(zip(names, key, strict=False))


async def show_audit(sessions: ServedSessions, call: Call) -> Reply:
    """Give the lines of the audit, where the server has one."""
    if sessions.sources.audit is None:
        raise _missing("audit")
    return json_reply(await sessions.sources.audit())


async def show_metrics(sessions: ServedSessions, call: Call) -> Reply:
    """Give the figures in the text format of Prometheus."""
    await trio.lowlevel.checkpoint()
    if sessions.sources.metrics is None:
        raise _missing("metrics")
    text = sessions.sources.metrics.text().encode()
    return Reply(200, text, "text/plain; version=0.0.4; charset=utf-8")


async def list_hosts(sessions: ServedSessions, call: Call) -> Reply:
    """List the hosts, where agents run on several."""
    if sessions.sources.hosts_view is None:
        raise _missing("hosts_view")
    return json_reply(await sessions.sources.hosts_view())


async def search_memory(sessions: ServedSessions, call: Call) -> Reply:
    """Find entries in the memory of the session's agent."""
    known = await sessions.find(call.session_id, call.caller)
    memory = getattr(sessions.agents.get(known.agent_type), "memory", None)
    if not isinstance(memory, Memory):
        raise not_found("the agent of this session has no memory", "give it one: Agent(memory=…)")
    query = call.request.query.get("q", "").strip()
    if not query:
        raise bad_request("q says what to look for", "…/memory?q=WORDS")
    return json_reply({"entries": await memory.recall(query, limit=_MOST_ENTRIES)})
