"""The store that is checked, what the checks must do to it behind its back, and how they look."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from greenroom.core import Message, new_id
from greenroom.session import AgentSession, SessionStore

E = TypeVar("E", bound=Exception)


class StoreUnderTest(ABC):
    """A store of yours, for `check_session_store`: how it is opened, and how it comes to harm.

    All that `open` returns holds the same sessions. They may hold others than the checks make.
    """

    @abstractmethod
    async def open(self) -> SessionStore:
        """Open the store as another process would; one in memory returns the same object."""

    @abstractmethod
    async def lose_lock(self, session_id: str) -> None:
        """Make the store take the session's writer for dead, though it lives."""

    @abstractmethod
    async def remove(self, session_id: str) -> None:
        """Remove all that is stored of a session."""

    @abstractmethod
    async def damage(self, session_id: str, line: int) -> None:
        """Change a byte in this line of the history, counted from 0, but not its newline."""


async def saved(store: SessionStore, *messages: Message | str) -> AgentSession:
    """Store a new session with these messages."""
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    for message in messages:
        session.add_message(Message.user(message) if isinstance(message, str) else message)
    await session.save()
    return session


async def texts(store: SessionStore, session: AgentSession) -> list[str]:
    """Load a session anew, see that nothing is torn, and return what its messages say."""
    loaded = await AgentSession.load(session.session_id, store=store)
    same(loaded.repair, None)
    return [message.text for message in loaded.history]


def same(found: object, expected: object) -> None:
    """Fail unless both are equal.

    Raises:
        AssertionError: they are not; it shows both.
    """
    assert found == expected, f"found {found!r}, expected {expected!r}"


@contextmanager
def expecting(kind: type[E], *, message: str = "") -> Iterator[list[E]]:
    """Fail unless the block raises this error, with these words; the list then holds it.

    Raises:
        AssertionError: it did not.
    """
    caught: list[E] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"{kind.__name__} was not raised"
    assert message in str(caught[0]), f"the error should say {message!r}: {caught[0]}"
