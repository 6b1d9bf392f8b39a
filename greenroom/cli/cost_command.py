"""`greenroom sessions cost`: the tokens of a session and its subagents, and what they cost."""

import trio

from greenroom.cli.options import SessionsOptions
from greenroom.cli.settings import read_settings
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store
from greenroom.core import SessionError, Usage
from greenroom.core._internal import serde
from greenroom.session import AgentSession
from greenroom.session._internal import descendants

_KINDS = ("input", "output", "cache read", "cache write")


async def show_cost(options: SessionsOptions) -> int:
    """Print tokens by kind and their cost; the exit code is 1 if a subagent's can't be read.

    Raises:
        SessionError: the session is unknown or can't be read.
        OSError: standard output can't be written.
    """
    store = open_store(options)
    session = await load_session(options.session_id, store)
    currency = (await trio.to_thread.run_sync(read_settings)).currency
    below, missing = Usage(), 0
    listed = await store.list_all()
    for children in descendants(session.session_id, listed).values():
        for each in children:
            try:
                below += (await AgentSession.load(each, store=store)).used.usage
            except SessionError as error:
                tell(error.message)
                missing += 1
    own = session.used.usage
    if options.json:
        found = {"session": own, "subagents": below, "total": own + below, "currency": currency}
        await OutputWriter().line(serde.encode(found))
    else:
        await print_usage({"session": own, "subagents": below, "together": own + below}, currency)
    return 1 if missing else 0


async def print_usage(rows: dict[str, Usage], currency: str) -> None:
    """Print tokens by kind, and their cost where it is known.

    Raises:
        OSError: standard output can't be written.
    """
    table = []
    for about, usage in rows.items():
        counts = (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        )
        cost = "" if usage.cost is None else f"{usage.cost:,.4f} {currency}".strip()
        table.append((about, *(f"{count or 0:,}" for count in counts), cost))
    await OutputWriter().table(("tokens", *_KINDS, "cost"), table)
