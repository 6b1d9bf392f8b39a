"""A tool call in a few words, where nothing but its input is at hand: a denied one, a stored one."""

from collections.abc import Mapping

from greenroom.core import clip, serde, visible

_KEYS = ("command", "file_path", "pattern", "url", "prompt")
_LONGEST = 120


def call_words(input: Mapping[str, object]) -> str:  # noqa: A002 - the word that models and tools use
    """Say on what a call works: its command, file, pattern, address or prompt, else its JSON.

    Example:
        >>> call_words({"file_path": "a.py", "old_string": "x"}), call_words({"a": 1})
        ('a.py', '{"a":1}')
    """
    values = (input.get(key) for key in _KEYS)
    words = next((value for value in values if value and isinstance(value, str)), None)
    text = serde.encode(dict(input)).decode() if words is None else " ".join(words.split())
    return visible(clip(text, _LONGEST))
