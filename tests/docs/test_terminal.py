"""The page for people at the terminal has the commands, keys and settings that there are."""

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "how-to" / "terminal.py"))


def test_the_tables_are_those_of_the_code():
    page = SCRIPT["PAGE"].read_text()
    assert page == SCRIPT["page"](), "run: python docs/how-to/terminal.py"
    for table in SCRIPT["TABLES"].values():
        rows = list(table())
        assert len(rows) > 3
        assert "\n".join(rows) in page
