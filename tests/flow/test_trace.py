"""Traces of subtasks that were cut off, by their sessions."""

import pytest

from greenroom import AgentSession, FileStore, InMemoryStore, Message, ToolResultBlock, ToolUseBlock
from greenroom.core import StopReason, TextBlock
from greenroom.flow.resume import find_trace, trace_call, trace_worker

CALL = ToolUseBlock("t1", "book", {})
ASKED = Message.user("Book it.")
CALLED = Message.assistant([CALL])


def said(text, reason=StopReason.END_TURN):
    return Message("assistant", (TextBlock(text),), model="m", stop_reason=reason)


def answered(text, is_error=False):
    return Message.user([ToolResultBlock("t1", (TextBlock(text),), is_error)])


def session(*messages, started=False, model="m"):
    made = AgentSession.new("subtask")
    for message in messages:
        made.add_message(message)
    if started:
        made.mark_tools_started(["t1"])
    made.conversation.pair_tool_uses()
    made.set_model("scripted" if model else "", model)
    return made


@pytest.mark.parametrize(
    ("found", "kind", "what"),
    [
        (session(), "nothing", None),
        (session(ASKED), "nothing", None),
        (session(ASKED, CALLED), "nothing", None),
        (session(ASKED, CALLED, started=True), "unsure", "the call of book had started"),
        (session(ASKED, CALLED, answered('{"id": 7}')), "result", {"id": 7}),
        (session(ASKED, CALLED, answered("no rooms", is_error=True)), "result", "no rooms"),
    ],
)
def test_a_call(found, kind, what):
    trace = trace_call(found)
    assert trace.kind == kind
    assert (trace.result or trace.error or trace.doubt or None) == what


@pytest.mark.parametrize(
    ("found", "kind", "what"),
    [
        (session(ASKED), "nothing", None),
        (session(ASKED, model=""), "unsure", "its agent had begun"),
        (session(ASKED, CALLED), "nothing", None),
        (session(ASKED, CALLED, started=True), "unsure", "the call of book had started"),
        (session(ASKED, CALLED, answered("booked")), "nothing", None),
        (session(ASKED, CALLED, answered("booked"), said("It is.")), "result", "It is."),
        (session(ASKED, said("It", StopReason.INTERRUPTED)), "nothing", None),
        (session(ASKED, said("It", StopReason.PAUSE)), "nothing", None),
        (session(ASKED, said("It is."), Message.user("Answer again.")), "nothing", None),
    ],
)
def test_an_agent(found, kind, what):
    trace = trace_worker(found)
    assert trace.kind == kind
    assert (trace.result or trace.doubt or None) == what
    assert trace.session is found


def parent(id_, store):
    return AgentSession.new("plan", session_id=id_, store=store)


async def test_what_was_never_stored_and_what_belongs_to_another():
    store = InMemoryStore()
    assert (await find_trace("s-none", parent("s-plan", store), trace_call)).kind == "nothing"
    assert (await find_trace("s-none", parent("s-plan", store), trace_worker)).kind == "unsure"
    stored = AgentSession.new_subagent("subtask", "s-other", session_id="s-1", store=store)
    stored.add_message(ASKED)
    await stored.save()
    assert (await find_trace("s-1", parent("s-other", store), trace_call)).kind == "nothing"
    assert (await find_trace("s-1", parent("s-plan", store), trace_call)).kind == "unsure"


async def test_a_damaged_session_is_a_doubt(tmp_path):
    store = FileStore(tmp_path)
    stored = AgentSession.new_subagent("subtask", "s-plan", session_id="s-1", store=store)
    for message in (ASKED, CALLED):
        stored.add_message(message)
        await stored.save()
    for path in tmp_path.rglob("*.jsonl"):
        first, *others = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([first, b"{damaged}\n", *others]))
    trace = await find_trace("s-1", parent("s-plan", store), trace_call)
    assert (trace.kind, trace.doubt) == ("unsure", "its session is damaged")
