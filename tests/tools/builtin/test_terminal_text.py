import random

import pytest
from hypothesis import given, strategies as st

from greenroom.tools.builtin.terminal_text import MAX_COLUMNS, MAX_ROWS, TerminalText

SHOWN = [
    ("a\nb\n", "a\nb\n"),
    (" 10%\r 50%\r100%\n", "100%\n"),
    ("Downloading 10%\rdone\n", "doneloading 10%\n"),
    ("Downloading 10%\r\x1b[Kdone\n", "done\n"),
    ("working |\b/\b-\b \b\n", "working\n"),
    ("spin\r    \rok\n", "ok\n"),
    ("dos\r\nlines\r\n", "dos\nlines\n"),
    ("\x1b[1;31mred\x1b[0m \x1b[2K\x1b[1Gx", "x"),
    ("a: 1\nb: 1\n\x1b[2Aa: 2\nb: 2\n", "a: 2\nb: 2\n"),
    ("a: 1\nb: 1\x1b[1Fa: 9\x1b[1E\x1b[2Kb: 9\n", "a: 9\nb: 9\n"),
    ("1\n2\n3\n\x1b[3A\x1b[Jx\n", "x\n"),
    ("ab\x1b[3Cc\x1b[10Gd\x1b[2De", "ab   c  ed"),
    ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "alink\n"),
    ("\x1bPq#0;2;0\n0~~\x1b\\picture\n", "picture\n"),
    ("\x1b]0;never ends\nnext\n", "\nnext\n"),
    ("\x1b(B\x1b=\x1b[?25l\x1b[?2004hx\x1b7\x1b8\n", "x\n"),
    ("a\x1b[31", "a"),
    ("\x1b[é", "[é"),
    ("bell\a del\x7f nul\0\n", "bell del nul\ufffd\n"),
    ("first\n\x1b[2J\x1b[Hframe 1\n\x1b[H\x1b[2Jframe 2\n", "first\nframe 2\n"),
    ("\x1b[2;3Hx\x1b[1;1Hy", "y\n  x"),
    ("tab\tkept\n", "tab\tkept\n"),
    ("下载 10%\rDone 10%\n", "Done 10%\n"),
    ("\u4e0b\u8f7dx\r1\n", "1 \u8f7dx\n"),
    ("\u4e0b\u8f7dx\r\x1b[C12\n", " 12 x\n"),
    ("ab\r\uff21\n", "\uff21\n"),
    ("10 of 20\r\x1b[3P\x1b[3C5\n", "of 50\n"),
    ("abcdef\r\x1b[2X\n", "  cdef\n"),
    ("abc\r\x1b[@x\n", "xabc\n"),
    ("abc\x1b[9P\x1b[9@\n", "abc\n"),
]


@pytest.mark.parametrize(("output", "text"), SHOWN)
def test_the_last_frame_of_each_line_is_kept(output: str, text: str) -> None:
    screen = TerminalText()
    assert screen.feed(output) + screen.pending == text


LETTERS = [
    "a",
    "bc",
    " ",
    "é",
    "漢字",
    "\n",
    "\r",
    "\b",
    "\t",
    "\0",
    "\a",
    "\x9b",
    "\\",
    "\x1b",
    "\x1b[",
]
CODES = [
    "2A",
    "B",
    "3C",
    "D",
    "E",
    "F",
    "5G",
    "H",
    "3;4H",
    "J",
    "2J",
    "K",
    "1K",
    "2K",
    "31m",
    "P",
    "3@",
    "2X",
]
CODES = [f"\x1b[{code}" for code in [*CODES, "?25l"]]
MORE = ["\x1bM", "\x1bc", "\x1b]", "\x1bP", "\x1b\\"]
LONG = ["x" * (MAX_COLUMNS - 1), "y" * 3 * MAX_COLUMNS, "z\n" * (MAX_ROWS + 3), "\x1b[" + "1" * 300]
OUTPUT = st.lists(st.sampled_from([*LETTERS, *CODES, *MORE, *LONG]), max_size=30).map("".join)


def cut(text: str, seed: int, most: int) -> list[str]:
    pick, pieces, at = random.Random(seed), [], 0
    while at < len(text):
        size = pick.randint(1, most)
        pieces.append(text[at : at + size])
        at += size
    return pieces


@given(OUTPUT, st.integers(), st.sampled_from([1, 3, 50, 5_000]))
def test_the_cuts_of_the_output_do_not_matter(output: str, seed: int, most: int) -> None:
    most = most if len(output) < 2_000 else max(most, 500)
    whole, pieces = TerminalText(), TerminalText()
    final = whole.feed(output)
    parts = "".join(pieces.feed(piece) for piece in cut(output, seed, most))
    assert parts + pieces.pending == final + whole.pending
    assert parts == final
    # What comes later meets the same screen.
    assert pieces.feed("\x1b[9Aend\n") == whole.feed("\x1b[9Aend\n")
    assert pieces.pending == whole.pending


@given(OUTPUT, st.integers(), st.sampled_from([3, 50, 5_000]))
def test_what_is_kept_is_bounded_and_every_line_was_shown(
    output: str, seed: int, most: int
) -> None:
    screen, live, final = TerminalText(), "", ""
    most = most if len(output) < 2_000 else max(most, 500)
    for piece in cut(output, seed, most):
        final += screen.feed(piece)
        live += screen.take_live()
        assert len(screen._rows) <= MAX_ROWS
        assert all(len(row.text) <= 2 * MAX_COLUMNS for row in screen._rows)
        assert len(screen._unfinished) <= 256
    shown = set(live.split("\n"))
    lines = (final + screen.pending).split("\n")
    # If the end of a long line changes, only that is shown again.
    assert {line for line in lines if line and "xx" not in line and "yy" not in line} <= shown
    assert screen.take_live() == ""


def test_a_person_sees_plain_output_as_it_comes_and_each_frame_once() -> None:
    screen = TerminalText()
    seen = []
    for piece in ("Continue? ", "[y/N] ", "\n10%", "\r20%", "\r20%", "\r30%\n", "done\n"):
        screen.feed(piece)
        seen.append(screen.take_live())
    assert seen == ["Continue? ", "[y/N] ", "\n10%", "\n20%", "", "\n30%\n", "done\n"]


def test_a_flood_takes_little_time_and_no_memory() -> None:
    screen, size = TerminalText(), 0
    piece = "line of output\n" * 4_000
    for _ in range(500):  # 30 MB
        size += len(screen.feed(piece))
        screen.take_live()
    assert size + len(screen.pending) == 500 * len(piece)
    assert len(screen._rows) <= MAX_ROWS
