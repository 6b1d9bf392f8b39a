import base64
import os
import socket
import tracemalloc
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, DocumentBlock, ImageBlock, ReadPath, ToolError
from greenroom.tools import Read
from greenroom.tools.builtin.read import NumberedLines
from tests.tools import media


def lines_of(text: str) -> list[str]:
    return [line.split("\t", 1)[1] for line in text.split("\n") if "\t" in line]


def test_lines_come_with_their_numbers(call, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n\nfour")
    result = call(Read(), file_path="a.txt")
    assert result.text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    assert result.metadata == {"path": "a.txt", "bytes": 13, "lines": 4}


def test_a_part_says_how_to_go_on(call, root: Path) -> None:
    (root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    text = call(Read(), file_path=str(root / "a.txt"), offset=10, limit=2).text
    assert text.startswith("    10\tline 10\n    11\tline 11\n[")
    assert "continue with offset=12" in text
    assert "continue" not in call(Read(), file_path="a.txt", offset=99, limit=2).text


def test_a_file_shows_2000_lines_at_the_most(call, root: Path) -> None:
    (root / "a.txt").write_text("x\n" * 2_001)
    result = call(Read(), file_path="a.txt")
    assert result.metadata["lines"] == 2_000
    assert "offset=2001" in result.text


def test_what_is_shown_fits_into_one_result(call, root: Path) -> None:
    (root / "a.txt").write_text(("x" * 99 + "\n") * 240 + ("y" * 5_000 + "\n") * 9)
    result = call(Read(), file_path="a.txt")
    assert len(result.text) < 30_000
    assert f"continue with offset={result.metadata['lines'] + 1}" in result.text


def test_an_offset_behind_the_end_says_how_many_lines_there_are(call, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n")
    assert call(Read(), file_path="a.txt", offset=9).text == (
        "[the file has only 2 lines; its size is 8 bytes]"
    )


def test_an_empty_file_says_so(call, root: Path) -> None:
    (root / "a.txt").touch()
    assert call(Read(), file_path="a.txt").text == "[the file is empty]"


def test_a_long_line_is_clipped_with_a_note(call, root: Path) -> None:
    (root / "a.txt").write_text("🌱" * 200_000 + "\nnext\n")
    text = call(Read(), file_path="a.txt").text
    assert "🌱 … [198000 more characters in this line]\n" in text
    assert text.endswith("     2\tnext")


@pytest.mark.parametrize("length", range(1_996, 2_005))
def test_no_character_is_split_where_a_line_is_clipped(call, root: Path, length: int) -> None:
    (root / "a.txt").write_text("x" * (length - 3) + "🌱🌱🌱\nnext\n")
    first, second = call(Read(), file_path="a.txt").text.split("\n")
    assert "\ufffd" not in first
    assert second.endswith("next")
    assert first.count("🌱") == min(3, max(0, 2_000 - (length - 3)))


def test_windows_line_ends_and_marks_do_not_show(call, root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert lines_of(call(Read(), file_path="a.txt").text) == ["one", "two"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_with_its_mark_is_text(call, root: Path, encoding: str) -> None:
    (root / "a.txt").write_bytes("\ufeffgrün\r\n🌱\n".encode(encoding))
    assert lines_of(call(Read(), file_path="a.txt").text) == ["grün", "🌱"]


def test_stray_bytes_are_shown_replaced_with_a_note(call, root: Path) -> None:
    (root / "a.txt").write_bytes(b"caf\xe9\nplain\n")
    text = call(Read(), file_path="a.txt").text
    assert lines_of(text) == ["caf\ufffd", "plain"]
    assert "not UTF-8" in text
    assert "not UTF-8" not in call(Read(), file_path="a.txt", offset=2).text


@pytest.mark.parametrize(
    ("make", "media_type"),
    [
        (media.png, "image/png"),
        (media.jpeg, "image/jpeg"),
        (media.gif, "image/gif"),
        (media.webp_lossy, "image/webp"),
    ],
)
def test_an_image_comes_as_an_image(call, root: Path, make, media_type: str) -> None:
    (root / "picture").write_bytes(make())
    (block,) = call(Read(), file_path="picture").content
    assert block == ImageBlock(media_type, base64.b64encode(make()).decode())


def test_a_pdf_comes_as_a_document(call, root: Path) -> None:
    (root / "paper.pdf").write_bytes(media.PDF)
    (block,) = call(Read(), file_path="paper.pdf").content
    assert isinstance(block, DocumentBlock)
    assert (block.media_type, block.title) == ("application/pdf", "paper.pdf")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x89PNG\r\n\x1a\nbroken", "is broken"),
        (b"%PDF-1.7\n", "is broken"),
        (media.png(9000, 1), "9000 by 1 pixels"),
    ],
)
def test_what_a_provider_would_refuse_is_not_shown(call, root: Path, data, fault) -> None:
    (root / "file").write_bytes(data)
    with pytest.raises(ToolError, match=f"file can't be shown: it .*{fault.removeprefix('is ')}"):
        call(Read(), file_path="file")


def test_an_image_that_is_too_large_is_refused(call, root: Path) -> None:
    with (root / "big.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(4_000_000)
    with pytest.raises(ToolError, match="4000000 bytes, too many"):
        call(Read(), file_path="big.png")


def test_a_binary_file_is_refused(call, root: Path) -> None:
    (root / "a.bin").write_bytes(b"\x7fELF\0\1")
    with pytest.raises(ToolError, match=r"a\.bin is a binary file of 6 bytes"):
        call(Read(), file_path="a.bin")


def test_a_missing_file_suggests_near_names(call, root: Path) -> None:
    (root / "config.toml").touch()
    (root / "README.md").touch()
    for wanted, near in [("config.yaml", "config.toml"), ("readme.md", "README.md")]:
        with pytest.raises(ToolError, match=f"did you mean {near}"):
            call(Read(), file_path=wanted)
    with pytest.raises(ToolError, match=r"no file zzz$"):
        call(Read(), file_path="zzz")
    with pytest.raises(ToolError, match="no folder"):
        call(Read(), file_path="missing/a.txt")


def test_a_folder_says_so(call, root: Path) -> None:
    (root / "sub").mkdir()
    with pytest.raises(ToolError, match="sub is a folder"):
        call(Read(), file_path="sub")


def test_a_pipe_and_a_socket_block_nobody(call, root: Path, monkeypatch) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        call(Read(), file_path="pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(ToolError, match="can't read socket"):
            call(Read(), file_path="socket")


def test_of_a_huge_file_only_what_is_asked_for_is_read(call, root: Path) -> None:
    with (root / "huge.txt").open("wb") as file:
        file.write(b"first\n")
        for _ in range(100):
            file.write(b"x" * 1_000_000 + b"\n")
    size = (root / "huge.txt").stat().st_size
    tracemalloc.start()
    text = call(Read(), file_path="huge.txt", limit=1).text
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text.startswith("     1\tfirst\n")
    assert f"a file of {size} bytes" in text
    assert peak < 5_000_000


@pytest.mark.parametrize("query", [{}, {"offset": 3}])
async def test_a_cancel_ends_the_reading_of_an_endless_line(
    context: AgentContext, root: Path, query: dict[str, object]
) -> None:
    (root / "sparse").write_text("x" * 9_000)
    os.truncate(root / "sparse", 1 << 40)
    with trio.fail_after(60), trio.move_on_after(0.2) as scope:
        await Read().execute({"file_path": "sparse", **query}, context)
    assert scope.cancelled_caught


def test_rules_see_the_path(context: AgentContext) -> None:
    assert Read().effects({"file_path": "a.txt"}, context) == (ReadPath("a.txt"),)
    assert Read().info({"file_path": "a.txt"}).details == "a.txt"


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_a_part_is_those_lines_whatever_the_text(lines: list[str], first: int, count: int) -> None:
    import io

    numbered = NumberedLines(first, count)
    text = io.StringIO("".join(f"{line}\n" for line in lines), newline="\n")
    numbered.read(text, lambda: None)
    wanted = lines[first - 1 : first - 1 + count]
    assert numbered.line_count == len(wanted)
    shown = numbered.text(size=1).split("\n")[: len(wanted)]
    assert shown == [f"{first + n:>6}\t{line}" for n, line in enumerate(wanted)]
