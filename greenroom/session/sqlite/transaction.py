"""One transaction: all of it or nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit when the block has been left, and roll back if it raises.

    Raises:
        sqlite3.Error: it could not be begun or committed; nothing was written.
    """
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it itself where the disk refused
            connection.execute("ROLLBACK")
        raise
