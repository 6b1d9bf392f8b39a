from greenroom.session.agent_session import (
    AgentSession as AgentSession,
    SessionStatistics as SessionStatistics,
)
from greenroom.session.branches import Branch as Branch, checkpoints_after as checkpoints_after
from greenroom.session.conversation import Conversation as Conversation
from greenroom.session.description import (
    FORKED_FROM as FORKED_FROM,
    Description as Description,
    Origin as Origin,
    SessionMetadata as SessionMetadata,
    decode_metadata as decode_metadata,
    encode_metadata as encode_metadata,
    in_utc as in_utc,
)
from greenroom.session.entries import (
    LONGEST_RECORD as LONGEST_RECORD,
    MessageEntry as MessageEntry,
    OpenQuestion as OpenQuestion,
    decode_entries as decode_entries,
)
from greenroom.session.file_store import (
    FileStore as FileStore,
    check_store as check_store,
    default_store as default_store,
)
from greenroom.session.files import (
    CHECKPOINT_FILES as CHECKPOINT_FILES,
    LONGEST_FILE as LONGEST_FILE,
    KeepsFiles as KeepsFiles,
    SessionFile as SessionFile,
    check_file as check_file,
    check_file_name as check_file_name,
    no_file_error as no_file_error,
)
from greenroom.session.folder_names import folder_name as folder_name
from greenroom.session.history import (
    START as START,
    History as History,
    Page as Page,
    Position as Position,
    RepairReport as RepairReport,
    encode_line as encode_line,
    read_backwards as read_backwards,
    read_history as read_history,
    read_page as read_page,
)
from greenroom.session.holders import (
    begin_epoch as begin_epoch,
    holder_of as holder_of,
    is_here as is_here,
    name_holder as name_holder,
)
from greenroom.session.journal import Durability as Durability, Journal as Journal
from greenroom.session.listing import SessionPage as SessionPage, page_of as page_of
from greenroom.session.past_sessions import (
    PaidCall as PaidCall,
    SearchHit as SearchHit,
    SearchReport as SearchReport,
    SessionSearch as SessionSearch,
    archive_session as archive_session,
    delete_session as delete_session,
    descendants as descendants,
    read_branches as read_branches,
    read_decisions as read_decisions,
    read_last as read_last,
    read_paid_calls as read_paid_calls,
    read_tree_used as read_tree_used,
    search_sessions as search_sessions,
    unarchive_session as unarchive_session,
)
from greenroom.session.sqlite_store import SQLiteStore as SQLiteStore
from greenroom.session.store import (
    InMemoryStore as InMemoryStore,
    InMemoryStoreStatistics as InMemoryStoreStatistics,
    SessionStore as SessionStore,
    SessionWriter as SessionWriter,
    StoredPage as StoredPage,
    StoredSession as StoredSession,
    StoreOnDisk as StoreOnDisk,
    StoreStatistics as StoreStatistics,
    StoreSurvey as StoreSurvey,
)
from greenroom.session.store_errors import (
    fenced_error as fenced_error,
    locked_error as locked_error,
)
from greenroom.session.transcript import (
    WENT_ON as WENT_ON,
    answer_calls as answer_calls,
    is_stand_in as is_stand_in,
    may_have_run as may_have_run,
)
