import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ToolError, Workspace, WritePath
from greenroom.fs import real_file
from greenroom.fs._internal import find_mark
from greenroom.tools import Edit, Read, ToolRegistry
from greenroom.tools.builtin import edit as edit_module, edit as text_diff
from greenroom.tools.builtin.edit import unified_diff
from greenroom.tools.builtin.text_content import Replacement, TextContent


@pytest.fixture
def edit(call, root: Path):
    """Write a file, read it, edit it; return its bytes after that, and the result."""

    def run(data: bytes, old: str, new: str, **options: object):
        (root / "a.txt").write_bytes(data)
        call(Read(), file_path="a.txt")
        result = call(Edit(), file_path="a.txt", old_string=old, new_string=new, **options)
        return (root / "a.txt").read_bytes(), result

    return run


def test_a_unique_text_is_replaced_and_the_diff_returned(edit) -> None:
    data, result = edit(b"one\ntwo\nthree\n", "two", "2")
    assert data == b"one\n2\nthree\n"
    assert "-two\n+2" in result.text
    assert result.metadata["diff"] in result.text
    assert result.metadata["replacements"] == 1


def test_an_empty_new_text_deletes(edit) -> None:
    assert edit(b"one\ntwo\n", "two\n", "")[0] == b"one\n"


def test_a_text_that_is_not_unique_is_refused_with_its_lines(edit) -> None:
    with pytest.raises(ToolError, match=r"occurs 3 times in a\.txt, at the lines 1, 3, 4 "):
        edit(b"x\ny\nx\nx\n", "x", "z")
    with pytest.raises(ToolError, match=r"11 times .*10, …"):
        edit(b"x\n" * 11, "x", "z")


def test_every_place_is_replaced_on_demand(edit) -> None:
    data, result = edit(b"x\ny\nx\n", "x", r"\1", replace_all=True)
    assert data == b"\\1\ny\n\\1\n"
    assert result.metadata["replacements"] == 2


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("    return  1", "line 2 is similar: '    return 1'"),
        ("return 1\nelse", "line 2 is with other white space or following lines"),
        ("     2\t    return 1", "leave out the line numbers"),
        ("zzzzzzzzzzzz", "read the file again"),
        (" \n\n\n", "read the file again"),
    ],
)
def test_a_text_that_is_not_there_gets_a_hint(edit, old: str, hint: str) -> None:
    with pytest.raises(ToolError, match=r"not in a\.txt") as caught:
        edit(b"def f():\n    return 1\n", old, "x")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message"), [("", "x", "is empty"), ("a", "a", "are the same")]
)
def test_a_change_that_is_none_is_refused(edit, old: str, new: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        edit(b"a\n", old, new)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "1\r\n2", b"1\r\n2\r\nc\r\n"),
        (b"a\nb\r\nc\r\nd\r\n", "a\nb\nc", "x\ny", b"x\r\ny\r\nd\r\n"),
        (b"a\nb\nc\r\n", "a\nb\nc", "x\ny", b"x\ny\r\n"),
        (b"a\rb\n", "a\rb", "c", b"c\n"),
        (b"\xef\xbb\xbfone\n", "one", "two", b"\xef\xbb\xbftwo\n"),
        ("\ufeffgrün\r\n".encode("utf-16-le"), "grün", "🌱", "\ufeff🌱\r\n".encode("utf-16-le")),
        ("\ufeffa\n".encode("utf-16-be"), "a", "b", "\ufeffb\n".encode("utf-16-be")),
        (b"caf\xe9 \xff\n", "caf", "th", b"th\xe9 \xff\n"),
        (b"caf\xc3\xa9 \xff\n", "caf", "th", "thé ".encode() + b"\xff\n"),
        ("\ufeffa é\n".encode("utf-32-le"), "a", "🌱", "\ufeff🌱 é\n".encode("utf-32-le")),
        ("\ufeffa é\n".encode("gb18030"), "a é", "漏", "\ufeff漏\n".encode("gb18030")),
        (b"a\rb\rc", "a\nb", "x\ny\nz", b"x\ry\rz\rc"),
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n"),
        (b"a\nb\nc\r\nd\r\ne\r\n", "a\nb\nc", "a\nx\nb\nc", b"a\nx\r\nb\nc\r\nd\r\ne\r\n"),
        (b"no end", "end", "line end", b"no line end"),
    ],
)
def test_line_ends_marks_and_encodings_are_kept(
    edit, before: bytes, old: str, new: str, after: bytes
) -> None:
    assert edit(before, old, new)[0] == after


@pytest.mark.parametrize(
    ("data", "new", "message"),
    [
        (b"a caf\xe9\n", "🌱", "not in UTF-8, .* only ASCII can be changed; new_string has '🌱'"),
        (b"a\n", "\ud800", "can't hold"),
    ],
)
def test_what_the_encoding_can_not_hold_is_refused(
    edit, root: Path, data: bytes, new: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        edit(data, "a", new)
    assert (root / "a.txt").read_bytes() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\0b", "binary"),
        (b"\xff\xfea", "begins as UTF-16"),
        (b"\xff\xfe\0\0a\0\0\0b", "begins as UTF-32"),
        ("x=1\n".encode("cp037"), "unknown encoding"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        TextContent.decode(data)


def test_a_file_must_have_been_read_and_not_changed(call, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    change = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    with pytest.raises(ToolError, match="not read yet"):
        call(Edit(), **change)
    call(Read(), file_path="a.txt")
    (root / "a.txt").write_text("one!\n")
    with pytest.raises(ToolError, match="has changed since it was read"):
        call(Edit(), **change)
    with pytest.raises(ToolError, match=r"no file b\.txt"):
        call(Edit(), **{**change, "file_path": "b.txt"})
    with pytest.raises(ToolError, match="is a folder"):
        call(Edit(), **{**change, "file_path": "."})


def test_a_file_beyond_the_limit_is_refused(call, root: Path, monkeypatch) -> None:
    monkeypatch.setattr(edit_module, "_MAX_BYTES", 3)
    (root / "a.txt").write_text("four")
    call(Read(), file_path="a.txt")
    with pytest.raises(ToolError, match="4 bytes, 3 is the limit"):
        call(Edit(), file_path="a.txt", old_string="four", new_string="five")


def test_mode_and_link_are_kept(call, root: Path) -> None:
    (root / "real.sh").write_text("one\n")
    (root / "real.sh").chmod(0o750)
    (root / "link.sh").symlink_to("real.sh")
    call(Read(), file_path="link.sh")
    call(Edit(), file_path="link.sh", old_string="one", new_string="two")
    assert (root / "link.sh").is_symlink()
    assert (root / "real.sh").read_text() == "two\n"
    assert stat.S_IMODE((root / "real.sh").stat().st_mode) == 0o750
    assert sorted(os.listdir(root)) == ["link.sh", "real.sh"]


def test_many_edits_of_one_file_at_once_lose_none(call, context: AgentContext, root: Path) -> None:
    names = [f"name{n:02}" for n in range(20)]
    (root / "a.txt").write_text("\n".join(names))
    call(Read(), file_path="a.txt")

    async def edit_all() -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                change = {"file_path": "a.txt", "old_string": name, "new_string": name.upper()}
                nursery.start_soon(Edit().execute, change, context)

    trio.run(edit_all)
    assert (root / "a.txt").read_text() == "\n".join(names).upper()


def test_two_agents_that_edit_one_file_at_once_lose_nothing(root: Path) -> None:
    # Each agent in an event loop of its own: no lock of an agent or a loop can keep them apart.
    def agent() -> AgentContext:
        return AgentContext(session_id="s", agent_type="t", workspace=Workspace(root))

    async def edit(old: str, context: AgentContext) -> bool:
        data = {"file_path": "a.txt", "old_string": f"{old}=0", "new_string": f"{old}=1"}
        registry = ToolRegistry([Edit()])
        return not (await registry.execute("Edit", data, context)).is_error

    for _ in range(10):
        (root / "a.txt").write_text("A=0\n" + "x\n" * 20_000 + "B=0\n")
        first, second = agent(), agent()
        for context in (first, second):
            trio.run(Read().execute, {"file_path": "a.txt", "limit": 1}, context)
        with ThreadPoolExecutor(2) as threads:
            edited = list(threads.map(partial(trio.run, edit), ("A", "B"), (first, second)))
        assert any(edited)
        text = (root / "a.txt").read_text()
        assert [f"{name}=1" in text for name in "AB"] == edited


def test_a_change_in_the_very_last_moment_is_seen(call, root: Path, monkeypatch) -> None:
    (root / "a.txt").write_text("one\n")
    call(Read(), file_path="a.txt")

    def interfere(*_: object) -> None:
        (root / "a.txt").write_text("theirs\n")

    monkeypatch.setattr(real_file.os, "fsync", interfere)
    with pytest.raises(ToolError, match="has changed since it was read"):
        call(Edit(), file_path="a.txt", old_string="one", new_string="two")
    assert (root / "a.txt").read_text() == "theirs\n"
    assert os.listdir(root) == ["a.txt"]


def test_a_prompt_shows_the_change_and_rules_see_the_path(
    context: AgentContext, root: Path
) -> None:
    change = {"file_path": "a.txt", "old_string": "one", "new_string": "two", "replace_all": True}
    info = Edit().info(change)
    assert info.details == "a.txt (every occurrence)"
    assert "-one" in info.diff
    assert "+two" in info.diff
    assert Edit().effects(change, context) == (WritePath("a.txt"),)


def test_a_diff_shows_a_final_newline_that_came_or_went() -> None:
    assert unified_diff("a\nb", "a\nb\n", "f").endswith("newline was added")
    assert unified_diff("a\n", "a", "f").endswith("No newline at the end")
    assert unified_diff("a\n", "a\n", "f") == ""
    assert unified_diff("a", "", "f").endswith("\n-a")


def test_texts_too_large_to_compare_are_not(monkeypatch) -> None:
    assert unified_diff("x" * 300_000, "y" * 300_000, "f") == "f: too large to compare"
    assert unified_diff("\n" * 9_000, "\n" * 9_000, "f") == "f: too many lines to compare"


def patched(text: str, diff: str) -> str:
    """Apply a diff by the numbers of its hunks."""
    old, new, position = text.split("\n"), [], 0
    for line in diff.split("\n")[2:]:
        if header := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line):
            start = int(header[1]) - (header[2] != "0")
            new += old[position:start]
            position = start
        elif line.startswith("+"):
            new.append(line[1:])
        elif line[0] in " -":
            assert old[position] == line[1:]
            new += [line[1:]] if line[0] == " " else []
            position += 1
    return "\n".join([*new, *old[position:]])


TEXT = st.lists(st.sampled_from(["a", "b", "c", "@@", "-"]), max_size=20).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@pytest.mark.parametrize("compared", [12, 1_000])
@given(TEXT, TEXT, TEXT)
def test_a_diff_leads_from_one_text_to_the_other(
    compared: int, both: str, before: str, after: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_diff, "_MAX_COMPARED", compared)
        for one, other in [(both + before, both + after), (before + both, after + both)]:
            diff = unified_diff(one, other, "f")
            assert patched(one, diff) == other
            assert bool(diff) is (one != other)


@pytest.mark.parametrize("lines", [1_000, 4_900])
def test_a_preview_takes_no_time_whatever_the_change(lines: int) -> None:
    old = "\n".join(f"same {n}\nold {n}" for n in range(lines // 2))
    diff = (
        Edit()
        .info({"file_path": "a", "old_string": old, "new_string": old.replace("old", "new")})
        .diff
    )
    assert diff.count("\n-old") == diff.count("\n+new") == lines // 2


def test_a_repetitive_file_takes_no_time_to_search() -> None:
    content = TextContent("0\r\n" * 300_000 + "0\n1\n")
    after, count = Replacement("0\n" * 3_000 + "1", "x\n").apply(content, "f")
    assert (after, count) == ("0\r\n" * 297_001 + "x\r\n\n", 1)


def test_many_places_take_no_time_to_replace() -> None:
    content = TextContent("0\r\n" * 300_000)
    after, count = Replacement("0\n", "1\n", everywhere=True).apply(content, "f")
    assert (after, count) == ("1\r\n" * 300_000, 300_000)


LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["\n", "\r\n"])), max_size=8
)


@given(LINES, LINES, st.lists(st.sampled_from(["x", "y"]), max_size=6))
def test_lines_that_stay_keep_their_ends(
    lines: list[tuple[str, str]], rest: list[tuple[str, str]], new: list[str]
) -> None:
    text = "".join(map("".join, lines))
    content = TextContent(text + "END" + "".join(map("".join, rest)))
    old = "".join(f"{line}\n" for line, _ in lines) + "END"
    # Lines before and after the new ones stay.
    half = len(lines) // 2
    kept = [line for line, _ in lines]
    changed = "\n".join([*kept[:half], *new, *kept[half:], "END"])
    if changed == old:
        return
    after, _ = Replacement(old, changed).apply(content, "f")
    head = "".join(map("".join, lines[:half]))
    tail = "".join(map("".join, lines[half:])) + "END" + "".join(map("".join, rest))
    assert after.startswith(head)
    assert after.endswith(tail)
    assert after.replace("\r\n", "\n") == content.text.replace("\r\n", "\n").replace(old, changed)


@given(st.binary(max_size=60).filter(lambda data: b"\0" not in data))
def test_decoding_and_encoding_gives_each_byte_back(data: bytes) -> None:
    try:
        content = TextContent.decode(data)
    except ToolError:
        assert find_mark(data) or not re.search(rb"[ \n\t]", data)
        return
    assert content.encode(content.text) == data


@given(
    st.lists(st.sampled_from(["a", "b", "é", "🌱", "\n", "\r\n"]), max_size=12).map("".join),
    st.sampled_from(["a", "a\nb", "🌱\n", "é"]),
    st.sampled_from(["", "x", "x\ny"]),
)
def test_only_what_was_found_is_replaced(text: str, old: str, new: str) -> None:
    content = TextContent(text)
    plain = text.replace("\r\n", "\n")
    try:
        after, count = Replacement(old, new, everywhere=True).apply(content, "f")
    except ToolError:
        assert old not in plain
        return
    assert after.replace("\r\n", "\n") == plain.replace(old, new)
    assert count == plain.count(old)
