"""Todo: an agent's list of its own work, for itself and for those who watch."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import cast

import msgspec

from greenroom.core import AgentContext, ToolInfo, ToolResult

_METADATA_KEY = "todos"
_MAX_ITEMS = 100
_MAX_CONTENT = 500


class TodoStatus(StrEnum):
    """How far an item is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class TodoItem(msgspec.Struct, frozen=True):
    """One thing to do, and how far it is."""

    content: str
    status: TodoStatus = TodoStatus.PENDING


class TodoList:
    """The list of one agent, a resource of its context.

    Example:
        >>> context = AgentContext(session_id="s-1", agent_type="coder")
        >>> TodoList.of(context).replace([TodoItem("Read the code")], context)
        >>> print(context.resources.get(TodoList))
        [ ] Read the code
        >>> context.metadata["todos"]
        [{'content': 'Read the code', 'status': 'pending'}]
    """

    def __init__(self, items: tuple[TodoItem, ...] = ()) -> None:
        self.items = items

    @classmethod
    def of(cls, context: AgentContext) -> "TodoList":
        """Return the agent's list; the first time, as the session's metadata has it."""
        found = context.resources.get(cls)
        if found is None:
            found = cls(_from_metadata(context.get_metadata(_METADATA_KEY)))
            context.resources.insert(found)
        return found

    def replace(self, items: Sequence[TodoItem], context: AgentContext) -> None:
        """Replace all items, here and in the saved metadata."""
        self.items = tuple(items)
        context.set_metadata(
            _METADATA_KEY, [{"content": item.content, "status": str(item.status)} for item in items]
        )

    def __str__(self) -> str:
        marks = {TodoStatus.PENDING: " ", TodoStatus.IN_PROGRESS: "~", TodoStatus.COMPLETED: "x"}
        return "\n".join(f"[{marks[item.status]}] {item.content}" for item in self.items)


class Todo:
    """Replaces the agent's list of things to do by one from the model."""

    name = "Todo"
    description = (
        "Keep a list of the steps of a longer task, so that none is forgotten and the user sees how"
        " far you are. Send the whole list each time; it replaces the last one. Mark a step"
        " in_progress before you begin it, and completed as soon as it is done; have one step in"
        " progress at a time. A task of one or two steps needs no list."
    )
    category = "plan"
    requires_permission = False
    parameters: Mapping[str, object] = {
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": _MAX_ITEMS,
                "description": "The whole list, in the order of the work.",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": _MAX_CONTENT,
                            "description": "What is to be done.",
                        },
                        "status": {
                            "type": "string",
                            "enum": [str(status) for status in TodoStatus],
                        },
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the list that would be written."""
        return ToolInfo("Update the list of things to do", str(TodoList(_items(input["todos"]))))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Write the list, and show it to the model as it is now."""
        todos = TodoList.of(context)
        todos.replace(_items(input["todos"]), context)
        done = sum(item.status is TodoStatus.COMPLETED for item in todos.items)
        summary = f"{done} of {len(todos.items)} completed"
        return ToolResult.ok(f"{summary}\n{todos}" if todos.items else "The list is empty.")


def _items(value: object) -> tuple[TodoItem, ...]:
    """Read items that have been validated."""
    entries = cast("list[dict[str, str]]", value)
    return tuple(TodoItem(entry["content"], TodoStatus(entry["status"])) for entry in entries)


def _from_metadata(value: object) -> tuple[TodoItem, ...]:
    """Read the list of a session; foreign data under our key counts as no items."""
    try:
        return _items(value)
    except (TypeError, KeyError, ValueError):
        return ()
