"""Docstrings of the shapes that people write."""

from hypothesis import given, strategies as st

from greenroom.tools.schema import parse_docstring


def test_sections_end_the_description():
    parsed = parse_docstring(
        """Do it.

        With care: really.

        Returns:
            nothing: at all
        """
    )
    assert parsed.description == "Do it.\n\nWith care: really."
    assert parsed.parameters == {}


def test_parameters_span_lines_and_may_hold_types_colons_and_stars():
    parsed = parse_docstring(
        """Do it.

        Args:
            path (str, optional): where: relative
                or absolute.

                Really.
            **options: more.
            empty:

        Raises:
            path: not this one.
        """
    )
    assert parsed.parameters == {
        "path": "where: relative or absolute. Really.",
        "options": "more.",
        "empty": "",
    }


def test_an_empty_docstring_says_nothing():
    assert parse_docstring("").description == ""


@given(st.text())
def test_any_text_can_be_parsed(text):
    assert isinstance(parse_docstring(text).description, str)
