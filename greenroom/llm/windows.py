"""The context window of a model: how many tokens it takes, and who says so.

A window that the program gives wins. Otherwise the model's server is asked if it can tell, and then
the catalogue. A wrong guess is worse than none: a conversation that is shortened too early loses
what the model could have read, and one that is shortened too late silently loses its beginning. So
a window that none of them states is unknown, except that Ollama has a documented default.
"""

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from greenroom.core import ConfigurationError

WindowSource: TypeAlias = Literal["given", "server", "catalogue", "assumed", "unlimited", "unknown"]
"""Who says how large a window is."""

SMALLEST_WINDOW = 128
"""The fewest tokens that a window may be said to have."""


class ContextWindow(msgspec.Struct, frozen=True):
    """What is known of a model's context window.

    Attributes:
        tokens: the most tokens of a request and its reply together; None if that is unlimited or
            unknown.
        source: who says so: the program ("given"), the model's "server", the "catalogue";
            "assumed", the smallest default of a server that does not say; "unlimited", a model that
            reads no more than the end of a conversation; or "unknown".
        is_final: whether asking again, once the model has replied, would bring nothing new.
    """

    tokens: int | None
    source: WindowSource
    is_final: bool = True


UNKNOWN_WINDOW = ContextWindow(None, "unknown")


@runtime_checkable
class KnowsWindow(Protocol):
    """A provider that knows its model's window, or can ask its server for it."""

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return what is known of the window; its source is "unknown" if that is nothing.

        Args:
            has_replied: whether the model has replied, so that its server has loaded it.
            load: whether to have the server load the model, if it knows the window only then.
        """


async def own_window(
    llm: object, *, has_replied: bool = False, load: bool = False
) -> ContextWindow:
    """Return what a provider itself knows of its model's window."""
    if isinstance(llm, KnowsWindow):
        return await llm.find_window(has_replied=has_replied, load=load)
    return UNKNOWN_WINDOW


def check_window(tokens: int | None) -> int | None:
    """Return the size of a window that a program gives, or None if it gives none.

    Raises:
        ConfigurationError: it is not a whole number, or too small for any conversation.
    """
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise ConfigurationError(f"the window is {tokens!r}", hint="give a whole number of tokens")
    if tokens < SMALLEST_WINDOW:
        raise ConfigurationError(
            f"a window of {tokens} tokens is too small for a conversation",
            hint=f"give {SMALLEST_WINDOW} or more",
        )
    return tokens
