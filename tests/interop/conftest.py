from importlib.util import find_spec

import pytest

# Without the extra mcp, what stands in other folders is tested all the same.
collect_ignore_glob = (
    [] if find_spec("mcp") else ["test_*.py", "servers.py", "http_server.py", "conformance/*"]
)


@pytest.fixture(autouse=True)
def forget_what_others_have_started(request):
    """Let `children` count what is started from here on, by the tests that look at it."""
    if look := getattr(request.module, "children", None):
        look.__globals__["BEFORE"] |= look()
