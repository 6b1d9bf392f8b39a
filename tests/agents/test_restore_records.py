"""Restoring from records and packs that somebody else has had in hand."""

import builtins
import hashlib

import pytest

from greenroom.agents import FileCheckpoints
from greenroom.core import Message, SessionStorageError
from greenroom.core._internal import Checkpoint, FileChange, FileState
from greenroom.session import AgentSession, FileStore
from greenroom.tools._internal import Packs


def state(content, mode=0o644):
    return FileState("file", mode, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
async def session(tmp_path):
    session = AgentSession.new("coder", store=FileStore(tmp_path / "sessions"))
    session.add_message(Message.user("go"))
    packs = Packs(f"{session.store.folder(session.session_id)}/checkpoints")
    with packs.new_pack() as pack:
        pack.add(state(b"one").digest, b"one")
    return session


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "workspace"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text("two")
        (root / name).chmod(0o644)
    return root


@pytest.mark.parametrize(
    "wanted",
    [state(b"one", 1 << 40), FileState("link", target="a\0b"), FileState("link", target="")],
)
async def test_what_no_system_can_do_fails_for_that_file_alone(session, root, wanted):
    changes = FileChange("a", wanted, state(b"two")), FileChange("b", state(b"one"), state(b"two"))
    session.conversation.add_checkpoint(Checkpoint("c", str(root), (), changes))
    report = await (await FileCheckpoints.plan_restore(session, 0, root)).apply()
    assert report.restored == ("b",)
    assert list(report.failed) == ["a"]
    assert [(root / name).read_text() for name in ("a", "b")] == ["two", "one"]
    assert sorted(each.name for each in root.iterdir()) == ["a", "b"]


async def test_a_pack_that_can_not_be_read_is_an_error_of_the_store(session, root, monkeypatch):
    change = FileChange("a", state(b"one"), state(b"two"))
    session.conversation.add_checkpoint(Checkpoint("c", str(root), (), (change,)))
    real = builtins.open

    def refuse(path, *args, **options):
        if str(path).endswith(".pack"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(builtins, "open", refuse)
    with pytest.raises(SessionStorageError, match=r"000001\.pack"):
        await FileCheckpoints.plan_restore(session, 0, root)
