"""A model that says again what was said before."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from greenroom.core import Message, ModelBadRequestError, ModelRequest
from greenroom.llm.replay import replay
from greenroom.llm.stream import ModelStream, collect


class RecordedProvider:
    """Replays the assistant's messages of a session, one for each request, in their order.

    Example:
        >>> import trio
        >>> model = RecordedProvider([Message.user("hi"), Message.assistant("hello")])
        >>> trio.run(model.generate, ModelRequest(messages=[Message.user("anything")])).text
        'hello'
    """

    name = "recorded"

    def __init__(self, messages: Iterable[Message]) -> None:
        """Take a session's history; the user's messages in it are passed over."""
        replies = [message for message in messages if message.role == "assistant"]
        self.model = next((reply.model for reply in replies if reply.model), "recording")
        self._count = len(replies)
        self._replies = iter(replies)

    def __repr__(self) -> str:
        return f"RecordedProvider(<{self._count} replies>)"

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Replay the next reply, whatever is asked.

        Raises:
            ModelBadRequestError: all replies have been replayed.
        """
        reply = next(self._replies, None)
        if reply is None:
            raise ModelBadRequestError(
                f"the recording has ended after {self._count} replies",
                provider=self.name,
                hint="the session asked for more than was recorded; use a model to go on",
            )
        return replay(reply)

    async def generate(self, request: ModelRequest) -> Message:
        """Return the next reply, whatever is asked.

        Raises:
            ModelBadRequestError: all replies have been replayed.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""
