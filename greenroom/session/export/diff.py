"""Diffs inside of what tools answer."""

import re

_HEAD = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)


def split_diff(text: str) -> tuple[str, str]:
    r"""Part a text into what precedes a unified diff, and the diff, which ends it.

    Example:
        >>> split_diff("edited a.py\n--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b")
        ('edited a.py', '--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b')
    """
    found = _HEAD.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].removesuffix("\n"), text[found.start() :]
