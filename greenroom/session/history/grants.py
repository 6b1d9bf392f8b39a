"""What a person has decided for the rest of a session: the rules that were made of the answers."""

from collections.abc import Callable, Iterable


class Grants:
    """The rules in order, and at which place of the conversation each was given.

    A rule is a JSON object here; what it says is for others to read.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._places: list[int] = []
        self.rules: tuple[dict[str, object], ...] = ()
        """The rules; the same tuple until they change, and not to be changed from outside."""

    def add(self, rules: Iterable[dict[str, object]], place: int) -> None:
        """Take rules that were given when the conversation had so many messages."""
        self.rules += tuple(rules)
        self._places += [place] * (len(self.rules) - len(self._places))

    def revoke(self) -> None:
        """Forget them all for good: no rewind brings them back."""
        self._places, self.rules = [], ()

    def rewind(self, to: int) -> None:
        """Forget what was given behind this place, or just at it."""
        # What was given at the end stands behind the last message that is left, and goes with it.
        kept = sum(place < to for place in self._places)
        del self._places[kept:]
        self.rules = self.rules[:kept]

    def move(self, to: Callable[[int], int]) -> None:
        """Keep them where other messages take the place of those before them."""
        self._places = [to(place) for place in self._places]
