"""`WorkingMemory`: values that a task works with, stored with its session."""

from collections.abc import Mapping
from typing import cast

from greenroom.core import InvalidJSONError, serde
from greenroom.session import AgentSession

_KIND = "memory.working"


class WorkingMemory:
    """Keeps JSON values by name for one task, as records of a session: they survive the process.

    Values are copied on the way in and out. A change takes effect at once and is stored by the
    session's next save, together with the messages; a rewind undoes it. No method awaits, so tasks
    that share a session never see half a change. Each change is a record of all values of the task,
    at most 256 KB
    together: keep large data in files.

    Args:
        session: where the values are kept.
        task: the name of the task; each task has its own values.

    Example:
        >>> from greenroom.session import AgentSession, InMemoryStore
        >>> values = WorkingMemory(AgentSession.new("coder", store=InMemoryStore()), task="build")
        >>> values.set("capital", "Paris")
        >>> values.compare_and_set("capital", "Rome", "Oslo"), values.get("capital")
        (False, 'Paris')
    """

    def __init__(self, session: AgentSession, task: str = "") -> None:
        """Use the values of this task."""
        self._session = session
        self._kind = f"{_KIND}.{task}"

    def get(self, key: str, default: serde.JSON = None) -> serde.JSON:
        """Return a copy of a value, or the default."""
        return self.to_dict().get(key, default)

    def set(self, key: str, value: serde.JSON) -> None:
        """Set a value.

        Raises:
            InvalidJSONError: it is not JSON.
            SessionError: the values have more than 256 KB.
        """
        self.update({key: value})

    def update(self, values: Mapping[str, serde.JSON]) -> None:
        """Set several values, all or none.

        Raises:
            InvalidJSONError: one is not JSON.
            SessionError: the values have more than 256 KB.
        """
        if not all(isinstance(key, str) for key in values):
            raise InvalidJSONError("the names of values must be strings")
        self._session.add_record(self._kind, {**self.to_dict(), **values})

    def compare_and_set(self, key: str, expected: serde.JSON, value: serde.JSON) -> bool:
        """Set a value if the current one equals `expected` (None if it is missing); return whether it was set.

        This way, tasks that read a value and write a new one don't overwrite each other.

        Raises:
            InvalidJSONError: the value is not JSON.
            SessionError: the values have more than 256 KB.
        """
        if self.get(key) != expected:
            return False
        self.set(key, value)
        return True

    def clear(self) -> None:
        """Remove all values of this task."""
        self._session.add_record(self._kind, {})

    def to_dict(self) -> dict[str, serde.JSON]:
        """Return a copy of all values of this task."""
        return cast("dict[str, serde.JSON]", self._session.last_record(self._kind) or {})
