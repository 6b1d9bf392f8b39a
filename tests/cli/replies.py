"""Random replies of a model, the letters that a person has to see of them, and random pieces."""

import re
import unicodedata
from itertools import pairwise

from markdown_it import MarkdownIt

from greenroom.core._internal import legible

_PLAIN = """
the of render props state value list a I to über naïve çok ßtraße x1 42 3.14 don't e.g.
List<String> Map<K,V> <App/> <Suspense> <div> </p> a<b>c vec![] &amp; &lt; &copy; &#x202e;
** * _ ` ~~ [ ] ( ) ! # > | \\ \\* snake_case_name 2*3*4 ~/x a_b_ <!--x--> [^1] [1]
⚠️ ✔️ ℹ️ 1️⃣ 👍🏽 👨‍👩‍👧 ❤️‍🔥 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🚀 😀 → ✓ ★
می‌خواهم نمی‌دانم سلام هستند कृष्णः हिन्दी क्षत्रिय विद्यार्थी 漢字 かな 한국어 ไทย עברית
"""
_ODD = ["a\x1bb", "\x1b[31mred", "\x9b2J", "b\x07", "\u202eexe", "z\u200bw", "\x00n", "q\x7f"]
WORDS = [*_PLAIN.split(), *_ODD]
INLINE = ["**{}**", "*{}*", "`{}`", "~~{}~~", "[{}](https://e.test/)", "_{}_", "![{}](p.png)"]


def words(rng, count):
    found = []
    for _ in range(count):
        word = rng.choice(WORDS)
        found.append(rng.choice(INLINE).format(word) if rng.random() < 0.15 else word)
    return " ".join(found)


def code(rng):
    lines = [
        f"{'  ' * rng.randrange(4)}{words(rng, rng.randrange(12))}"
        for _ in range(rng.choice((3, 30, 150)))
    ]
    body = "\n".join(line.replace("`", "'") for line in lines)
    return f"```{rng.choice(['', 'python', 'html', 'jsx', 'no-such'])}\n{body}\n```"


def table(rng):
    width = rng.choice((2, 3, 9))
    rows = [
        [words(rng, rng.randrange(1, 9)).replace("|", "/") for _ in range(width)] for _ in range(4)
    ]
    rows.insert(1, ["---", ":-:", "--:", *["-"] * 6][:width])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def items(rng):
    marks = ["- ", "* ", f"{rng.randrange(90)}. ", "1) ", "- [ ] ", "- [x] "]
    gap = rng.choice(("\n", "\n\n"))
    mark = rng.choice(marks)
    return gap.join(
        f"{mark}{words(rng, 8)}" + (f"\n    - {words(rng, 5)}" if rng.random() < 0.3 else "")
        for _ in range(rng.randrange(1, 6))
    )


BLOCKS = [
    lambda rng: words(rng, rng.choice((3, 20, 90))),
    lambda rng: "\n".join(words(rng, 9) for _ in range(4)),
    lambda rng: f"{'#' * rng.randrange(1, 5)} {words(rng, 5)}",
    code,
    table,
    items,
    lambda rng: f"> {words(rng, 30)}\n> {words(rng, 4)}",
    lambda rng: f"<div class='{words(rng, 1)}'>\n  <p>{words(rng, 9)}</p>\n</div>",
    lambda rng: f"<!-- {words(rng, 4)}\n\n{words(rng, 3)} -->",
    lambda rng: (
        f"[ref{rng.randrange(9)}]: https://e.test/{rng.randrange(99)}\n[^2]: {words(rng, 6)}"
    ),
    lambda rng: "const f = <T,>(x: Array<T>): Promise<void> => <Row key={x}>…</Row>",
    lambda rng: rng.choice(("***", "---")),
    lambda rng: " ".join(words(rng, 1) for _ in range(1700))[:10_000],
    lambda rng: rng.choice("x字é") * rng.choice((200, 3000)),
]


def reply(rng):
    """Return a reply of a few blocks."""
    blocks = [rng.choice(BLOCKS)(rng) for _ in range(rng.randrange(1, 7))]
    if rng.random() < 0.1:
        blocks.insert(0, f"---\ntitle: {rng.randrange(99)}\nlayout: page\n---")
    # Without a blank line a text is one block, and one of more than 12,000 letters comes in parts.
    is_long = sum(map(len, blocks)) > 10_000
    return "\n\n".join(blocks) if is_long or rng.random() < 0.7 else "\n".join(blocks)


def pieces(rng, text):
    """Cut a text into pieces of random lengths."""
    longest = rng.choice((3, 40, 4000))
    cuts = [0]
    while cuts[-1] < len(text):
        cuts.append(cuts[-1] + rng.randrange(1, longest + 1))
    return [text[start:end] for start, end in pairwise(cuts)]


_PARSER = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable(["reference"])
_TASK = re.compile(r"\[[ xX]\]\s")


def _read(tokens, is_item=False):
    """Yield the texts of what was parsed, as they are read."""
    for before, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.children:
            own = "".join(_read(token.children))
            first = before is not None and before.type == "paragraph_open" and is_item
            yield _TASK.sub("", own, count=1) if first and _TASK.match(own) else own
        elif token.type == "list_item_open":
            yield token.info
        elif token.type == "image":
            yield token.content or str(token.attrs["src"])
        elif token.type == "link_open" and not (following.content or following.children):
            yield str(token.attrs["href"])
        elif not token.children:
            yield token.content
        if token.type not in ("paragraph_open", "inline"):
            is_item = token.type == "list_item_open"


def is_letter(character):
    """Whether it is a letter, a digit or a pictograph, and not a sign that frames are made of."""
    if "\u2500" <= character <= "\u25ff" or character in "☐☑":
        return False
    return unicodedata.category(character)[0] in "LNM" or unicodedata.category(character) == "So"


def letters(text):
    """Return the letters, digits and pictographs of a text."""
    return "".join(filter(is_letter, text))


def read_letters(markdown):
    """Return the letters of a reply as a person reads it."""
    front = re.match(r"---\n(?=[\w-]+:)(?:(?!---).*\n)*---(?:\n|\Z)", markdown)
    matter, rest = (front[0], markdown[front.end() :]) if front else ("", markdown)
    return letters(legible(matter + "\n".join(_read(_PARSER.parse(rest)))))
