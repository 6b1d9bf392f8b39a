"""A tool in a process of its own, which loads this module and nothing else of the tests."""

from greenroom.tools import tool


@tool(isolation="process", timeout=30)
def count(text: str) -> int:
    """Count the characters of a text."""
    return len(text)
