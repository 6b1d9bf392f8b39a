"""Reading traces: the spans of a session as a tree, a chart in text, and a page."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trio

from greenroom.core import SessionNotFoundError
from greenroom.core._internal import visible
from greenroom.observability.spans import Span, SpanStatus
from greenroom.observability.trace_file import read_trace_file
from greenroom.session import SessionStore
from greenroom.session._internal import folder_name

MAX_SESSIONS = 1_000  # of one tree

_MARKS = {
    SpanStatus.OK: " ",
    SpanStatus.OPEN: "…",
    SpanStatus.ERROR: "✗",
    SpanStatus.INTERRUPTED: "■",
    SpanStatus.WAITING: "?",
}
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em;
  color: #1b1b1b; background: #fff }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #16181c } }
div.row { display: grid; grid-template-columns: 24em 6em 1fr; gap: 1em; align-items: center }
span.bar { display: block; height: .8em; border-radius: 3px; background: #4a7bd0; min-width: 2px }
.error span.bar { background: #c0392b } .interrupted span.bar { background: #b9770e }
.open span.bar { background: repeating-linear-gradient(45deg, #4a7bd0 0 4px, transparent 4px 8px) }
span.name { white-space: pre; overflow: hidden; text-overflow: ellipsis }
span.time { text-align: right; opacity: .7 } pre { white-space: pre-wrap; word-break: break-word }
"""


@dataclass(frozen=True)
class Trace:
    """The spans of one session, or of its whole tree, in the order of their beginnings.

    Attributes:
        spans: the spans; those without an end are open.
        missing: lines of the files that were dropped or lost.
    """

    spans: tuple[Span, ...]
    missing: int = 0

    def walk(self) -> Iterator[tuple[int, Span]]:
        """List the spans as a tree, each with its depth; whose parent is not here is at the top."""
        below: dict[str, list[Span]] = {}
        ids = {each.span_id for each in self.spans}
        for each in self.spans:
            below.setdefault(each.parent_id if each.parent_id in ids else "", []).append(each)
        waiting = [(0, each) for each in reversed(below.get("", ()))]
        while waiting:
            depth, span = waiting.pop()
            yield depth, span
            waiting += [(depth + 1, each) for each in reversed(below.get(span.span_id, ()))]

    def waterfall(self, columns: int = 100) -> str:
        """Draw the tree as text, with a bar for the time of each span.

        Example:
            >>> turn = Span("turn", "invoke_agent Ann", "s", (), "t", "1", start=1, end=4 * 10**9)
            >>> chat = Span("model", "chat m", "s", (), "t", "2", "1", start=1, end=2 * 10**9)
            >>> print(Trace((turn, chat)).waterfall(60))
            … invoke_agent Ann        4.0 s ████████████████████████████
            …   chat m                2.0 s ██████████████
        """
        if not self.spans:
            return ""
        start = min(each.start for each in self.spans)
        last = max(max(each.end, each.start) for each in self.spans)
        rows = [
            (f"{_MARKS[each.status]} {'  ' * depth}{visible(each.name)}", each)
            for depth, each in self.walk()
        ]
        width = max(24, min(max((len(name) for name, _ in rows), default=0), columns * 2 // 5))
        most = max(columns - width - 8, 8)
        lines = []
        for name, span in rows:
            end = span.end or last
            at, to = (round(most * _share(each, start, last)) for each in (span.start, end))
            bar = " " * min(at, most - 1) + ("█" if span.end else "░") * max(to - at, 1)
            cut = name if len(name) <= width else f"{name[: width - 1]}…"
            lines.append(f"{cut:<{width}} {_write_time(span, last):>6} {bar[:most]}".rstrip())
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return a page of the tree that needs no other file; each span unfolds to its facts."""
        if not self.spans:
            return _page("<p>No spans.</p>")
        start = min(each.start for each in self.spans)
        last = max(max(each.end, each.start) for each in self.spans)
        rows = [_write_row(depth, span, start, last) for depth, span in self.walk()]
        return _page("\n".join(rows))


async def read_trace(
    session_id: str,
    *,
    store: SessionStore,
    folder: str | Path | None = None,
    tree: bool = True,
) -> Trace:
    """Read the trace that a `TraceFile` wrote beside a session.

    Args:
        session_id: the session.
        store: the store that has it.
        folder: where the traces of sessions without a folder of their own are, as the `TraceFile`
            was told.
        tree: whether to add the traces of its subagents, and theirs, up to 1,000 sessions.

    Raises:
        SessionNotFoundError: there is no trace of this session.
    """
    found: dict[str, Span] = {}
    waiting, seen, missing = [session_id], {session_id}, 0
    while waiting:
        current = waiting.pop()
        place: str | Path = store.folder(current)
        if not place and folder is not None:
            place = Path(folder, folder_name(current))
        try:
            spans, lost = await trio.to_thread.run_sync(read_trace_file, place)
        except FileNotFoundError:
            if current == session_id:
                raise SessionNotFoundError(
                    f"there is no trace of {session_id}",
                    session_id=session_id,
                    hint="attach Tracer(file) to the runtime in `async with TraceFile() as file`, "
                    "with a folder for the traces of sessions that have none of their own",
                ) from None
            continue
        missing += lost
        found.update((each.span_id, each) for each in spans)
        if tree:
            page = await store.read_last(current, 1)
            for child in page.metadata.child_session_ids if page.metadata else ():
                if child not in seen and len(seen) < MAX_SESSIONS:
                    seen.add(child)
                    waiting.append(child)
    return Trace(tuple(sorted(found.values(), key=lambda each: each.start)), missing)


def _share(at: int, start: int, last: int) -> float:
    return (at - start) / max(last - start, 1)


def _write_time(span: Span, last: int) -> str:
    seconds = ((span.end or last) - span.start) / 1e9
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _write_row(depth: int, span: Span, start: int, last: int) -> str:
    left = 100 * _share(span.start, start, last)
    width = 100 * _share(span.end or last, start, last) - left
    facts = "\n".join(_list_facts(span))
    return (
        f"<details class={span.status.value}><summary><div class=row>"
        f"<span class=name>{'  ' * depth}{html.escape(visible(span.name))}</span>"
        f"<span class=time>{_write_time(span, last)}</span>"
        f'<span><span class=bar style="margin-left:{left:.2f}%;width:{width:.2f}%"></span></span>'
        f"</div></summary><pre>{html.escape(facts)}</pre></details>"
    )


def _list_facts(span: Span) -> Iterator[str]:
    yield f"{span.kind} · {span.status} · {'/'.join(span.lineage)} · {span.session_id}"
    if span.error:
        yield f"error: {visible(span.error)}"
    for name, value in span.attributes.items():
        yield f"{name}: {visible(str(value))}"
    for event in span.events:
        facts = ", ".join(f"{name}={visible(str(each))}" for name, each in event.attributes.items())
        yield f"{(event.at - span.start) / 1e9:+.3f} s {event.name} {facts}".rstrip()


def _page(body: str) -> str:
    head = f"<meta charset=utf-8><title>Trace</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"
