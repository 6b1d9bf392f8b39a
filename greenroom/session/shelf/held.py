"""A stored session in the hands of its one writer, without its conversation in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from greenroom.core import check_session_id
from greenroom.session.holder import unknown_error
from greenroom.session.store import SessionStore, SessionWriter


@asynccontextmanager
async def held(session_id: str, store: SessionStore) -> AsyncIterator[SessionWriter]:
    """Be the writer of a session that exists, for this block.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionLockedError: somebody writes it.
        SessionStorageError: the disk refused.
    """
    if not await store.exists(check_session_id(session_id)):
        raise unknown_error(session_id, store)
    writer = await store.acquire(session_id)
    try:
        if not await store.exists(session_id):  # somebody deleted it this moment
            raise unknown_error(session_id, store)
        yield writer
    finally:
        with trio.CancelScope(shield=True):
            await writer.release()
