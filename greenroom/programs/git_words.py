"""What words of git name: files in trees such as `HEAD:key`, pathspecs such as `:/key`, and all.

Many verbs print the contents of files that no word names, such as `git diff`. They print what git
tracks now, and with a revision what it tracked before: what that was is not looked up, but a file
that is there now counts. So a file that is neither there nor tracked any more may be missed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from greenroom.programs.invocation import Invocation, read_invocation
from greenroom.programs.reach import REACH

_ELSEWHERE = re.compile(r"--(?:git-dir|work-tree|bare)|GIT_(?:DIR|WORK_TREE|INDEX|OBJ|ALT|COMMON)")
_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]*):?)")
_WILD = re.compile(r"[*?\[]")
_MESSAGE = re.compile(r"-[A-Za-z]*m|--message")
_PATCH = re.compile(
    r"-[A-Za-z]*[pUuLWcv]|--(?:pa|cc|bi|un|uni|dd|diff-m|rem|func|word|color-w|show-c|verb|check)"
)
_NO_CHANGE = re.compile(r"--(?:check|stat|numstat|summary|abort|quit)\Z")  # of apply and am
_CHANGES = re.compile(r"--(?:ap|no-)")
_CHOOSES = re.compile(r"-[A-Za-z]*[eip]|--(?:pa|ed|int)")
_NO_PATCH = re.compile(r"--(?:\w*stat|name-|summ|compact|no-pat|quiet)|-s\Z")
# A file or folder in a tree, not the text of a commit, such as `HEAD^{/a:b}` and `:/text`.
_IN_TREE = re.compile(r"[^:{}]*(?:\{[^:{}]*\}[^:{}]*)*:(?![/(!^])")
# What may be a file's contents, which are printed whatever paths and options are given.
_OBJECT = re.compile(r"\^?[0-9a-fA-F]{4,}(?:\^\{.*\})?|.*\^\{(?:blob|object|)\}", re.DOTALL)


def find_git_verb(argv: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Find the position of git's verb, and the folders that it enters before, as `-C` says.

    Example:
        >>> find_git_verb("git -C sub -c a=b log -3".split())
        (5, ['sub'])
    """
    invocation = read_invocation(argv)
    at = invocation.start - (invocation.program.name.count(" ") > 1)  # such as `stash show`
    before = (part for part in invocation.parts if part.at < at)
    return at, [part.value or "" for part in before if part.option == "-C"]


class GitWords(NamedTuple):
    """The words of a command of git, as git understands them.

    Attributes:
        verb: its verb, such as "log".
        at: the position of the verb.
        words: the words behind the verb that are not only text.
        options: those that surely are options, and not the value of one.
        is_elsewhere: whether an option or variable names another repository, or a patch the files.
        operands: the words before `--` that are no options.
        paths: the paths among the words, as far as the verb takes some.
        excluded: the pathspecs of files to leave out.
    """

    verb: str
    at: int
    words: Sequence[str]
    options: Sequence[str]
    is_elsewhere: bool
    operands: Sequence[str]
    paths: Sequence[str]
    excluded: Sequence[str]

    @classmethod
    def of(
        cls, invocation: Invocation, settings: Sequence[str], exists: Callable[[str], bool]
    ) -> "GitWords":
        """Find the words of a command.

        Args:
            invocation: the command.
            settings: the variables that are set for it, such as "GIT_DIR=x".
            exists: whether there surely is a file of this name, so that git takes it for a path.
        """
        argv, parts, (at, _) = invocation.argv, invocation.parts, find_git_verb(invocation.argv)
        verb, words = "".join(argv[at : at + 1]), argv[at + 1 :]
        if verb in REACH["git messages"]:
            words = tuple(_leave_out_messages(words))
        if verb == "grep" and not any("$" in part.marks for part in parts):
            pattern = next((part.at for part in parts if not part.option and part.at > at), 0)
            words = (*argv[at + 1 : pattern], *argv[pattern + 1 :]) if pattern else words
            parts = tuple(part for part in parts if part.at != pattern)
        # Git also takes the next word for a value that is said to be attached.
        open_ = (p for p in parts if p.may_take_next or ("?" in p.marks and p.value is None))
        unclear = {part.at + 1 for part in open_}
        sure = [part for part in parts if part.at > at and part.at not in unclear]
        options = [argv[part.at] for part in sure if part.option]
        named = [argv[part.at] for part in sure if not part.option]
        is_elsewhere = any(map(_ELSEWHERE.match, (*argv[1:at], *settings)))
        changes = any(map(_CHANGES.match, words)) or not any(map(_NO_CHANGE.match, options))
        is_elsewhere |= changes and verb in REACH["git patched"]
        end = words.index("--") if "--" in words else len(words)
        operands = [each for each in words[:end] if each[:1] != "-" and not is_excluded(each)]
        excluded = list(filter(is_excluded, named))
        paths = [each for each in named if each not in excluded]
        if "--" in words:
            paths = [argv[part.at] for part in sure if part.ended and argv[part.at] in paths]
        else:
            paths = [each for each in paths if each[:2] == ":(" or exists(each)]
        if verb not in REACH["git paths"] or any("--" in argv[each : each + 1] for each in unclear):
            paths = []
        return cls(verb, at, words, options, is_elsewhere, operands, paths, excluded)

    def list_located(self) -> Iterator[str]:
        """List the words that name files in another way than other programs' words do."""
        for word in self.words:
            if not is_excluded(word) and (word.startswith(":") or _IN_TREE.match(word)):
                yield word

    def list_patterns(self) -> Iterator[str]:
        """List the words with wildcards that stand for more than names."""
        if self.verb not in REACH["git names"] or self.list_printed() is not None:
            for word in self.words:
                if word[:1] != "-" and _WILD.search(word) and not is_excluded(word):
                    yield locate(word)[0]

    def list_printed(self) -> Sequence[str] | None:
        """List the words that name what it may print; None if it prints nothing that is not named.

        An empty list stands for all files.
        """
        has_patch = any(map(_PATCH.match, self.words))
        verbs = {self.verb, *(f"{self.verb}/{word}" for word in self.words)}
        prints = not verbs.isdisjoint(REACH["git prints"])
        prints = prints or (has_patch and self.verb in REACH["git patches"])
        chooses = any(map(_CHOOSES.match, self.options))
        prints = prints or (chooses and self.verb in REACH["git choices"])
        others = (each for each in self.operands if each not in self.paths)
        is_object = any(map(_OBJECT.fullmatch, others))
        if self.verb in ("diff", "show") and not (has_patch or is_object):
            prints = not any(map(_NO_PATCH.match, self.options))
        if self.verb == "clone":
            is_here = self.paths or any(each.startswith("file:") for each in self.operands)
            return () if is_here else None  # from another machine
        if not prints:
            return None
        return () if is_object else [*self.paths, *filter(_IN_TREE.match, self.operands)]

    @property
    def reads_history(self) -> bool:
        """Whether what it prints may be what is not tracked any more."""
        return self.verb not in REACH["git index"] or not set(self.operands) <= set(self.paths)


def locate(word: str) -> tuple[str, bool]:
    """Find the name in a pathspec or behind a revision, and whether it may begin at the top.

    Example:
        >>> locate(":/key"), locate("HEAD:sub/key"), locate("key")
        (('key', True), ('sub/key', True), ('key', False))
    """
    magic = _MAGIC.match(word)
    if not magic and not _IN_TREE.match(word):
        return word, False
    return (word[magic.end() :] if magic else word.partition(":")[2]) or ".", True


def is_excluded(word: str) -> bool:
    """Return whether a pathspec names files to leave out, as `:!key` does."""
    magic = _MAGIC.match(word)
    return magic is not None and ("exclude" in (magic[1] or "") or (magic[2] or "/") != "/")


def _leave_out_messages(words: Sequence[str]) -> Iterator[str]:
    is_message = False
    for word in words:
        if not is_message and not re.match(r"-m.|--message=", word):
            yield word
        is_message = _MESSAGE.fullmatch(word) is not None
