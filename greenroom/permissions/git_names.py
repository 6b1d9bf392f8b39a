"""What words of git name: files in trees such as `HEAD:key`, pathspecs such as `:/key`, and all.

Many verbs print the contents of files that no word names, such as `git diff`. They print what git
tracks now, and with a revision what it tracked before: what that was is not looked up, but a file
that is there now counts. So a file that is neither there nor tracked any more may be missed.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from greenroom.git._internal import find_root
from greenroom.permissions.tables import TABLE
from greenroom.shell._internal import Command, Place

_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})
_ELSEWHERE = re.compile(r"--(?:git-dir|work-tree|bare)|GIT_(?:DIR|WORK_TREE|INDEX|OBJ|ALT|COMMON)")
_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]*):?)")
_WILD = re.compile(r"[*?\[]")
_MESSAGE = re.compile(r"-[A-Za-z]*m|--message")
_PATCH = re.compile(
    r"-[A-Za-z]*[pUuLWcv]|--(?:pa|cc|bi|un|uni|dd|diff-m|rem|func|word|color-w|show-c|verb|check)"
)
_NO_PATCH = re.compile(r"--(?:\w*stat|name-|summ|compact|no-pat|quiet)|-s\Z")
# A file or folder in a tree, not the text of a commit, such as `HEAD^{/a:b}` and `:/text`.
_IN_TREE = re.compile(r"[^:{}]*(?:\{[^:{}]*\}[^:{}]*)*:(?![/(!^])")
# What may be a file's contents, which are printed whatever paths and options are given.
_OBJECT = re.compile(r"\^?[0-9a-fA-F]{4,}(?:\^\{.*\})?|.*\^\{(?:blob|object|)\}", re.DOTALL)


class GitCommand(NamedTuple):
    """A command of git, as git understands it.

    Attributes:
        verb: its verb, such as "log".
        at: the position of the verb.
        words: the words behind the verb that are not only text.
        place: where paths among them begin.
        top: where files in trees begin: the folders of the repositories.
        is_elsewhere: whether an option or variable names another repository.
    """

    verb: str
    at: int
    words: Sequence[str]
    place: Place
    top: Place
    is_elsewhere: bool

    @classmethod
    def of(cls, command: Command, place: Place) -> "GitCommand":
        """Find the verb and the folders of a command."""
        argv, at = command.argv, 1
        while at < len(argv) and argv[at].startswith("-"):
            if argv[at] == "-C":
                place = place.move("".join(argv[at + 1 : at + 2]))
            at += 1 + (argv[at] in _VALUED)
        before, verb = argv[1:at], "".join(argv[at : at + 1])
        words = argv[at + 1 :]
        if verb in TABLE["git messages"]:
            words = tuple(_leave_out_messages(words))
        if verb == "grep" and not any("$" in part.marks for part in command.invocation.parts):
            pattern = next(
                (p.at for p in command.invocation.parts if not p.option and p.at > at), 0
            )
            words = (*argv[at + 1 : pattern], *argv[pattern + 1 :]) if pattern else words
        roots = tuple(dict.fromkeys(filter(None, map(find_root, place.folders))))
        top = replace(place, folder=roots[0], others=roots[1:]) if roots else place
        is_elsewhere = any(map(_ELSEWHERE.match, (*before, *command.settings)))
        return cls(verb, at, words, place, top, is_elsewhere)

    def locate(self, word: str) -> tuple[str, Sequence[Place]]:
        """Find the name in a pathspec or behind a revision, and where it may begin."""
        magic = _MAGIC.match(word)
        if not magic and not _IN_TREE.match(word):
            return word, (self.place,)
        name = word[magic.end() :] if magic else word.partition(":")[2]
        return name or ".", (self.place, self.top)

    def list_located(self) -> Iterator[str]:
        """List the words that name files in another way than other programs' words do."""
        for word in self.words:
            if not self.excludes(word) and (word.startswith(":") or _IN_TREE.match(word)):
                yield word

    def list_patterns(self) -> Iterator[str]:
        """List the words with wildcards that stand for more than names."""
        if self.verb not in TABLE["git names"] or self.list_printed() is not None:
            for word in self.words:
                if word[:1] != "-" and _WILD.search(word) and not self.excludes(word):
                    yield self.locate(word)[0]

    def list_printed(self) -> Sequence[str] | None:
        """List the words that name what it may print; None if it prints nothing that is not named.

        An empty list stands for all files.
        """
        has_patch = any(map(_PATCH.match, self.words))
        verbs = {self.verb, *(f"{self.verb}/{word}" for word in self.words)}
        prints = not verbs.isdisjoint(TABLE["git prints"])
        prints = prints or (has_patch and self.verb in TABLE["git patches"])
        operands, paths = self._split_words()
        is_object = any(_OBJECT.fullmatch(each) for each in operands if each not in paths)
        if self.verb in ("diff", "show") and not (has_patch or is_object):
            prints = not any(map(_NO_PATCH.match, self.words))
        if not prints or (self.verb == "clone" and not paths):  # from another machine
            return None
        return () if is_object else [*paths, *filter(_IN_TREE.match, operands)]

    @property
    def reads_history(self) -> bool:
        """Whether what it prints may be what is not tracked any more."""
        operands, paths = self._split_words()
        return self.verb not in TABLE["git index"] or not set(operands) <= set(paths)

    def _split_words(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the operands before `--` and the paths, without those of what to leave out."""
        end = self.words.index("--") if "--" in self.words else len(self.words)
        words = [each for each in self.words[:end] if not each.startswith("-")]
        operands = [each for each in words if not self.excludes(each)]
        if self.verb not in TABLE["git paths"]:
            return operands, ()
        if end < len(self.words):
            return operands, [each for each in self.words[end + 1 :] if not self.excludes(each)]
        return operands, [each for each in operands if each[:2] == ":(" or self._is_there(each)]

    def _is_there(self, name: str) -> bool:
        """Return whether there surely is a file of this name, so that git takes it for a path."""
        paths = [path for use in self.place.guard(name) for path in use.lexical]
        return bool(paths) and all(map(os.path.lexists, paths))

    @staticmethod
    def excludes(word: str) -> bool:
        """Return whether a pathspec names files to leave out, as `:!key` does."""
        magic = _MAGIC.match(word)
        return magic is not None and ("exclude" in (magic[1] or "") or (magic[2] or "/") != "/")


def _leave_out_messages(words: Sequence[str]) -> Iterator[str]:
    is_message = False
    for word in words:
        if not is_message and not re.match(r"-m.|--message=", word):
            yield word
        is_message = _MESSAGE.fullmatch(word) is not None
