"""What a session did, and what went wrong in it: `greenroom trace` and `greenroom diagnose`.

A trace is a tree with times, a page, or objects for programs.
"""

import os
from contextlib import suppress
from shutil import get_terminal_size

import trio

from greenroom.cli.command_options import TraceOptions
from greenroom.cli.options import DONE, FAILED, USAGE
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store, traces_folder
from greenroom.core import SessionNotFoundError
from greenroom.core._internal import serde, visible
from greenroom.observability import Trace, diagnose, read_trace


async def show_trace(options: TraceOptions) -> int:
    """Print the trace of a session, or write it as a page.

    Raises:
        SessionError: the session is unknown, or has no trace.
        OSError: the page or standard output can't be written.
    """
    store = open_store(options)
    session = await load_session(options.ids[0], store)
    trace = await read_trace(
        session.session_id, store=store, folder=traces_folder(), tree=options.tree
    )
    output = OutputWriter()
    if options.html:
        await trio.to_thread.run_sync(_write_page, options.html, trace.to_html())
    elif options.json:
        for span in trace.spans:
            await output.line(serde.encode(span))
    else:
        await output.text(trace.waterfall(get_terminal_size((100, 24)).columns))
    _tell_missing(trace)
    return DONE


async def show_diagnoses(options: TraceOptions) -> int:
    """Print what went wrong in a session, and return 1, or 0 if nothing is found.

    Without a trace, only what the conversation shows is found, and that is said; the exit code is
    2 if that is nothing, since most faults are seen in a trace alone. One without content will do.

    Raises:
        SessionError: the session is unknown, or can't be read.
        OSError: standard output can't be written.
    """
    store = open_store(options)
    session = await load_session(options.ids[0], store, keep_open=True)
    trace: Trace | None = None
    with suppress(SessionNotFoundError):
        trace = await read_trace(
            session.session_id, store=store, folder=traces_folder(), tree=False
        )
    if trace is not None:
        _tell_missing(trace)
    if trace is None or not trace.spans:  # a full disk leaves an empty file
        trace = None
        tell("there is no trace of this session, so only its conversation was looked at")
    found, output = diagnose(session, trace), OutputWriter()
    for each in found:
        if options.json:
            await output.line(serde.encode(each))
        else:
            about = f": {visible(each.text)}" if each.text else ""
            await output.text(f"{each.level}  {each.kind}: {each.message}{about} ({each.hint})")
    if found:
        return FAILED
    if trace is None:
        return USAGE
    if not options.json:
        await output.text("nothing went wrong")
    return DONE


def _write_page(path: str, page: str) -> None:
    # For this user alone, as the trace is.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(page)


def _tell_missing(trace: Trace) -> None:
    if trace.missing:
        tell(f"{trace.missing} lines of the trace were dropped: it was longer than what is kept")
