"""How much a session syncs: every save, those at the end of a turn, or none."""

import os

import pytest

from greenroom.core import Message
from greenroom.fs._internal import durable
from greenroom.session import AgentSession, FileStore


@pytest.fixture
def synced(monkeypatch):
    """The number of times that the history was synced; the description is not counted."""
    calls, real = [], durable.append

    def append(fd, data, at, *, flush=True):
        calls.append(flush)
        real(fd, data, at, flush=flush)

    monkeypatch.setattr(durable, "append", append)
    return calls


async def play(session, conversation):
    """Go through a turn as an agent does: ask, call, result, answer."""
    await session.open()
    user, call, result, answer = conversation
    session.add_message(user)
    session.add_message(call)
    session.mark_tools_started(["t1"])
    await session.save()
    session.add_message(result)
    await session.save(flush=False)
    session.add_message(answer)
    await session.save()
    await session.close()


@pytest.mark.parametrize(
    ("durability", "wanted"),
    [
        # The sync of the answer covers the results before it.
        ("step", [True, False, True]),
        ("turn", [False, False, True, True]),
        ("none", [False, False, False]),
    ],
)
async def test_a_session_is_synced_as_often_as_it_asks(
    files, conversation, synced, durability, wanted
):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.durability = durability
    await play(session, conversation)
    assert synced == wanted
    assert session.is_saved
    assert session.durability == durability
    assert (await AgentSession.load("mine", store=files)).history == conversation


async def test_a_sync_covers_one_line_before_it_and_more_get_one_of_their_own(files, synced):
    session = AgentSession.new("coder", session_id="mine", store=files)
    await session.open()
    for number in range(6):
        session.add_message(Message.user(str(number)))
        await session.save(flush=number in (0, 2, 5))
    await session.close()
    assert synced == [True, False, True, False, False, True, True]
    assert len((await AgentSession.load("mine", store=files)).history) == 6


async def test_every_step_is_the_default_and_a_fork_takes_the_choice_over(files, conversation):
    session = AgentSession.new("coder", store=files)
    assert session.durability == "step"
    session.durability = "none"
    await play(session, conversation)
    assert (await session.fork()).durability == "none"


def test_a_choice_that_is_none_is_refused(tmp_path):
    session = AgentSession.new("coder", store=FileStore(tmp_path))
    with pytest.raises(ValueError, match="'often' is not a durability"):
        session.durability = "often"
    assert session.durability == "step"


def test_a_folder_that_somebody_else_makes_at_the_same_time_is_made(monkeypatch, tmp_path):
    mkdir, tried = os.mkdir, []

    def slow_mkdir(path, mode):
        tried.append(path)
        if tried.count(path) == 2:  # its parents are there now
            mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", slow_mkdir)
    durable.make_folder(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
