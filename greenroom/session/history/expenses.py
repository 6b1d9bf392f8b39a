"""What a session has used so far, as far as it is on record."""

from greenroom.core import Message, Usage, Used


class Expenses:
    """Adds up the model calls and tool calls of a history; what is rewound stays paid."""

    def __init__(self) -> None:
        """Begin with nothing used."""
        self._used = Used()
        # Added up when somebody asks: loading a long conversation is to stay quick.
        self._usages: list[Usage] = []
        self._model_calls = 0
        self._tool_calls = 0

    def note_message(self, message: Message) -> None:
        """Count a reply or a summary, if a model has written it."""
        if message.provider or message.usage is not None:
            self._model_calls += 1
            if message.usage is not None:
                self._usages.append(message.usage)

    def note_tool_calls(self, count: int) -> None:
        """Count calls that start; a negative number takes back what did not start after all."""
        self._tool_calls += count

    @property
    def used(self) -> Used:
        """The sum of it all."""
        usage = sum(self._usages, self._used.usage)
        self._usages.clear()
        self._used = Used(usage, self._model_calls, self._tool_calls)
        return self._used
