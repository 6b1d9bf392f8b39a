"""Cutting long results: bounded, on character borders, and nothing lost without a word."""

import errno
import gc
import os
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, TextBlock, ToolResult
from greenroom.tools import execution
from greenroom.tools.execution import SpillFolder, cut_text


def make_context(folder=""):
    return AgentContext(session_id="s-1", agent_type="test", spill_folder=str(folder))


@given(st.lists(st.text(max_size=400), max_size=5))
def test_a_capped_text_is_never_longer_than_the_limit(texts):
    result = ToolResult(tuple(map(TextBlock, texts)))
    context = make_context()
    cut = trio.run(cut_text, result, "Do", context, 500)
    assert len(cut.text) <= 500
    if len(result.text) <= 500:
        assert cut is result
    else:
        assert cut.text.startswith(result.text[:100])
        assert cut.text.endswith(result.text[-50:])


async def test_without_a_folder_a_temporary_one_is_used_and_removed_with_the_context():
    context = make_context()
    first = await cut_text(ToolResult.ok("x" * 1_000), "Do", context, 500)
    second = await cut_text(ToolResult.ok("y" * 1_000), "Do", context, 500)
    folder = context.resources.get(SpillFolder).path
    assert len(list(folder.iterdir())) == 2
    assert first.metadata["spill_file"] != second.metadata["spill_file"]
    context.resources.get(SpillFolder).close()
    assert not folder.exists()


async def test_results_cut_side_by_side_share_one_temporary_folder():
    context = make_context()
    async with trio.open_nursery() as nursery:
        for letter in "abcd":
            nursery.start_soon(cut_text, ToolResult.ok(letter * 1_000), "Do", context, 500)
    files = list(context.resources.get(SpillFolder).path.iterdir())
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_a_forgotten_temporary_folder_goes_with_its_owner():
    context = make_context()
    await cut_text(ToolResult.ok("x" * 1_000), "Do", context, 500)
    folder = context.resources.get(SpillFolder).path
    del context
    gc.collect()
    assert not folder.exists()


async def test_a_folder_that_can_not_be_written_leaves_the_text_cut(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    result = await cut_text(ToolResult.ok("x" * 1_000), "Do", make_context(blocked), 500)
    assert len(result.text) <= 500
    assert "could not be kept" in result.text
    assert "spill_file" not in result.metadata
    assert "could not be kept" in caplog.text


async def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "output").symlink_to("elsewhere")
    result = await cut_text(
        ToolResult.ok("x" * 1_000), "Do", make_context(tmp_path / "output"), 500
    )
    assert "could not be kept in a file: the folder for it is a link" in result.text
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_what_a_file_keeps_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "MAX_FILE", 2_000)
    result = await cut_text(ToolResult.ok("x" * 5_000), "Do", make_context(tmp_path), 500)
    (kept,) = tmp_path.iterdir()
    assert len(kept.read_text()) <= 2_000
    assert "more of its head and tail is in" in result.text


async def test_a_file_that_could_not_be_written_whole_is_not_left(tmp_path, monkeypatch, caplog):
    def full(path, data):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    result = await cut_text(ToolResult.ok("x" * 1_000), "Do", make_context(tmp_path), 500)
    assert "could not be kept in a file: No space left on device" in result.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("bound", "value"), [("MAX_FILES", 3), ("MAX_BYTES", 3_500)])
async def test_of_many_files_the_oldest_go(tmp_path, monkeypatch, bound, value):
    monkeypatch.setattr(execution, bound, value)
    (tmp_path / "notes.txt").write_text("not ours")
    paths = []
    for age in (5, 4, 3, 2, 1):
        result = await cut_text(ToolResult.ok("x" * 1_000), "Do", make_context(tmp_path), 500)
        paths.append(Path(result.metadata["spill_file"]))
        os.utime(paths[-1], (1_000_000 - age, 1_000_000 - age))
    assert sorted(tmp_path.iterdir()) == sorted([*paths[-3:], tmp_path / "notes.txt"])


@pytest.mark.parametrize("text", ["😀" * 600, "e\u0301" * 600])
async def test_no_character_is_split(tmp_path, text):
    result = await cut_text(ToolResult.ok(text), "Do", make_context(tmp_path), 500)
    result.text.encode()
    assert "\ufffd" not in result.text
