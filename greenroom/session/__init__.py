"""Conversations that outlive the process.

`session` (`AgentSession`, what users hold) is made of `description` and `metadata` (who and when),
`transcript` and `pairing` (the messages), and `journal` (what is stored). Pure functions of bytes
are in `entry` and `history`; `repair` reports a torn end. `store` is the protocol behind which
stand `file_store` (with `file_writer`, `session_folder`, `lock`, `durable`) and `memory_store`.
"""

from greenroom.session.file_store import FileStore as FileStore
from greenroom.session.file_store import default_store as default_store
from greenroom.session.memory_store import MemoryStore as MemoryStore
from greenroom.session.metadata import SessionMetadata as SessionMetadata
from greenroom.session.repair import RepairReport as RepairReport
from greenroom.session.session import AgentSession as AgentSession
from greenroom.session.store import SessionStore as SessionStore
from greenroom.session.store import SessionWriter as SessionWriter
from greenroom.session.store import StoredSession as StoredSession

__all__ = [
    "AgentSession",
    "FileStore",
    "MemoryStore",
    "RepairReport",
    "SessionMetadata",
    "SessionStore",
    "SessionWriter",
    "StoredSession",
    "default_store",
]
