"""Where a subagent comes from."""

from dataclasses import dataclass

__all__ = ["ParentInfo"]


@dataclass(frozen=True)
class ParentInfo:
    """The session that spawned an agent, and the tool call in which it did, if any."""

    session_id: str
    tool_use_id: str | None = None
