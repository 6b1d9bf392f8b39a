"""`greenroom cost`: what was paid for tokens, by day, agent, model or session."""

import trio

from greenroom.cli.command_options import CostOptions
from greenroom.cli.options import FAILED
from greenroom.cli.settings import read_settings
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import find_session_id, open_store
from greenroom.core import Usage
from greenroom.core._internal import serde, visible
from greenroom.observability import Ledger

_KINDS = ("input", "output", "cache read", "cache write")


async def show_cost(options: CostOptions) -> int:
    """Print tokens by kind and their cost, of all sessions, or of one and those below it.

    The exit code is 1 if a session is damaged, and so left out.

    Raises:
        SessionError: the session is unknown, or the store can't be read.
        OSError: standard output can't be written.
    """
    store = open_store(options)
    id_ = await find_session_id(options.session_id, store) if options.session_id else None
    by = options.by or ("session" if id_ else "day")
    currency = (await trio.to_thread.run_sync(read_settings)).currency
    ledger = await Ledger.of_store(store, options.since, session_id=id_)
    groups = ledger.by(by)
    rows = {str(key): groups[key,] for (key,) in sorted(groups, key=str)}
    if options.json:
        found = [{by: name, "usage": usage} for name, usage in rows.items()]
        whole = {"rows": found, "total": ledger.total, "currency": currency}
        await OutputWriter().line(serde.encode(whole))
    else:
        shown = {visible(name) or "(not named)": usage for name, usage in rows.items()}
        await print_usage({**shown, "together": ledger.total}, currency, by)
    for each in ledger.damaged:
        tell(f"left out: {each.message}")
    return FAILED if ledger.damaged else 0


async def print_usage(rows: dict[str, Usage], currency: str, about: str = "tokens") -> None:
    """Print tokens by kind, and their cost where it is known.

    Raises:
        OSError: standard output can't be written.
    """
    table = []
    for name, usage in rows.items():
        counts = (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        )
        cost = "" if usage.cost is None else f"{usage.cost:,.4f} {currency}".strip()
        table.append((name, *(f"{count or 0:,}" for count in counts), cost))
    await OutputWriter().table((about, *_KINDS, "cost"), table)
