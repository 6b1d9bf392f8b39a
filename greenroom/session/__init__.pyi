from greenroom.session.agent_session import AgentSession as AgentSession
from greenroom.session.copying import copy_session as copy_session
from greenroom.session.description import (
    SessionMetadata as SessionMetadata,
    decode_metadata as decode_metadata,
    encode_metadata as encode_metadata,
)
from greenroom.session.errors import (
    SessionCorruptError as SessionCorruptError,
    SessionExistsError as SessionExistsError,
    SessionFencedError as SessionFencedError,
)
from greenroom.session.file_store import FileStore as FileStore
from greenroom.session.files import (
    SessionFile as SessionFile,
    check_file as check_file,
    check_file_name as check_file_name,
    no_file_error as no_file_error,
)
from greenroom.session.history import (
    START as START,
    Position as Position,
    read_history as read_history,
    read_page as read_page,
)
from greenroom.session.holders import begin_epoch as begin_epoch
from greenroom.session.listing import SessionPage as SessionPage, page_of as page_of
from greenroom.session.past_sessions import (
    SessionSearch as SessionSearch,
    archive_session as archive_session,
    delete_session as delete_session,
    read_branches as read_branches,
    read_decisions as read_decisions,
    read_last as read_last,
    search_sessions as search_sessions,
    unarchive_session as unarchive_session,
)
from greenroom.session.postgres_store import PostgresStore as PostgresStore
from greenroom.session.sqlite_store import SQLiteStore as SQLiteStore
from greenroom.session.store import (
    InMemoryStore as InMemoryStore,
    SessionStore as SessionStore,
    SessionWriter as SessionWriter,
    StoredPage as StoredPage,
    StoredSession as StoredSession,
)
from greenroom.session.store_errors import (
    fenced_error as fenced_error,
    locked_error as locked_error,
)
