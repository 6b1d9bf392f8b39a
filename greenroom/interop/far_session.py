"""The far session of a forwarding agent: what a turn does with it, and what is kept of it here."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from greenroom.core import Answer, Message, PermissionRequest, UserInput
from greenroom.core._internal import serde
from greenroom.interop.serving.served_sessions import OWNER
from greenroom.llm import SSEEvent
from greenroom.runtime import InterruptReport, TurnResult
from greenroom.runtime._internal import InterruptMode
from greenroom.session import AgentSession

RECORD = "remote"
"""The kind of the records of far sessions."""

_ARCHIVED = "archived"


class FarNow(msgspec.Struct):
    """What a far session is like now.

    Attributes:
        pending: the questions that are open there.
        messages: its conversation.
    """

    pending: tuple[PermissionRequest, ...] = ()
    messages: tuple[Message, ...] = ()


class FarEvents(Protocol):
    """What a far agent tells, as events of the API.

    Attributes:
        goes_on: whether it tells more behind the end of the turn.
    """

    goes_on: bool

    async def take(self) -> list[SSEEvent]:
        """Wait for what comes next; empty at the end."""


class FarRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept here of a far session.

    Attributes:
        address: that of its server.
        session: its id; empty if it has none yet.
        input_id: the id of the last input that was sent; empty if it has failed.
        digest: the hash of what that says.
        is_answered: whether it is answered.
        protocol: by which another server than ours is spoken to, if it is one.
    """

    address: str
    session: str
    input_id: str = ""
    digest: str = ""
    is_answered: bool = False
    protocol: str = ""


def read_record(session: AgentSession) -> FarRecord | None:
    """Return the last record of a far session, if there is one that makes sense."""
    try:
        return serde.convert(session.last_record(RECORD), FarRecord)
    except msgspec.ValidationError:
        return None


class Far(ABC):
    """The session of the far agent, as its turns here use it.

    Attributes:
        host: where it is, for people.
        session: its id.
        position: up to where it was told here.
        unstopped: the input whose turn an interrupt could not reach.
    """

    host: str
    session: str
    position: str = ""
    unstopped: str = ""

    def __init__(self, own: AgentSession, address: str, session: str) -> None:
        """Keep on record in the session here which one it is."""
        self.session = session
        self._own = own
        self._address = address
        self._record = FarRecord(address, session)
        self._is_first = True  # no input has come in this life

    # ------------------------------------------------------------------- what is kept here

    async def begin_input(self, message: UserInput) -> str:
        """Keep on record that an input is sent; return the id under which the far agent gets it.

        If it is what an earlier life was last given, and that was cut off, the id is the same. A
        program may give its work again though it was answered: it was itself cut off then.
        """
        digest = hashlib.sha256(serde.encode([message.content, message.sender])).hexdigest()[:32]
        before = read_record(self._own) if self._is_first else None
        self._is_first = False
        if before is not None and _goes_on(before, self.session, digest, message.sender):
            self._record = before
            return before.input_id
        await self.keep(FarRecord(self._address, self.session, message.id, digest))
        return message.id

    def end_input(self, *, is_completed: bool) -> None:
        """Keep on record that the input is answered, or has failed; the turn's end stores it."""
        if is_completed:
            self._record = msgspec.structs.replace(self._record, is_answered=True)
        else:
            self._record = FarRecord(self._address, self.session)
        self._own.add_record(RECORD, msgspec.to_builtins(self._record))

    async def keep(self, record: FarRecord) -> None:
        """Keep a record before anything else is done."""
        self._record = record
        # The conversation is in another list; one that people have at a server of theirs stays.
        if not (self._own.parent_session_id or self._own.get_metadata(OWNER)):
            self._own.set_metadata(_ARCHIVED, True)
        self._own.add_record(RECORD, msgspec.to_builtins(record))
        await self._own.save(flush=True)

    # ------------------------------------------------------------------ what is done there

    @abstractmethod
    async def find(self) -> None:
        """Find it, or make it."""

    @abstractmethod
    def open_turn(
        self, message: UserInput, input_id: str, depth: int, on_data: Callable[[], None]
    ) -> AbstractAsyncContextManager[FarEvents]:
        """Send an input under its id, which is taken once, and read what is told from then on.

        `on_data` is called for everything that comes.
        """

    @abstractmethod
    def open_stream(self, on_data: Callable[[], None]) -> AbstractAsyncContextManager[FarEvents]:
        """Read what is told, from the position on."""

    @abstractmethod
    async def read(self) -> FarNow:
        """Return what it is like now."""

    @abstractmethod
    async def read_result(self, input_id: str, wait: float = 0.0) -> TurnResult | None:
        """Return the result of the turn of an input; None if it is open after so many seconds.

        Raises:
            RemoteError: its status is 404 if the input is not known.
        """

    @abstractmethod
    async def interrupt(self, input_id: str, mode: InterruptMode, grace: float) -> InterruptReport:
        """Stop the turn of an input, and no other; one that is on its way is taken back."""

    async def place_of(self, request: PermissionRequest) -> str:
        """Return the machine that a question is about."""
        return request.host or self.host

    @abstractmethod
    async def respond(self, request: PermissionRequest, answer: Answer) -> None:
        """Pass the answer to a question on; whoever was faster counts."""


def _goes_on(before: FarRecord, session: str, digest: str, sender: str) -> bool:
    """Whether an input with this digest goes on with that of a record."""
    if not before.input_id or (before.session, before.digest) != (session, digest):
        return False
    return bool(sender) or not before.is_answered
