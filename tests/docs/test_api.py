"""The pages of the API are what the docstrings say."""

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "reference" / "api.py"))
PAGES = SCRIPT["pages"]()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_up_to_date(name):
    written = (SCRIPT["FOLDER"] / name).read_text()
    assert written == PAGES[name], "run: python docs/reference/api.py"


def test_there_is_no_other_page():
    assert {path.name for path in SCRIPT["FOLDER"].iterdir()} == set(PAGES)


def test_sections_become_lists_and_examples_blocks():
    doc = "Add.\n\nArgs:\n    a: one,\n        or two.\n\nExample:\n    >>> add(1)\n    2"
    expected = (
        "Add.\n\n**Args**\n\n- `a`: one,\n  or two.\n\n**Example**\n\n```pycon\n>>> add(1)\n2\n```"
    )
    assert SCRIPT["_markdown"](doc) == expected
