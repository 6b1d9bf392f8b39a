"""What a conversation has used, as its history says."""

from greenroom.core import Message, Usage
from greenroom.core._internal import Used


class Expenses:
    """Adds up the model calls and tool calls of a history; what is rewound stays paid."""

    def __init__(self) -> None:
        self._used = Used()
        # Summed only when asked for, to load a long conversation quickly.
        self._usages: list[Usage] = []
        self._model_calls = 0
        self._tool_calls = 0

    def note_message(self, message: Message) -> None:
        """Count a reply or a summary, if a model wrote it."""
        if message.provider or message.usage is not None:
            self.note_call(message.usage)

    def note_call(self, usage: Usage | None) -> None:
        """Count a model call, with its usage as far as that is known."""
        self._model_calls += 1
        if usage is not None:
            self._usages.append(usage)

    def note_tool_calls(self, count: int) -> None:
        """Count calls that start; a negative count takes back calls that did not."""
        self._tool_calls += count

    @property
    def used(self) -> Used:
        """The sum of all model and tool calls."""
        usage = sum(self._usages, self._used.usage)
        self._usages.clear()
        self._used = Used(usage, self._model_calls, self._tool_calls)
        return self._used
