"""A server for each test, on a free port of loopback."""

import pytest

from tests.interop.serving.browser import Browser
from tests.interop.serving.services import open_service


@pytest.fixture
def serve(tmp_path):
    """Return what opens a server for a block; its name marks these tests as integration."""

    def open_here(**options):
        return open_service(tmp_path, **options)

    return open_here


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return a browser, which takes a second to start: one for all tests."""
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
