"""Words of commands: what they say, and how much of it is certain."""

from dataclasses import dataclass

__all__ = ["Word"]


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, after quote removal.

    Attributes:
        text: its text; what is only known at run time stands as it was written.
        dynamic: part of it is only known at run time.
        pattern: it holds unquoted characters that match file names.
        split: it is dynamic outside quotes, so it may become several words, or none.
        quoted: part of it was quoted, so it is no keyword and no tilde path.
    """

    text: str
    dynamic: bool = False
    pattern: bool = False
    split: bool = False
    quoted: bool = False

    @property
    def static(self) -> bool:
        """Whether the text is exactly what the program will be given."""
        return not (self.dynamic or self.pattern)
