"""Every text encoding of Python, line end and mark: no change harms what it leaves alone.

`GREENROOM_ENCODINGS=60` makes 60 times as many changes as the usual run.
"""

import codecs
import os
import random
import zlib
from encodings.aliases import aliases
from itertools import product
from pathlib import Path

import pytest

from greenroom.core import ToolError
from greenroom.tools import Edit, Read, Write
from greenroom.tools.builtin.text_content import Replacement, other_readings

ROUNDS = int(os.environ.get("GREENROOM_ENCODINGS", "1"))
SEED = int(os.environ.get("GREENROOM_ENCODINGS_SEED", "1"))
NOT_FOR_FILES = {"mbcs", "oem", "utf_8_sig", "utf_16", "utf_32", "ascii", "rot_13"}
MARKED = {
    "utf_8": codecs.BOM_UTF8,
    "utf_16_le": codecs.BOM_UTF16_LE,
    "utf_16_be": codecs.BOM_UTF16_BE,
    "utf_32_le": codecs.BOM_UTF32_LE,
    "utf_32_be": codecs.BOM_UTF32_BE,
    "gb18030": "\ufeff".encode("gb18030"),
}
FURTHER = ["cp720", "cp737", "cp856", "cp874", "cp875", "cp1006", "koi8_t", "koi8_u"]
ENCODINGS = [
    *sorted(each for each in set(aliases.values()) if not each.endswith("_codec")),
    *FURTHER,
]
ENCODINGS = [each for each in ENCODINGS if each not in NOT_FOR_FILES]
WORDS = [
    "設定",
    "表示",
    "ソ",
    "能",
    "予約",
    "十",
    "構",
    "貼",
    "機",
    "噂",
    "申",
    "値",
    "ﾂｩ",
    "日本語テスト",
    "漏洞",
    "乗",
    "俖",
    "汉字",
    "繁體",
    "許功蓋",
    "誠",
    "乎",
    "乭",
    "똠",
    "뢰",
    "한국어",
    "설정",
    "값",
    "né",
    "señor",
    "Übergröße",
    "æøå",
    "łódź",
    "čšž",
    "şğı",
    "привет",
    "Їжак",
    "ёлка",
    "Ελλάδα",
    "όχι",
    "שלום",
    "سلام",
    "پارسی",
    "สวัสดี",
    "¥",
    "£",
    "’",
    "“ґ”",
    "αβγ",
    "ქართული",
    "ѓ",
    "ћ",
    "ә",
    "қ",
    "۰۱",
    "ﺁ",
]
ASCII = [
    "x",
    "1",
    "=",
    "a b",
    " ",
    "key = 1",
    "foo(bar)",
    "/path",
    "\\",
    "~",
    "{",
    "@",
    "[0]",
    "A|",
]
ENDS = ["\n", "\r\n", "\r", "mixed"]


def write_lines(encoding: str, end: str, pick: random.Random) -> str:
    """Make a text that the encoding can hold, of words of many scripts and ASCII."""
    held = []
    for word in WORDS:
        try:
            if word.encode(encoding).decode(encoding) == word:
                held.append(word)
        except UnicodeError:
            continue
    plain = [each for each in ASCII if _holds(encoding, each)]
    lines = []
    for _ in range(pick.randint(1, 6)):
        parts = [pick.choice(plain) if pick.random() < 0.6 or not held else pick.choice(held)]
        parts += [pick.choice(plain + held) for _ in range(pick.randint(0, 5))]
        lines.append("".join(parts))
        lines.append(pick.choice(["\n", "\r\n"]) if end == "mixed" else end)
    if pick.random() < 0.3:
        lines.pop()
    return "".join(lines)


def _holds(encoding: str, text: str) -> bool:
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False


def pick_change(text: str, pick: random.Random) -> tuple[str, str]:
    start = pick.randrange(len(text))
    old = text[start : start + pick.randint(1, 6)]
    if pick.random() < 0.3:  # what a model types, whether it is in the file or not
        old = pick.choice(ASCII)
    new = "".join(pick.choice([*ASCII, *ASCII, *WORDS]) for _ in range(pick.randint(0, 2)))
    if pick.random() < 0.4:
        new += pick.choice(ASCII) + old
    return old, new


def plain(text: str, newline: str) -> str:
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if newline == "\r" else text


def is_taken_for_utf8(text: str, data: bytes, encoding: str) -> bool:
    """Whether a file in another encoding is valid UTF-8, so nobody can tell."""
    if encoding == "utf_8" or (data.isascii() and not text.isascii()):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def check(encoding: str, end: str, mark: bytes, pick: random.Random) -> bool | None:
    """Try one change; return whether it was made, or None if the file is taken for UTF-8."""
    text = write_lines(encoding, end, pick)
    data = mark + text.encode(encoding)
    old, new = pick_change(text, pick)
    if not mark and is_taken_for_utf8(text, data, encoding):
        return None
    try:
        content, changed, count = Replacement(old, new, everywhere=True).change(data, "f")
        after = content.encode(changed)
    except ToolError:
        return False
    assert after.startswith(mark)
    decoded = after[len(mark) :].decode(encoding)
    newline = content.newline
    wanted = plain(text, newline).replace(plain(old, newline), plain(new, newline))
    assert plain(decoded, newline) == wanted
    assert count == plain(text, newline).count(plain(old, newline))
    # No byte but those of the change: with the text's own line ends, the encoding says which.
    if not {"\r", "\n"} & {*old, *new}:
        assert after == mark + text.replace(old, new).encode(encoding)
    return True


CASES = [
    (encoding, end, mark)
    for encoding, end in product(ENCODINGS, ENDS)
    for mark in ((b"", MARKED[encoding]) if encoding in MARKED else (b"",))
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_change_is_right_or_refused(encoding: str) -> None:
    made = refused = 0
    for name, end, mark in CASES:
        if name != encoding:
            continue
        pick = random.Random(zlib.crc32(f"{name} {end!r} {mark!r} {SEED}".encode()))
        for _ in range(15 * ROUNDS):
            found = check(name, end, mark, pick)
            made += found is True
            refused += found is False
    print(f"{encoding}: {made} changes made, {refused} refused")
    assert refused
    if encoding in MARKED:
        assert made


@pytest.mark.parametrize(
    ("encoding", "text", "old", "new"),
    [
        ("shift_jis", "設定=値\nx=1\n", "x=1", "x=2"),
        ("gbk", "漏洞 = 1\nx=1\n", "x=1", "x=2"),
        ("latin_1", "señor = 1\n", " = 1", " = 2"),
        ("koi8_r", "привет: yes\n", "yes", "no"),
        ("euc_kr", "설정 = a\n", "= a", "= b"),
    ],
)
def test_what_is_certain_in_an_unknown_encoding_is_changed(
    encoding: str, text: str, old: str, new: str
) -> None:
    content, changed, _ = Replacement(old, new).change(text.encode(encoding), "f")
    assert content.encode(changed) == text.replace(old, new).encode(encoding)


@pytest.mark.parametrize(
    ("data", "old", "new", "message"),
    [
        ("表示\n".encode("shift_jis"), "\\", "/", "may be a part of a character"),
        ("x é = 1\n".encode("latin_1"), "é", "e", "only ASCII can be changed; old_string has 'é'"),
        ("x é = 1\n".encode("latin_1"), "1", "ü", "only ASCII can be changed; new_string has 'ü'"),
        ("x=1 設定\n".encode("iso2022_jp"), "1", "値", "may be in the encoding iso2022_jp_ext"),
        ("x=1 汉字\n".encode("hz"), "x", "汉", "may be in the encoding hz"),
        ("x=1 é\n".encode("utf-7"), "A", "B", "may be in the encoding utf-7"),
        ("x=1\n".encode("cp500"), "x", "y", "unknown encoding"),
        ("x=1\n".encode("utf-16-le"), "x", "y", "binary, or in UTF-16"),
    ],
)
def test_what_is_not_certain_is_refused_with_what_to_do(
    data: bytes, old: str, new: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        Replacement(old, new).change(data, "f")


def test_a_sum_of_names_is_not_taken_for_another_encoding() -> None:
    data = b"total = a+variable\nx = 1\n"  # valid UTF-7
    assert [encoding for encoding, _ in other_readings(data)] in (["utf-7"], [])
    content, changed, _ = Replacement("x = 1", "x = 2").change(data, "f")
    assert content.encode(changed) == b"total = a+variable\nx = 2\n"


FORMER = [
    (b"\xef\xbb\xbfa\r\n", "b\n", b"\xef\xbb\xbfb\r\n", "mark]\n[kept the line ends \\r\\n]"),
    (b"a\r\nb\n", "c\nd\n", b"c\nd\n", "its line ends were mixed; all are \\n now"),
    (b"a\r\nb\r\nc\n", "d\n", b"d\r\n", "its line ends were mixed; all are \\r\\n now"),
    (b"a\nb\n", "c\r\n", b"c\r\n", "its line ends are \\r\\n now"),
    (b"a\rb", "c\nd", b"c\rd", "kept the line ends \\r"),
    ("\ufeffa\n".encode("utf-16-be"), "é", "\ufeffé".encode("utf-16-be"), "encoding utf-16-be"),
    (
        "\ufeffa\n".encode("utf-32-le"),
        "\ufeffé",
        "\ufeffé".encode("utf-32-le"),
        "encoding utf-32-le",
    ),
    (b"a \xe9\n", "b\n", b"b\n", None),
    (b"a \xe9\n", "\xe9\n", b"\xc3\xa9\n", "it was in another encoding; it is UTF-8 now"),
    ("設定".encode("iso2022_jp"), "a", b"a", "it may have been iso2022_jp_ext; it is UTF-8 now"),
    ("a b\n".encode("cp037"), "a b", b"a b", "it was not text in a known encoding"),
    (b"a\n", "b\n", b"b\n", None),
    (b"", "b\n", b"b\n", None),
]


@pytest.mark.parametrize(("former", "content", "after", "note"), FORMER)
def test_a_file_is_written_over_as_it_was_or_the_change_is_said(
    call, root: Path, former: bytes, content: str, after: bytes, note: str | None
) -> None:
    (root / "a.txt").write_bytes(former)
    call(Read(), file_path="a.txt")
    result = call(Write(), file_path="a.txt", content=content)
    assert (root / "a.txt").read_bytes() == after
    assert f"({len(after)} bytes)" in result.text
    assert (note in result.text) if note else ("[" not in result.text)
    # The agent has seen what it wrote.
    if content.strip():
        call(Edit(), file_path="a.txt", old_string=content.strip("\ufeff\r\n")[-1], new_string="z")


def test_a_file_that_can_not_be_read_whole_is_written_all_the_same(
    call, root: Path, monkeypatch
) -> None:
    from greenroom.tools.builtin import edit as module

    (root / "a.txt").write_bytes(b"abc\r\n")
    call(Read(), file_path="a.txt")
    monkeypatch.setattr(module, "_MAX_BYTES", 3)
    assert "too large to look at" in call(Write(), file_path="a.txt", content="b\n").text
    assert (root / "a.txt").read_bytes() == b"b\n"
