"""Which characters are escaped: what can't be seen, by the data of Unicode."""

import sys
import unicodedata
from collections.abc import Callable

import pytest

from greenroom.core._internal import disguises, exact, legible, lookalikes, visible
from greenroom.core.visibility import list_hidden

EVERYTHING = [chr(each) for each in (*range(0x32000), *range(0x32000, sys.maxunicode + 1, 257))]
"""All that is assigned, and some of the planes above, which are not."""
HARMLESS = {"\t", "\n"}


def is_escaped(character: str, show=visible) -> bool:
    return f"a{character}b" != show(f"a{character}b")


def test_no_control_format_private_or_separating_character_is_shown_as_it_is():
    shown = visible("".join(ch for ch in EVERYTHING if ch not in HARMLESS))
    kinds = {unicodedata.category(ch) for ch in shown}
    assert not kinds & {"Cc", "Cs", "Co", "Zl", "Zp"}
    formats = {ch for ch in shown if unicodedata.category(ch) == "Cf"}
    # Signs that are seen before numbers and the like.
    assert len(formats) < 14
    assert formats <= set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2") | {
        "\U000110bd",
        "\U000110cd",
    }
    left = [ch for ch in shown if unicodedata.category(ch) == "Cn"]
    assert all("\U0001f000" <= ch <= "\U0001faff" or ch >= "\U00020000" for ch in left)
    assert not [ch for ch in left if ord(ch) & 0xFFFE == 0xFFFE]


@pytest.mark.parametrize(
    "character",
    [
        *(
            "\u2800",
            "\ue000",
            "\U000f0000",
            "\U0010fffd",
            "\ufdd0",
            "\uffff",
            "\U0002ffff",
            "\U0010fffe",
        ),
        *("\u3164", "\u115f", "\uffa0", "\u034f", "\u180b", "\U000e0041", "\U000e0100"),
        *("\U0001d159", "\U00013441", "\U00016fe4", "\u0378", "\u2065"),
    ],
)
def test_what_is_blank_private_or_unassigned_is_shown_by_its_code(character):
    for show in (visible, exact):
        assert show(f"a{character}b") == f"a\\u{{{ord(character):x}}}b"
    [warning] = disguises(f"a{character}b")
    assert "would hide" in warning


def test_blanks_of_typography_stay_in_prose_and_are_exact_in_a_command():
    blanks = [ch for ch in EVERYTHING if unicodedata.category(ch) == "Zs" and ch != " "]
    assert len(blanks) > 10
    for ch in blanks:
        assert not is_escaped(ch)
        assert is_escaped(ch, exact)


def test_every_letter_mark_number_and_symbol_stays():
    empty = set(map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)))
    seen = [ch for ch in EVERYTHING if unicodedata.category(ch)[0] in "LMNPS" and ch not in empty]
    kept = set(exact("".join(seen)))
    changed = {ch for ch in seen if ch not in kept}
    selectors = {ch for ch in changed if "VARIATION SELECTOR" in unicodedata.name(ch, "")}
    assert len(changed - selectors) <= 4
    assert "\U0001f600" not in changed


SHAPES = [
    "漢字、（テスト）。",
    "ls ｜ sh ",
    "／",
    "-‐",
    "│\n",
    "\u00a0",
    "\u2800 ",
    "сат ",
    "".join(map(chr, range(0xA0, 0x3000))),
]


def count_calls(look: Callable[[str], object], text: str) -> int:
    """Count the calls of functions that a look at a text takes."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        look(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.every(3)
def test_a_look_takes_work_in_proportion_to_the_length_of_the_text(shape):
    length = 4_000 // len(shape) + 1
    for look in (visible, exact, disguises, lookalikes):
        few, many = (count_calls(look, shape * (length * times)) for times in (1, 4))
        assert many <= 5 * few + 100


def test_prose_keeps_joiners_and_selectors_only_where_they_have_an_effect():
    for text in (
        "⚠\ufe0f",
        "1\ufe0f\u20e3",
        "👨\u200d👩\u200d👧",
        "می\u200cخواهم",
        "क्\u200dष",
        "葛\U000e0100",
    ):
        assert legible(text) == text
    for text in ("pass\u200dword", "a\ufe0fb", "x\U000e0041", "\u200c", "ls\u200b"):
        assert "\ufffd" in legible(text)


def test_in_prose_no_hidden_character_is_left_but_those_and_each_has_one_sign():
    shown = legible("".join(f"a{ch}" for ch in EVERYTHING if ch not in HARMLESS | {"\r"}))
    assert list_hidden(shown) == set()
    assert legible(shown) == shown
    assert legible("\x1b[2J\x7f\r\n") == "␛[2J␡\n"
