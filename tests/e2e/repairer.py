"""A model's stand-in that repairs a bug: each call follows from the result of the last one.

It knows the name of the broken function and how the line should read; everything else (the files,
the path, the line, the text to replace, whether the tests pass) it must find with the tools. A tool
that answers wrongly leads it astray, and the test fails.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A line of the package, how it is broken, and a first, wrong, attempt to mend it."""

    module: str
    function: str
    good: str
    broken: str
    attempt: str

    @property
    def tests(self):
        return f"toolz/tests/test_{self.module}.py"

    def plant(self, folder):
        path = folder / "toolz" / f"{self.module}.py"
        head, name, body = path.read_text().partition(f"def {self.function}(")
        assert self.good in body
        path.write_text(head + name + body.replace(self.good, self.broken, 1))


BUGS = [
    Bug("itertoolz", "take_nth", "(seq, 0, None, n)", "(seq, 1, None, n)", "(seq, n, None, n)"),
    Bug("itertoolz", "nth", "(seq, n, None)", "(seq, n + 1, None)", "(seq, n + 2, None)"),
    Bug("itertoolz", "frequencies", "d[item] += 1", "d[item] += 2", "d[item] += 3"),
    Bug("itertoolz", "last", "tail(1, seq)[0]", "tail(2, seq)[0]", "tail(3, seq)[0]"),
    Bug("dicttoolz", "valfilter", "if predicate(v):", "if not predicate(v):", "if predicate(d):"),
]


class Repairer:
    """Decides on the next call; `step` is given the text of the last result."""

    def __init__(self, bug, python):
        self._bug = bug
        # -B: Python tells an old .pyc by seconds and size, and these edits change neither.
        self._tests = f"{python} -B -m pytest -q -p no:cacheprovider {bug.tests}"
        self._plan = self._work()
        self.calls = []
        next(self._plan)

    def step(self, result):
        """Return a text and a call `(name, arguments)`, or the last text and None."""
        text, call = self._plan.send(result)
        self.calls.append(call)
        return text, call

    def _work(self):
        bug = self._bug
        yield
        listing = yield "I list the files.", ("Glob", {"pattern": "toolz/*.py"})
        assert f"toolz/{bug.module}.py" in listing, listing
        found = yield "I look for it.", ("Grep", self._search())
        path, line = re.search(r"^(\S+?\.py):(\d+)[:-].*def ", found, re.MULTILINE).groups()
        broken = yield from self._line(path, line, bug.broken)
        attempt = broken.replace(bug.broken, bug.attempt)
        edited = yield "I try this.", ("Edit", self._edit(path, broken, attempt))
        assert bug.attempt in edited, edited
        failure = yield "I test it.", ("Bash", {"command": self._tests})
        name = re.search(r"^FAILED \S+::(\w+)", failure, re.MULTILINE)[1]
        assert bug.function in name, failure
        wrong = yield from self._line(path, line, bug.attempt)
        fixed = wrong.replace(bug.attempt, bug.good)
        yield f"{name} fails: that was wrong.", ("Edit", self._edit(path, wrong, fixed))
        passed = yield "I test it again.", ("Bash", {"command": self._tests})
        count = re.search(r"^(\d+) passed", passed, re.MULTILINE)[1]
        yield f"Repaired {bug.function} in {path}: {count} tests pass.", None

    def _search(self):
        return {
            "pattern": rf"def {self._bug.function}\(",
            "path": "toolz",
            "output_mode": "content",
            "-n": True,
        }

    def _line(self, path, line, fragment):
        """Read from the function's first line, and take the line that holds the fragment."""
        arguments = {"file_path": path, "offset": int(line), "limit": 40}
        numbered = yield "I read it.", ("Read", arguments)
        hit = next(row for row in numbered.splitlines() if fragment in row)
        return re.fullmatch(r"\s*\d+[\t→](.*)", hit)[1]

    def _edit(self, path, old, new):
        return {"file_path": path, "old_string": old, "new_string": new}
