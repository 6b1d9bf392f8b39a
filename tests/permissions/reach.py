"""Commands that would do harm, with unknown and odd spellings spliced into every word of them.

`SEEDS` reach a denied file, a denied program or a protected place as they are written. `generate`
rewrites one word of one of them, or all of it, in a way that means the same to bash, or may.
"""

import base64
import random
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from greenroom.permissions import PermissionRule


def _rows(name):
    text = (Path(__file__).with_name("reach_tables") / f"{name}.txt").read_text()
    return tuple(row.replace("⏎", "\n") for row in text.splitlines())


# Everything that the commands here use may run and write, as far as no denial or protection says
# otherwise: so that only those hold.
PROGRAMS = _rows("programs")


def rules(*, final=False, tool=False):
    """Allow the programs, or the tool as a whole; deny some paths and a program."""
    return (
        PermissionRule.allow_tool("Bash") if tool else PermissionRule.allow_command(*PROGRAMS),
        PermissionRule.allow_path("**"),
        PermissionRule.deny_path("secrets/**", "**/.env", final=final, priority=1),
        PermissionRule.deny_command("evil", final=final, priority=1),
    )


# Commands that would read `secrets/key` or a `.env`; run the program `evil`, which is there to be
# seen; run it by an option, a setting or a script of another language, or delete `src/canary`;
# write where programs run by themselves; and that do more than read in the workspace, if only a
# little.
READING, RUNNING, HIDING = _rows("reading"), _rows("running"), _rows("hiding")
WRITING, PRYING = _rows("writing"), _rows("prying")
SEEDS = tuple(dict.fromkeys((*READING, *RUNNING, *HIDING, *WRITING, *PRYING)))

# Plain commands, which the same rules allow.
HARMLESS = _rows("harmless")

_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\;&|<>()])+""")


@dataclass(frozen=True)
class Attempt:
    """A command that would do harm if it meant what its seed does."""

    text: str
    seed: str
    splices: tuple[str, ...]


@dataclass(frozen=True)
class Splice:
    """One way to write a word or a command otherwise, and the table that it is a row of."""

    table: str
    template: str
    name: str = ""

    def apply(self, text, choose):
        """Rewrite a word that is chosen, or the whole command."""
        if self.table == "frame":
            return _fill(self.template, text)
        words = [match.span() for match in _WORD.finditer(text)] or [(0, len(text))]
        return self.at(text, *choose.choice(words), choose)

    def at(self, text, start, end, choose):
        """Rewrite the word at a place of a text."""
        word = text[start:end]
        if self.table == "binding":
            head, tail = _halves(word, choose)
            parts = {"word": word, "head": head, "tail": tail}
            command = text[:start] + self.name.format(**parts) + text[end:]
            return self.template.format(command=command, quoted=shlex.quote(command), **parts)
        if self.table == "folder":
            return text[:start] + self.template + text[start:]
        first, last = _part(word, choose, empty=self.table == "nothing")
        spelling = (
            self.template if self.table == "nothing" else _fill(self.template, word[first:last])
        )
        return text[:start] + word[:first] + spelling + word[last:] + text[end:]


def _halves(word, choose):
    at = (
        word.rfind("/") + 1
        if "/" in word and choose.random() < 0.4
        else choose.randrange(len(word) + 1)
    )
    return word[:at], word[at:]


def _part(word, choose, *, empty):
    """Choose the beginning, the middle, the end or the whole of a word."""
    length = len(word)
    middle = choose.randrange(length + 1)
    if empty:
        return choose.choice(((0, 0), (middle, middle), (middle, middle), (length, length)))
    other = choose.randrange(length + 1)
    first, last = sorted((middle, other))
    first, last = choose.choice(((0, length), (0, last), (first, length), (first, last)))
    return (first, last) if first < last else (0, length)


def _fill(template, part):
    at = len(part) // 2
    quoted = shlex.quote(part)
    more = {
        "quoted": quoted,
        "twice": shlex.quote(quoted),
        "envs": shlex.quote(f"bash -c {quoted}"),
        "reverse": part[::-1],
        "upper": part.upper(),
        "octal": "".join(f"\\{ord(char):03o}" for char in part),
        "hex": "".join(f"\\x{ord(char):02x}" for char in part),
        "unicode": "".join(f"\\u{ord(char):04x}" for char in part),
        "backslashes": "".join(f"\\{char}" for char in part),
        "glob": "?" * len(part),
        "classes": "".join(f"[{char}]" if char.isalnum() else char for char in part),
        "negated": "".join("[!~]" if char.isalnum() else char for char in part),
        "star": f"{part[:at]}*",
        "split": f"{part[:at]}{{{part[at:]},zz}}",
        "range": f"{{{part}..{part}}}" if len(part) == 1 else f"{{{part},z{{a..b}}}}",
        "base64": base64.b64encode(part.encode()).decode(),
    }
    return template.format(part, **more)


def _bindings():
    for row in _rows("bindings"):
        name, _, template = row.partition(" <- ")
        yield Splice("binding", template, name)


# What may stand at any place of a word and be nothing; for a part of it and be that part; before a
# path in the workspace; what may bring a word about, and stand around a command.
SPLICES = (
    *(Splice("nothing", row) for row in _rows("nothing")),
    *(Splice("spelling", row) for row in _rows("spellings")),
    *(Splice("folder", row) for row in _rows("folders")),
    *_bindings(),
    *(Splice("frame", row) for row in _rows("frames")),
)


def generate(count, seed):
    """Rewrite each word of each seed in turn, each time in the next way; some twice.

    The same seed gives the same commands, and no two of them are alike.
    """
    choose = random.Random(seed)
    places = [(text, *match.span()) for text in SEEDS for match in _WORD.finditer(text)]
    choose.shuffle(places)
    ways = list(SPLICES)
    found = {}
    number = 0
    while len(found) < count:
        if number % len(ways) == 0:
            choose.shuffle(ways)
        text, start, end = places[number % len(places)]
        attempt = _rewrite(text, start, end, ways[number % len(ways)], choose)
        found.setdefault(attempt.text, attempt)
        number += 1
    return list(found.values())


def _rewrite(seed, start, end, way, choose):
    used = [way]
    text = way.apply(seed, choose) if way.table == "frame" else way.at(seed, start, end, choose)
    if choose.random() < 0.25:
        used.append(choose.choice(SPLICES))
        text = used[-1].apply(text, choose)
    return Attempt(text, seed, tuple(each.template for each in used))
