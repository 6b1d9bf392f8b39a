"""`HashEmbedder`: vectors for tests, made of the words of a text and of nothing else."""

import re
from collections.abc import Sequence
from hashlib import blake2b


class HashEmbedder:
    """Turns texts into vectors without a model: texts that share words are close to each other.

    The same text always gives the same vector, in any process and on any machine. `synonyms` makes
    words mean the same, so that a test can tell meaning from words.

    Args:
        size: how many numbers a vector has.
        synonyms: words of which all but the first count as the first, such as `[("dog", "hound")]`.

    Example:
        >>> import trio
        >>> embedder = HashEmbedder(size=64, synonyms=[("dog", "hound")])
        >>> one, other = trio.run(embedder.embed, ["a hound", "a dog"])
        >>> len(one), one == other
        (64, True)
    """

    def __init__(self, size: int = 256, synonyms: Sequence[Sequence[str]] = ()) -> None:
        """Begin with no calls."""
        self.name = f"hash-{size}"
        self.size = size
        self.calls = 0
        """How often it was asked, for a test to look at."""
        self._meant = {word: words[0] for words in synonyms for word in words}

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """Return a vector for each text."""
        self.calls += 1
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        vector[0] = 0.01  # so that a text without words has a direction, too
        for word in re.findall(r"\w+", text.casefold()):
            digest = blake2b(self._meant.get(word, word).encode(), digest_size=5).digest()
            vector[int.from_bytes(digest[:4], "big") % self.size] += 1.0 if digest[4] & 1 else -1.0
        return vector
