from greenroom.session.durability import Durability as Durability
from greenroom.session.export.document import LONGEST_IMPORT as LONGEST_IMPORT
from greenroom.session.export.exporter import (
    ExportFormat as ExportFormat,
    export_session as export_session,
)
from greenroom.session.export.importer import import_session as import_session
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
from greenroom.session.sqlite.store import SQLiteStore as SQLiteStore
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
