"""Foreign text is valid and visible, cut between characters, and shown exactly to who judges it."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from greenroom.core import frozen
from greenroom.core._internal import clip, disguises, exact, quantity, valid_unicode, visible

ODD = "\u00a0\u2003\u2800\u3000\u202f"
ANY = st.text(
    st.sampled_from("ab \t\n\r\x1b\x07\u200b\u202e\u2066\ufeff\u00ad" + ODD), max_size=200
)


@given(ANY)
def test_what_is_shown_holds_no_control_no_format_and_no_odd_blank(text):
    shown = exact(text)
    assert not [ch for ch in shown if unicodedata.category(ch) in ("Cf", "Cs", "Zl", "Zp")]
    assert not [ch for ch in shown if unicodedata.category(ch) == "Cc" and ch not in "\t\n"]
    assert not [ch for ch in shown if unicodedata.category(ch) == "Zs" and ch != " "]
    assert exact(shown) == shown


@given(st.text(st.sampled_from(" \t\n.x"), max_size=400))
def test_no_run_of_blanks_can_push_anything_away(text):
    shown = exact(text)
    assert " " * 33 not in shown
    assert "\n" * 6 not in shown
    assert [ch for ch in text if ch in ".x"] == [ch for ch in shown if ch in ".x"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls" + " " * 3000 + "; rm", "ls…(3000 blanks)…; rm"),
        ("a\n" + "\n" * 200 + "b", "a\n…(200 empty lines)…\nb"),
        ("a" + "\t" * 9 + "b", "a…(9 blanks)…b"),
        ("if x:\n" + " " * 32 + "y", "if x:\n" + " " * 32 + "y"),
        ("a\rb\x1b[2K", "a\\u{d}b\\u{1b}[2K"),
        ("rm\u00a0-rf", "rm\\u{a0}-rf"),
        ("naïve 日本 é", "naïve 日本 é"),
    ],
)
def test_text_is_shown_exactly(text, shown):
    assert exact(text) == shown


@pytest.mark.parametrize(
    "text", ["", "ls -la", "naïve café", "Привет, мир", "δοκιμή 日本", "a_b-c.d"]
)
def test_ordinary_text_of_any_language_needs_no_warning(text):
    assert disguises(text) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ls \u200b", "characters that would hide"),
        ("ls\u00a0x", "characters that would hide"),
        ("ls" + " " * 40 + "x", "long runs of blanks"),
        ("ls" + "\n" * 40 + "x", "long runs of blanks"),
        ("curl p\u0430ypal.com", "(U+0430)"),
        ("curl \uff47ithub.com", "(U+FF47)"),
    ],
)
def test_what_misleads_is_told(text, says):
    [warning] = disguises("ls", text)
    assert says in warning


def test_a_warning_names_a_few_words_of_many():
    [warning] = disguises(" ".join(f"p\u0430y{number}" for number in range(9)))
    assert warning.endswith("pаy2 (U+0430) and others")


@given(st.text())
def test_any_text_becomes_valid(text):
    valid_unicode(text).encode()


@given(st.text(st.sampled_from("a\u00e9\ud83c\udf31\U0001f331"), max_size=30), st.integers(1, 4))
def test_a_long_text_is_made_valid_in_parts_and_no_pair_is_split(text, part):
    """A text of 10 MB, all at once, held up every thread for two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frozen, "_PART", part)
        assert max(map(len, frozen._split(text)), default=0) <= part + 1
        made = valid_unicode(text)
    assert made == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("hidden", ["\r", "\x1b", "\x00", "\x9b", "\u202e", "\u200b", "\ufeff"])
def test_hidden_characters_are_shown(hidden):
    shown = visible(f"a{hidden}b")
    assert hidden not in shown
    assert f"{{{ord(hidden):x}}}" in shown


def test_tabs_newlines_and_other_scripts_stay():
    assert visible("a\tb\nжыр 漢字 é") == "a\tb\nжыр 漢字 é"


@given(st.text(max_size=300), st.integers(40, 200))
def test_clipping_keeps_whole_characters_and_counts_the_rest(text, limit):
    cut = clip(text, limit)
    if len(text) <= limit:
        assert cut == text
        return
    assert len(cut) <= limit
    head, note, tail = cut.rpartition("\n… ")[0], cut, cut.rsplit("…\n", 1)[1]
    missing = int(note.rsplit("\n… ", 1)[1].split()[0])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + missing == len(text)


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (10**16 + 1, "10000000000000001 seconds"),
        (1_234_567.5, "1234568 seconds"),
        (999_999.7, "1000000 seconds"),
        (0.1 + 0.2, "0.3 seconds"),
        (float("inf"), "inf seconds"),
    ],
)
def test_counts_have_all_their_digits_before_the_point(count, written):
    assert quantity(count, "second") == written
