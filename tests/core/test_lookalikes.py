"""What looks like ASCII and is not: named where it may mislead, in no ordinary text."""

import sys
import unicodedata

import pytest

from greenroom.core._internal import disguises, lookalikes
from greenroom.core.lookalikes import _DASH

EVERYTHING = [chr(each) for each in range(sys.maxunicode + 1)]


def is_variant(character: str) -> bool:
    """Whether it is a fullwidth, small or other form of one mark or digit of ASCII."""
    tag = unicodedata.decomposition(character).partition(" ")[0]
    like = unicodedata.normalize("NFKC", character)
    return (
        not character.isascii()
        and tag not in ("<super>", "<sub>", "<circle>", "<square>")
        and len(like) == 1
        and "!" <= like <= "~"
        and not like.isalpha()
    )


def test_every_form_of_a_mark_or_digit_of_ascii_is_named_wherever_it_is():
    variants = [ch for ch in EVERYTHING if is_variant(ch)]
    assert len(variants) > 100
    for ch in variants:
        for text in (f"ls {ch} sh", f"cat a{ch}txt", f"ls{ch} rm"):
            [warning] = disguises(text)
            assert f"{ch}" in warning
            assert f"(U+{ord(ch):04X})" in warning
        assert lookalikes(f"a{ch}b", sure=True) == ch


def test_every_dash_that_begins_an_option_is_named():
    dashes = [ch for ch in EVERYTHING if unicodedata.category(ch) == "Pd" and ch != "-"]
    assert len(dashes) > 20
    for ch in dashes:
        assert _DASH.match(ch)
        assert f"{ch}{ch}force (U+{ord(ch):04X})" in disguises(f"git push {ch}{ch}force")[0]
        assert ch in lookalikes(f"{ch}rf", sure=True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cat a∕b", "2215"),
        ("cat a⁄b", "2044"),
        ("cat a⧸b", "29F8"),
        ("cat a∖b", "2216"),
        ("ls ∣ sh", "2223"),
        ("ls ǀ sh", "01C0"),
        ("ls │ sh", "2502"),
        ("cat ‥/a", "2025"),
        ("rm ∗", "2217"),
        ("cd ∼", "223C"),
        ("curl https∶//x.test", "2236"),
        ("a꞉b", "A789"),
        ("echo ❯ a", "276F"),
        ("rm −rf", "2212"),
        ("rm -‐rf", "2010"),
        ("\tls ； rm", "FF1B"),
        ("echo '修正'\nls ｜ sh", "FF5C"),
        ("ｃａｔ a", "FF43"),
        ("ɡit log", "0261"),
        ("ⲥat a", "2CA5"),
        ("ᏀIT a", "13C0"),
        ("\U0001d6a8x", "1D6A8"),
    ],
)
def test_a_prompt_names_what_poses(text, code):
    [warning] = disguises("ls", text)
    assert f"(U+{code})" in warning


@pytest.mark.parametrize(
    "text",
    [
        "Fix the parser — again. Don’t “quote” it… 10–20 %, x → y · done",
        "a line – and another: e‑mail, co‑operate, non‐breaking",
        " – a list\n — of things\n• and more",
        "«Bonjour», dit-il : n° 5. L’été à l’œuvre",
        "Привет, «мир» — тест…",
        "„Zitat“, ‚x‘ und −5 °C",
        "—¿Qué? —dijo él—.",
        "日本語の文章。「引用」、テスト！（終わり）；～ １０個",
        "支持 Linux、macOS，Windows；完成。",
        "Q：什么？A：好。",
        "한국어 문장, “인용” – 테스트·가",
        "½ cup, 3⁄4, m², CO₂, 1ˢᵗ, ① ② ⑴ Ca²⁺",
        "├── a.py\n│   └── b\n│ x │",
        "| a | b |\n+---+---+",
        "שלום, עולם! מה־זה?",
        "مرحبا، كيف الحال؟ ٪٥٠ ؛",
        "हिन्दी में वाक्य। दुःख",
        "Ελληνικά\u037e Τι κάνεις\u037e",
        "Հայերեն։ Բարև",
        "ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ",
        "O’Brien, Hawaiʻi",
        "Kapı, yazılım, ışık",
        "20×30 © 2024 ™ № 5",
        "3∶1",
        "✨ 😀 👍🏽 \U0001fa77",
    ],
)
def test_ordinary_text_of_any_language_and_typography_needs_no_warning(text):
    assert disguises(text) == ()


@pytest.mark.parametrize(
    ("word", "posing"),
    [
        ("foo‐bar.txt", "‐"),
        ("“hi”", "“"),
        ("John’s – notes.md", ""),
        ("2010–2020.pdf", ""),
        ("报告（终稿）.txt", ""),
        ("Ⅳ-größe", "Ⅳ"),
        ("größe·x", ""),
    ],
)
def test_in_a_path_typography_is_natural_and_a_hyphen_is_not(word, posing):
    assert lookalikes(word, sure=True) == posing


@pytest.mark.parametrize("name", ["--no–verify", "docker’s", "a—b"])
def test_in_a_program_or_option_no_typography_is_natural(name):
    assert lookalikes(name)


def test_warnings_of_marks_are_few_and_short():
    [warning] = disguises(" ".join(f"a{number}∕{'b' * 100}" for number in range(9)))
    assert warning.endswith(" and others")
    assert len(warning) < 300
    assert "a0∕bbb" in warning
