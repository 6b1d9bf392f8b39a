"""`greenroom trace`: what a session did, as a tree with times, a page, or objects for programs."""

from shutil import get_terminal_size

import trio

from greenroom.cli.options import TraceOptions
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store
from greenroom.core._internal import serde
from greenroom.observability import read_trace


async def show_trace(options: TraceOptions) -> int:
    """Print the trace of a session, or write it as a page.

    Raises:
        SessionError: the session is unknown, or has no trace.
        OSError: the page or standard output can't be written.
    """
    store = open_store(options)
    session = await load_session(options.session_id, store)
    trace = await read_trace(session.session_id, store=store, tree=not options.alone)
    output = OutputWriter()
    if options.html:
        await trio.Path(options.html).write_text(trace.to_html(), encoding="utf-8")
    elif options.json:
        for span in trace.spans:
            await output.line(serde.encode(span))
    else:
        await output.text(trace.waterfall(get_terminal_size((100, 24)).columns))
    if trace.missing:
        tell(f"{trace.missing} lines of the trace were dropped: it was longer than what is kept")
    return 0
