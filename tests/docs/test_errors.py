"""The table of errors is the one of the classes."""

import inspect
import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "reference" / "errors.py"))


def test_the_page_of_errors_is_up_to_date():
    assert SCRIPT["PAGE"].read_text() == SCRIPT["page"](), "run: python docs/reference/errors.py"


def test_every_error_has_its_row_and_says_what_to_do():
    kinds = SCRIPT["tree"]()
    assert [kind for kind in kinds[1:] if not kind.remedy or "\n" in kind.remedy] == []
    assert [kind for kind in kinds if not inspect.getdoc(kind)] == []


def test_the_tree_in_the_docstring_is_the_tree():
    assert SCRIPT["drawn"]() == [kind.__name__ for kind in SCRIPT["tree"]()]
