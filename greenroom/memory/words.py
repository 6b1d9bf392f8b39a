"""Split texts into words, for the index and for questions.

Case and accents don't count. `snake_case`, `camelCase` and `HTTPServer` are found by their parts
and as a whole; scripts without spaces, such as Chinese, by pairs of characters.
"""

import re
import unicodedata

_LONGEST = 64  # characters of a word; what follows is cut off, as of a key in base64

_RUN = re.compile(r"\w+")
_PART = re.compile(r"[^\W\d_a-z]+(?=[^\W\d_a-z][a-z])|[^\W\d_a-z]?[a-z]+|[^\W\d_]+|\d+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")

_STOP_WORDS = """
a about after again all also am an and any are as at be because been before being but by can
could d did do does doing don done down each few for from had has have having he her here
hers him his how i if in into is it its just ll m me more most my no nor not now of off on
once only or other our ours out over own please re s same she should so some such t tell
than that the their theirs them then there these they this those through to too under until
up us ve very was we were what when where which while who whom whose why will with would you
your yours
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that carry no meaning in a search."""


def words(text: str) -> list[str]:
    """Split a text into words, with repetitions.

    Example:
        >>> words("Café: parseJSON of snake_case")
        ['cafe', 'parsejson', 'parse', 'json', 'of', 'snakecase', 'snake', 'case']
    """
    if not text.isascii():
        text = _without_accents(text)
    found: list[str] = []
    for run in _RUN.findall(text):
        if run.isascii() and (run.islower() or run.isdigit()) and "_" not in run:
            found.append(run[:_LONGEST])
        else:
            found += _split(run)
    return found


def content_words(text: str) -> list[str]:
    """Return the different words of a question, without stop words unless it has no others.

    Example:
        >>> content_words("What is the port of the test server?"), content_words("who are you")
        (['port', 'test', 'server'], ['who', 'are', 'you'])
    """
    different = list(dict.fromkeys(words(text)))
    return [word for word in different if word not in STOP_WORDS] or different


def _split(run: str) -> list[str]:
    if pairs := _UNSPACED.findall(run):
        rest = [word for piece in _UNSPACED.split(run) for word in words(piece)]
        return [pair for piece in pairs for pair in _pairs(piece)] + rest
    whole = run.replace("_", "").casefold()[:_LONGEST]
    parts = [part.casefold()[:_LONGEST] for part in _PART.findall(run)] if run.isascii() else []
    return [whole, *parts] if len(parts) > 1 else [whole] if whole else []


def _pairs(piece: str) -> list[str]:
    return [piece[at : at + 2] for at in range(len(piece) - 1)] or [piece]


def _without_accents(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in plain if not unicodedata.combining(c)))
