"""Conversations that outlive the process.

`session` (`AgentSession`, what users hold) is made of `description` and `metadata` (who and when),
`conversation` (the messages), `stored_conversation` (opening, saving and closing them) and `journal`
(what is stored); `durability` says how much of it a power cut may take back, `repair` reports a torn
end. In the room `history` are the entries of a history, its lines as bytes, and what they add up to;
nothing there touches a file. `store` is the protocol behind which stand the rooms `files` and
`sqlite`, the latter loaded when it is first used, and `memory_store`. The room `shelf` is what is done
with sessions by their ids: deleting, archiving, searching. `lost_description` puts a
damaged description together anew. The room `export` writes a session as
Markdown, HTML or JSON, and reads the last of these. `holder` says who has a session when you can't;
`statistics` are figures about all of these.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from greenroom.session.durability import Durability as Durability
from greenroom.session.files.store import FileStore as FileStore, default_store as default_store
from greenroom.session.history.branches import Branch as Branch
from greenroom.session.history.checkpoints import checkpoints_after as checkpoints_after
from greenroom.session.history.lines import (
    START as START,
    History as History,
    Position as Position,
    encode_line as encode_line,
    read_on as read_on,
)
from greenroom.session.history.page import (
    Page as Page,
    backwards as backwards,
    read_page as read_page,
)
from greenroom.session.history.pairing import (
    WENT_ON as WENT_ON,
    is_stand_in as is_stand_in,
    may_have_run as may_have_run,
)
from greenroom.session.history.questions import OpenQuestion as OpenQuestion
from greenroom.session.history.records import LONGEST_RECORD as LONGEST_RECORD
from greenroom.session.holder import fenced_error as fenced_error, locked_error as locked_error
from greenroom.session.memory_store import MemoryStore as MemoryStore
from greenroom.session.metadata import (
    Origin as Origin,
    SessionMetadata as SessionMetadata,
    decode_metadata as decode_metadata,
    encode_metadata as encode_metadata,
)
from greenroom.session.repair import RepairReport as RepairReport
from greenroom.session.session import AgentSession as AgentSession
from greenroom.session.shelf.deletion import descendants as descendants
from greenroom.session.shelf.search import (
    SearchHit as SearchHit,
    SearchReport as SearchReport,
    SessionSearch as SessionSearch,
)
from greenroom.session.statistics import (
    MemoryStoreStatistics as MemoryStoreStatistics,
    SessionStatistics as SessionStatistics,
    StoreStatistics as StoreStatistics,
)
from greenroom.session.store import (
    SessionStore as SessionStore,
    SessionWriter as SessionWriter,
    StoredPage as StoredPage,
    StoredSession as StoredSession,
    StoreSurvey as StoreSurvey,
)

if TYPE_CHECKING:
    from greenroom.session.export.document import LONGEST_IMPORT as LONGEST_IMPORT
    from greenroom.session.export.exporter import (
        ExportFormat as ExportFormat,
        export_session as export_session,
    )
    from greenroom.session.export.importer import import_session as import_session
    from greenroom.session.sqlite.store import SQLiteStore as SQLiteStore

__all__ = [
    "LONGEST_IMPORT",
    "LONGEST_RECORD",
    "START",
    "WENT_ON",
    "AgentSession",
    "Branch",
    "Durability",
    "ExportFormat",
    "FileStore",
    "History",
    "MemoryStore",
    "MemoryStoreStatistics",
    "OpenQuestion",
    "Origin",
    "Page",
    "Position",
    "RepairReport",
    "SQLiteStore",
    "SearchHit",
    "SearchReport",
    "SessionMetadata",
    "SessionSearch",
    "SessionStatistics",
    "SessionStore",
    "SessionWriter",
    "StoreStatistics",
    "StoreSurvey",
    "StoredPage",
    "StoredSession",
    "backwards",
    "checkpoints_after",
    "decode_metadata",
    "default_store",
    "descendants",
    "encode_line",
    "encode_metadata",
    "export_session",
    "fenced_error",
    "import_session",
    "is_stand_in",
    "locked_error",
    "may_have_run",
    "read_on",
    "read_page",
]


_LATER = {
    "LONGEST_IMPORT": "export.document",
    "ExportFormat": "export.exporter",
    "SQLiteStore": "sqlite.store",
    "export_session": "export.exporter",
    "import_session": "export.importer",
}


def __getattr__(name: str) -> object:
    """Load where it is used what few programs use: exports, and the SQLite store with `sqlite3`."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"greenroom.session.{_LATER[name]}"), name)
