from greenroom.session.agent_session import AgentSession as AgentSession
from greenroom.session.branches import Branch as Branch, checkpoints_after as checkpoints_after
from greenroom.session.description import (
    FORKED_FROM as FORKED_FROM,
    Origin as Origin,
    SessionMetadata as SessionMetadata,
    decode_metadata as decode_metadata,
    encode_metadata as encode_metadata,
    in_utc as in_utc,
)
from greenroom.session.entries import (
    MessageEntry as MessageEntry,
    OpenQuestion as OpenQuestion,
    decode_entries as decode_entries,
)
from greenroom.session.file_store import FileStore as FileStore, default_store as default_store
from greenroom.session.history import (
    START as START,
    History as History,
    Page as Page,
    Position as Position,
    RepairReport as RepairReport,
    backwards as backwards,
    encode_line as encode_line,
    read_on as read_on,
    read_page as read_page,
)
from greenroom.session.in_memory_store import MemoryStore as MemoryStore
from greenroom.session.pairing import (
    WENT_ON as WENT_ON,
    is_stand_in as is_stand_in,
    may_have_run as may_have_run,
    unanswered as unanswered,
)
from greenroom.session.sqlite_store import SQLiteStore as SQLiteStore
from greenroom.session.store import (
    Durability as Durability,
    MemoryStoreStatistics as MemoryStoreStatistics,
    SessionStatistics as SessionStatistics,
    SessionStore as SessionStore,
    SessionWriter as SessionWriter,
    StoredPage as StoredPage,
    StoredSession as StoredSession,
    StoreStatistics as StoreStatistics,
    StoreSurvey as StoreSurvey,
    fenced_error as fenced_error,
    locked_error as locked_error,
)
from greenroom.session.stored_sessions import (
    SearchHit as SearchHit,
    SearchReport as SearchReport,
    SessionSearch as SessionSearch,
    descendants as descendants,
)
from greenroom.session.transcript import LONGEST_RECORD as LONGEST_RECORD
