"""Tests for the embedder without a model."""

from greenroom.testing import HashEmbedder


async def test_a_text_whose_words_cancel_out_is_close_to_no_word():
    embedder = HashEmbedder(32)
    numbers = [f"number{number}" for number in range(100)]
    texts = await embedder.embed([f"fact {number}" for number in numbers])
    cancelled = [vector for vector in texts if not any(vector[1:])]
    assert cancelled
    for vector in cancelled:
        for word in await embedder.embed(numbers):
            assert sum(a * b for a, b in zip(vector, word, strict=True)) < 0.001
