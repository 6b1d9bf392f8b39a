"""Sessions are exported in a thread, piece by piece, with the subagents that the store has."""

import io
import json
import logging
import threading

import pytest
import trio

from greenroom.core import Message, ToolUseBlock, UnknownBlock
from greenroom.export import export_session, exporter, import_session
from greenroom.session import AgentSession, InMemoryStore
from tests.export.talk import EVERYTHING


async def written(session, format="markdown"):
    text = io.StringIO()
    await export_session(session, text.write, format)
    return text.getvalue()


async def saved(id_, *children, store, parent=None):
    session = AgentSession.new("coder", session_id=id_, store=store)
    if parent is not None:
        session.description.set_parent(parent, None)
    session.add_message(Message.user(f"I am {id_}"))
    for child in children:
        session.description.add_child(child)
    await session.save()
    return session


@pytest.mark.parametrize("format", ["markdown", "html", "json"])
async def test_a_session_is_written_in_a_thread_piece_by_piece(format):
    session = AgentSession.new("coder")
    for _ in range(1000):
        session.add_message(Message.user("hello"))
    pieces, threads = [], set()

    def write(piece):
        pieces.append(piece)
        threads.add(threading.get_ident())

    await export_session(session, write, format)
    assert "".join(pieces).count("hello") >= 1000
    assert max(map(len, pieces)) < 32_000
    assert len(pieces) > 1000
    assert threading.get_ident() not in threads


def nested(depth):
    value = "at the bottom"
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "shown"), [({"n": 10**30}, str(10**30)), (nested(600), "at the bottom")]
)
@pytest.mark.parametrize("format", ["markdown", "html", "json"])
async def test_whatever_a_model_may_call_a_tool_with_can_be_written(format, value, shown):
    session = AgentSession.new("coder")
    session.add_message(Message.assistant([ToolUseBlock("t", "Bash", value), UnknownBlock(value)]))
    text = await written(session, format)
    assert shown in text
    if format == "json":
        copy = await import_session(text, store=InMemoryStore())
        assert copy.history[0] == session.history[0]


@pytest.mark.parametrize("text", ["[" * 3000, "> " * 3000, "- " * 3000, "*a_" * 3000, "`" * 3000])
@pytest.mark.parametrize("format", ["markdown", "html"])
async def test_markup_that_never_ends_can_be_written(format, text):
    session = AgentSession.new("coder")
    session.add_message(Message.assistant(f"<b>{text} end"))
    assert " end" in await written(session, format)


async def test_what_is_added_meanwhile_is_not_written():
    session = AgentSession.new("coder")
    session.add_message(Message.user("before"))
    pieces = []

    def write(piece):
        if not pieces:
            trio.from_thread.run_sync(session.add_message, Message.user("after"))
        pieces.append(piece)

    await export_session(session, write, "json")
    assert len(json.loads("".join(pieces))["messages"]) == 1


async def test_a_cancel_ends_it_between_two_pieces():
    session = AgentSession.new("coder")
    for _ in range(1000):
        session.add_message(Message.user("hello"))
    pieces = []
    with trio.CancelScope() as scope:

        def write(piece):
            pieces.append(piece)
            trio.from_thread.run_sync(scope.cancel)

        await export_session(session, write)
    assert scope.cancelled_caught
    assert len(pieces) == 1


async def test_an_error_of_whoever_takes_the_pieces_comes_back():
    def refuse(piece):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await export_session(AgentSession.new("coder"), refuse)


async def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="'pdf' is not a format; use one of"):
        await export_session(AgentSession.new("coder"), print, "pdf")


@pytest.mark.parametrize("format", ["markdown", "html"])
async def test_subagents_are_in_it_each_once_and_missing_ones_are_named(format, caplog):
    store = InMemoryStore()
    await saved("left", "below", store=store, parent="top")
    await saved("right", "below", "top", store=store, parent="top")
    await saved("below", "left", store=store, parent="left")
    top = await saved("top", "left", "right", "gone", store=store)
    with caplog.at_level(logging.WARNING):
        page = await written(top, format)
    for name in ("top", "left", "right", "below"):
        assert page.count(f"I am {name}") == 1
    assert "gone" in page
    assert "session gone is left out of the export" in caplog.text


async def test_subagents_are_followed_only_so_far_down():
    store = InMemoryStore()
    for depth in range(20):
        parent = f"s{depth - 1}" if depth else None
        await saved(f"s{depth}", f"s{depth + 1}", store=store, parent=parent)
    page = await written(await AgentSession.load("s0", store=store))
    assert "I am s8" in page
    assert "I am s9" not in page
    assert "- Subagents not in here: `s9`" in page


async def test_only_so_many_subagents_are_in_a_page_and_the_others_are_named(monkeypatch):
    monkeypatch.setattr(exporter, "_MOST", 3)
    store = InMemoryStore()
    for name in "abcd":
        await saved(name, store=store, parent="top")
    page = await written(await saved("top", *"abcd", store=store))
    assert [f"I am {name}" in page for name in "abcd"] == [True, True, False, False]
    assert "- Subagents not in here: `c, d`" in page


@pytest.mark.parametrize("format", ["markdown", "html"])
async def test_a_session_that_was_not_started_here_is_in_no_page(format):
    store = InMemoryStore()
    await saved("private", store=store)
    hostile = await written(await saved("top", "private", store=InMemoryStore()), "json")
    imported = await import_session(hostile, store=store)
    page = await written(imported, format)
    assert "I am top" in page
    assert "I am private" not in page


async def test_json_is_about_one_session_and_names_the_others():
    store = InMemoryStore()
    await saved("child", store=store, parent="top")
    text = await written(await saved("top", "child", store=store), "json")
    assert json.loads(text)["session"]["child_session_ids"] == ["child"]
    assert "I am child" not in text


async def test_a_stored_session_survives_the_way_out_and_in(store):
    session = AgentSession.new("coder", store=store)
    for message in EVERYTHING[:5]:
        session.add_message(message)
    await session.save()
    again = await import_session(await written(session, "json"), store=store)
    assert again.history == session.history
    assert (await AgentSession.load(again.session_id, store=store)).history == session.history
