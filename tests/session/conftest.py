"""A conversation to store, and a store of each kind to hold it."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from greenroom.core import Message, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.core._internal import set_clock
from greenroom.session import FileStore
from tests.session.under_test import Files, Memory, Postgres, SQLite

STORES = [Files, Memory, SQLite] + [Postgres] * ("GREENROOM_POSTGRES" in os.environ)


@pytest.fixture(params=STORES)
def store_under_test(request, tmp_path):
    # A server takes a while to start, and each store a while to connect.
    if request.param is Postgres:
        return request.getfixturevalue("postgres")
    return request.param(tmp_path)


@pytest.fixture
def postgres(postgres_server):
    case = Postgres(postgres_server)
    yield case
    case.close()


@pytest.fixture
def store(store_under_test):
    return store_under_test.make()


@pytest.fixture
def files(tmp_path):
    return FileStore(tmp_path / "sessions")


@pytest.fixture
def conversation():
    return (
        Message.user("read a.txt\u2028please"),
        Message.assistant(
            [TextBlock("Gladly."), ToolUseBlock("t1", "Read", {"file_path": "a.txt"})]
        ),
        Message.user([ToolResultBlock("t1", (TextBlock("hällo\n"),))]),
        Message.assistant("It says hällo."),
    )


class Wall:
    """A wall clock that stands still until it is moved."""

    def __init__(self):
        self.moment = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)

    def move(self, seconds):
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def wall():
    wall = Wall()
    set_clock(lambda: wall.moment)
    yield wall
    set_clock(None)
