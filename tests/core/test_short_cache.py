"""What is kept of calls with short texts, and not of those with long ones."""

import pytest

from greenroom.core._internal import cache_short


def count_calls(most=4):
    calls = []

    @cache_short(most)
    def join(*texts, end=""):
        """Join texts."""
        calls.append(texts)
        return "".join(map("".join, texts)) + end

    return join, calls


@pytest.mark.parametrize("given", [("a" * 999,), ("a", "b"), (("a", "b"), "c"), ()])
def test_a_call_with_short_texts_is_made_once(given):
    join, calls = count_calls()
    assert join(*given, end="!") == join(*given, end="!")
    assert calls == [given]


@pytest.mark.parametrize(
    "given", [("a" * 1_001,), ("a" * 600, "b" * 600), (("a" * 600, "b" * 600), "c")]
)
def test_a_call_with_long_texts_is_made_each_time(given):
    join, calls = count_calls()
    assert join(*given) == join(*given) == "".join(map("".join, given))
    assert calls == [given, given]


def test_a_long_text_that_is_given_by_its_name_is_counted_too():
    join, calls = count_calls()
    assert join("a", end="b" * 1_000) == join("a", end="b" * 1_000)
    assert calls == [("a",), ("a",)]


def test_a_long_text_drives_nothing_out():
    join, calls = count_calls(1)
    assert join("a") + join("b" * 2_000) + join("a") == f"a{'b' * 2_000}a"
    assert len(calls) == 2


def test_an_error_is_raised_each_time():
    @cache_short(4)
    def fail(text):
        raise ValueError(text)

    for text in ("a", "a", "b" * 2_000):
        with pytest.raises(ValueError, match=text) as caught:
            fail(text)
        assert caught.value.__context__ is None


def test_the_function_keeps_its_name_and_docstring():
    join, _ = count_calls()
    assert (join.__name__, join.__doc__) == ("join", "Join texts.")
