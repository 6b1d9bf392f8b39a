"""What tools may ask of the files that an agent's session keeps, wherever its store has them."""

from typing import Protocol

SESSION_PREFIX = "session:"
"""How a path begins that names a file of the session, such as `session:Bash-7k2m9q4x1zt0.txt`."""


class KeptFiles(Protocol):
    """The files of one session."""

    longest: int
    """How many bytes one file may have."""

    async def put(self, name: str, data: bytes) -> None:
        """Keep a file, whole or not at all.

        Raises:
            SessionError: the store refused.
        """

    async def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: there is none.
            SessionError: the store refused.
        """

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each file by its name, the oldest first.

        Raises:
            SessionError: the store refused.
        """

    async def remove(self, name: str) -> None:
        """Remove a file, if there is one.

        Raises:
            SessionError: the store refused.
        """
