"""Guards: functions that look at what is said, to pass it, change it or stop it."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents.run_context import RunContext
from greenroom.core import RUNTIME, ConfigurationError, ContentBlock, GuardError, Message, TextBlock

if TYPE_CHECKING:
    from greenroom.core import ConversationInput
    from greenroom.session import AgentSession

_UNSEEN = "agent.unseen"  # a record: the ids of inputs

DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=None)
DepsT = TypeVar("DepsT", default=None)


@dataclass(frozen=True)
class Rewrite:
    """Say this instead of what the guard was given."""

    text: str


@dataclass(frozen=True)
class Reject:
    """End the turn; the reason is published, the rejected text is not."""

    reason: str


Verdict: TypeAlias = Rewrite | Reject | None


@dataclass(frozen=True)
class Guard(Generic[DepsT_contra]):
    """A function that looks at a text before anyone else sees it.

    It is given the `RunContext` and the text, and returns None, a `Rewrite` or a `Reject`; it may be
    async, and ask another model. What it raises itself is a bug, and ends the agent.

    Attributes:
        check: the function.
        on: "input" looks at what the agent is sent, before it joins the conversation; "text" at what the
            model writes, piece by piece while it comes, each with the `window` before it; "output" at the
            whole of the last reply, which no one sees before it. A value that is given by a tool call is
            looked at by both of these as JSON. A text guard sees a piece again, as it was rewritten, with
            the next one: what it writes itself it must leave as it is.
        window: with "text", how much is held back: what has to be seen in one piece to be recognised may
            be so many characters long.

    Raises:
        ConfigurationError: `on` is another word, or the window negative.

    Example:
        >>> from greenroom import Agent, Guard, Reject
        >>> from greenroom.testing import ScriptedProvider
        >>> def no_keys(context, text):
        ...     return Reject("it holds a key") if "sk-" in text else None
        >>> agent = Agent(ScriptedProvider("The key is sk-1."), guards=[Guard(no_keys, on="text")])
        >>> result = agent.run_sync("What is the key?")
        >>> str(result.status), result.text, result.error.message
        ('failed', '', 'no_keys has rejected the text: it holds a key')
    """

    check: Callable[[RunContext[DepsT_contra], str], Verdict | Awaitable[Verdict]]
    on: Literal["input", "text", "output"] = "output"
    window: int = 200

    def __post_init__(self) -> None:
        if not callable(self.check):
            raise ConfigurationError(f"{self.check!r} is not a function of a context and a text")
        if self.on not in ("input", "text", "output"):
            raise ConfigurationError(
                f"a guard on {self.on!r}", hint='write on="input", "text" or "output"'
            )
        if isinstance(self.window, bool) or not isinstance(self.window, int) or self.window < 0:
            raise ConfigurationError(f"the window is {self.window!r}", hint="give 0 or more")

    @property
    def name(self) -> str:
        """What it is called, in errors and chunks: its function's name."""
        return str(getattr(self.check, "__name__", type(self.check).__name__))

    async def judge(self, context: RunContext[DepsT_contra], text: str) -> str:
        """Return the text, or what is to be said instead.

        Raises:
            GuardError: it is rejected.
        """
        found = self.check(context, text)
        verdict = await found if inspect.isawaitable(found) else found
        match verdict:
            case None:
                return text
            case Rewrite(changed):
                return changed
            case Reject(reason):
                raise GuardError(f"{self.name} has rejected the {self.on}: {reason}")
            case _:
                raise TypeError(f"the guard {self.name} returned {type(verdict).__name__}")


class Guards(Generic[DepsT]):
    """The guards of one agent, by what they look at."""

    def __init__(
        self, guards: Sequence[Guard[DepsT]], context: Callable[[], RunContext[DepsT]]
    ) -> None:
        """Take guards, and what makes their context."""
        self._guards = guards
        self.context = context

    def of(self, on: str) -> list[Guard[DepsT]]:
        """Return those that look at one thing, in their order."""
        return [guard for guard in self._guards if guard.on == on]

    async def judge(self, on: str, text: str) -> str:
        """Let them look at a whole text, one after the other.

        Raises:
            GuardError: one has rejected it.
        """
        for guard in self.of(on):
            text = await guard.judge(self.context(), text)
        return text

    async def judge_input(self, message: "ConversationInput | Message") -> tuple[ContentBlock, ...]:
        """Return what of an input joins the conversation.

        Raises:
            GuardError: nothing does.
        """
        said = "".join(block.text for block in message.content if isinstance(block, TextBlock))
        text = await self.judge("input", said)
        if text == said:
            return tuple(message.content)
        others = (block for block in message.content if not isinstance(block, TextBlock))
        return (TextBlock(text), *others)

    async def judge_unseen(self, session: "AgentSession") -> None:
        """Look at the inputs that joined a conversation unseen, since a check was broken off.

        One that is rejected now makes room for a note that says so.
        """
        unseen = _unseen(session)
        if not unseen:
            return
        history = [
            await self._judge_again(message) if message.id in unseen else message
            for message in session.history
        ]
        session.add_record(_UNSEEN, [])
        await session.rewrite(history)

    async def _judge_again(self, message: Message) -> Message:
        try:
            return replace(message, content=await self.judge_input(message))
        except GuardError as error:
            return replace(message, content=rejected(error), sender=RUNTIME)


def rejected(error: GuardError) -> tuple[TextBlock]:
    """Return what replaces a rejected input."""
    return (TextBlock(f"[{error.message}]"),)


def note_unseen(session: "AgentSession", message_id: str) -> None:
    """Note that an input has joined the conversation before the guards had seen it."""
    session.add_record(_UNSEEN, [*_unseen(session), message_id])


def _unseen(session: "AgentSession") -> list[str]:
    return msgspec.convert(session.last_record(_UNSEEN) or [], list[str])
