"""The whole programs of the guides are short, and go on in another process where they say so."""

import re
import signal
from collections import Counter

import pytest

from tests.docs.test_code import ROOT, environment
from tests.warm_python import run_warm

HOW_TO = ROOT / "docs" / "how-to"
PROGRAMS = (
    "approval-that-waits",
    "handoff-and-back",
    "ingest-and-resume",
    "plan-work-write",
    "silent-workers",
    "vote",
)
ENDS = "    return {"


def program_of(page):
    [program] = re.findall(
        r"^```python\n(.*?)^```", (HOW_TO / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return program


@pytest.mark.parametrize("page", PROGRAMS)
def test_a_whole_program_is_short(page):
    assert len(program_of(page).splitlines()) <= 40


def test_a_program_that_was_killed_does_the_rest(tmp_path):
    source, file = program_of("ingest-and-resume"), tmp_path / "program.py"
    dies = "    if page == 600:\n        os.kill(os.getpid(), 9)\n"
    for killed in (True, False):
        file.write_text(f"import os\n{source}".replace(ENDS, dies + ENDS) if killed else source)
        code, printed, errors = run_warm([str(file)], tmp_path, environment(tmp_path))
        assert code == (-signal.SIGKILL if killed else 0), errors
        assert printed == ("" if killed else "10000\n")
    worked_on = Counter((tmp_path / "pages.txt").read_text().split())
    assert set(worked_on) == {str(page) for page in range(1000)}
    assert sum(worked_on.values()) <= 1020  # those in progress began again


def test_an_approval_is_given_in_another_process(tmp_path):
    source, file = program_of("approval-that-waits"), tmp_path / "program.py"
    asks, goes_on = source.split("# A day later, in another process:\n")
    definitions = asks[: asks.index("first = ")]
    for program in (asks, definitions + goes_on):
        file.write_text(program)
        code, printed, errors = run_warm([str(file)], tmp_path, environment(tmp_path))
        assert code == 0, errors
        assert printed.splitlines() == re.findall(r"^# > (.*)$", program, re.MULTILINE)
