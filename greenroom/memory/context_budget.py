"""How the room in a model's window is shared out."""

from dataclasses import KW_ONLY, dataclass

from greenroom.core import ConfigurationError

MIN_ROOM = 64
"""The tokens below which nothing can be said."""


@dataclass(frozen=True)
class ContextBudget:
    """The tokens that a request may take, and the shares of what is said in it.

    What is left of the window after the reply and the overhead is the `room` for messages. A share
    that is not used up goes to the newest messages.

    Attributes:
        window: what the model takes, request and reply together.
        reply: what the reply is to have.
        overhead: what the system prompt and the tools take; a `Compactor` counts it where it is 0.
        recent: the share of the newest messages.
        summary: the share of the summary of what came before.
        recalled: the share of what a memory has recalled; in a summary, of the user's own words.

    Raises:
        ConfigurationError: fewer than 64 tokens are left for messages, or the shares are not
            shares.

    Example:
        >>> ContextBudget(8_000, reply=1_024).room
        6976
    """

    window: int
    _: KW_ONLY
    reply: int = 4096
    overhead: int = 0
    recent: float = 0.5
    summary: float = 0.3
    recalled: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.recent, self.summary, self.recalled)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise ConfigurationError(
                f"the shares {shares} are not parts of one whole", hint="let them add up to 1"
            )
        if self.reply < 0 or self.overhead < 0 or self.room < MIN_ROOM:
            raise ConfigurationError(
                f"a window of {self.window} tokens with {self.reply} for the reply and"
                f" {self.overhead} for prompt and tools leaves {self.room} for messages",
                hint=f"leave {MIN_ROOM} or more: a smaller reply, fewer tools, or a larger model",
            )

    @property
    def room(self) -> int:
        """The tokens that are left for messages."""
        return self.window - self.reply - self.overhead
