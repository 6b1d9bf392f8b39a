from greenroom.session.agent_session import AgentSession as AgentSession
from greenroom.session.description import SessionMetadata as SessionMetadata
from greenroom.session.errors import (
    SessionCorruptError as SessionCorruptError,
    SessionExistsError as SessionExistsError,
    SessionFencedError as SessionFencedError,
)
from greenroom.session.file_store import FileStore as FileStore
from greenroom.session.files import SessionFile as SessionFile
from greenroom.session.history import START as START, Position as Position
from greenroom.session.listing import SessionPage as SessionPage
from greenroom.session.memory_store import InMemoryStore as InMemoryStore
from greenroom.session.postgres_store import PostgresStore as PostgresStore
from greenroom.session.sqlite_store import SQLiteStore as SQLiteStore
from greenroom.session.store import (
    SessionStore as SessionStore,
    SessionWriter as SessionWriter,
    StoredPage as StoredPage,
    StoredSession as StoredSession,
)
