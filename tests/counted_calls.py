"""How much work something is, in a figure that holds on any machine."""

import sys


def count_calls(function, *args, **options):
    """Count the calls of Python functions that a call of this one takes."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function(*args, **options)
    finally:
        sys.setprofile(before)
    return calls
