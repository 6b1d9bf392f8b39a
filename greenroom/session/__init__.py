"""Conversations that outlive the process.

`session` (`AgentSession`, what users hold) is made of `description` and `metadata` (who and when),
`conversation` (the messages), `stored_conversation` (opening, saving and closing them) and `journal`
(what is stored); `durability` says how much of it a power cut may take back, `repair` reports a torn
end. In the room `history` are the entries of a history, its lines as bytes, and what they add up to;
nothing there touches a file. `store` is the protocol behind which stand the rooms `files` and
`sqlite`, the latter loaded when it is first used, and `memory_store`. `holder` says who has a session
when you can't; `statistics` are figures about all of these.
"""

from typing import TYPE_CHECKING

from greenroom.session.durability import Durability as Durability
from greenroom.session.files.store import FileStore as FileStore
from greenroom.session.files.store import default_store as default_store
from greenroom.session.history.branches import Branch as Branch
from greenroom.session.history.lines import START as START
from greenroom.session.history.lines import History as History
from greenroom.session.history.lines import Position as Position
from greenroom.session.history.lines import encode_line as encode_line
from greenroom.session.history.lines import read_on as read_on
from greenroom.session.holder import fenced_error as fenced_error
from greenroom.session.holder import locked_error as locked_error
from greenroom.session.memory_store import MemoryStore as MemoryStore
from greenroom.session.metadata import Origin as Origin
from greenroom.session.metadata import SessionMetadata as SessionMetadata
from greenroom.session.metadata import decode_metadata as decode_metadata
from greenroom.session.metadata import encode_metadata as encode_metadata
from greenroom.session.repair import RepairReport as RepairReport
from greenroom.session.session import AgentSession as AgentSession
from greenroom.session.statistics import MemoryStoreStatistics as MemoryStoreStatistics
from greenroom.session.statistics import SessionStatistics as SessionStatistics
from greenroom.session.statistics import StoreStatistics as StoreStatistics
from greenroom.session.store import SessionStore as SessionStore
from greenroom.session.store import SessionWriter as SessionWriter
from greenroom.session.store import StoredSession as StoredSession

if TYPE_CHECKING:
    from greenroom.session.sqlite.store import SQLiteStore as SQLiteStore

__all__ = [
    "START",
    "AgentSession",
    "Branch",
    "Durability",
    "FileStore",
    "History",
    "MemoryStore",
    "MemoryStoreStatistics",
    "Origin",
    "Position",
    "RepairReport",
    "SQLiteStore",
    "SessionMetadata",
    "SessionStatistics",
    "SessionStore",
    "SessionWriter",
    "StoreStatistics",
    "StoredSession",
    "decode_metadata",
    "default_store",
    "encode_line",
    "encode_metadata",
    "fenced_error",
    "locked_error",
    "read_on",
]


def __getattr__(name: str) -> object:
    """Load the SQLite store, and `sqlite3` with it, only where somebody uses it."""
    if name != "SQLiteStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from greenroom.session.sqlite.store import SQLiteStore

    return SQLiteStore
