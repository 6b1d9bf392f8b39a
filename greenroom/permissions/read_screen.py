"""The screen of a search: which of the files that it finds the rules keep from it.

A search is judged by the folder that it reads, before anybody knows what is in there. So each file
that it finds is judged once more, as if the call had named just that file: the first rule that is
about the file decides, for the agent and for those above it (`greenroom.permissions.evaluator`).
What a rule denies is left out, and so is what a rule asks about, since nobody was asked about that
file. A question about the call itself is another matter: it was answered before the call ran.

Few of many files have a name that such a rule may be about, so all others are let through at a
glance, as are the files in a folder that is denied as a whole kept back.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, takewhile
from typing import NamedTuple

from msgspec import structs

from greenroom.core import AgentContext, RuleDecision
from greenroom.fs._internal import fold_path
from greenroom.permissions.call import Call
from greenroom.permissions.evaluator import Ruling, evaluate
from greenroom.permissions.patterns import END, PathPattern
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.scopes import RuleIndex
from greenroom.shell._internal import PathUse, Unknown

_MAX_FOLDERS = 1024  # whose verdicts are kept


class Layer(NamedTuple):
    """The rules of one manager that bind a call.

    Attributes:
        rules: the rules.
        apply: applies them to a call, with the manager's mode.
        only_denials: whether only what they deny counts.
        only_ruled: whether a question counts only if one of them asks it.
        answered: the rules whose questions about the call itself were answered.
    """

    rules: RuleIndex
    apply: Callable[[Call, RuleIndex], tuple[Ruling, ...]]
    only_denials: bool = False
    only_ruled: bool = False
    answered: tuple[PermissionRule, ...] = ()


def screen_files(
    call: Call, layers: Iterable[Layer], context: AgentContext, folder: str
) -> Callable[[str], str] | None:
    """Return what says of a file below a folder whether a rule "denies" it or "asks about" it.

    The files are named by their paths from the folder, without links in between. The text is empty
    for a file that may be read. None stands for a screen that lets everything through.
    """
    bound, marks = list[Layer](), set[str]()
    for layer in (_leave_out_answered(each, call) for each in layers):
        if found := set(_list_marks(layer)):
            bound.append(layer)
            marks |= found
    return _Screen(call, bound, marks, _name_folder(call, context, folder)) if bound else None


def _leave_out_answered(layer: Layer, call: Call) -> Layer:
    """Return a layer without the questions about the call itself.

    Only rules that tighten are left out of it, since they hide the questions behind them.
    """
    asked = (each for each in evaluate(call, layer.rules) if each.decision is RuleDecision.ASK)
    answered = tuple(each.rule for each in asked if each.rule is not None)
    if any(rule.tightens for rule in answered):
        left = [each for each in layer.rules.all if not (each.tightens and each in answered)]
        layer = layer._replace(rules=RuleIndex(left))
    return layer._replace(answered=answered)


def _list_marks(layer: Layer) -> Iterator[str]:
    """List the texts that the path of a file has which a rule may keep back."""
    for rule in layer.rules.all:
        if rule.decision is not RuleDecision.ALLOW and rule not in layer.answered:
            yield from [""] * rule.matcher.about_calls
            yield from chain.from_iterable(pattern.marks for pattern in rule.matcher.paths)


def _list_deep_patterns(rules: Iterable[PermissionRule]) -> Iterator[PathPattern]:
    """List the patterns that deny all that is below a folder, whatever the other rules say."""
    for rule in takewhile(lambda each: each.decision is RuleDecision.DENY, rules):
        if rule.matcher.predicate is None and rule.expires is None:
            yield from (
                pattern
                for pattern in rule.matcher.paths
                if all(names[-1:] == ("**",) for names in pattern.alternatives)
            )


def _name_folder(call: Call, context: AgentContext, folder: str) -> PathUse:
    """Return the names of a folder: as it was named, from the workspace, and with links followed.

    Raises:
        ValueError: no disk can hold it.
    """
    named = call.place.use("read", folder, guard=True)
    if isinstance(named, Unknown):
        raise ValueError(named.reason)  # noqa: TRY004 - it is the text that is not usable
    real = os.path.realpath(context.workspace.absolute(folder))
    root = os.path.realpath(call.place.root)
    below = os.path.relpath(real, root)
    inside = () if below.startswith("..") else (os.path.normpath(f"{call.place.root}/{below}"),)
    return structs.replace(
        named,
        lexical=tuple(dict.fromkeys((*named.lexical, *inside))),
        real=tuple(dict.fromkeys((*named.real, real))),
    )


class _Screen:
    """A screen of the files in a folder.

    Args:
        call: the call that finds them.
        bound: the layers that bind it.
        marks: texts of which a path must have one, so that a rule may keep the file back.
        folder: the folder.
    """

    def __init__(
        self, call: Call, bound: Sequence[Layer], marks: Iterable[str], folder: PathUse
    ) -> None:
        self._call, self._bound, self._folder, self._marks = call, bound, folder, tuple(marks)
        self._deep = [each for layer in bound for each in _list_deep_patterns(layer.rules.all)]
        names = dict.fromkeys((*folder.lexical, *folder.real))
        self._starts = tuple(fold_path(each).rstrip("/") for each in names)
        self._is_denied_whole = lru_cache(_MAX_FOLDERS)(self._look_at_folder)

    def __call__(self, path: str) -> str:
        """Say what a rule does about a file; see `screen_files`."""
        folded = f"/{fold_path(path)}{END}"
        texts = [f"{start}{folded}" for start in self._starts]
        if not any(mark in text for text in texts for mark in self._marks):
            return ""
        if self._deep and self._is_denied_whole(path.rpartition("/")[0]):
            return "denies"
        use = self._name_file(path)
        call = structs.replace(self._call, facts=(use,))
        found = {
            ruling.decision
            for layer in self._bound
            for ruling in layer.apply(call, layer.rules)
            if ruling.rule is not None and ruling.rule not in layer.answered
            if ruling.decision is RuleDecision.DENY or not layer.only_denials
        }
        if RuleDecision.DENY in found:
            return "denies"
        return "asks about" if RuleDecision.ASK in found else ""

    def _look_at_folder(self, path: str) -> bool:
        use = self._name_file(path)
        return any(
            pattern.touches(each, *self._call.anchors)
            for pattern in self._deep
            for each in {*use.lexical, *use.real}
        )

    def _name_file(self, path: str) -> PathUse:
        folder = self._folder
        return structs.replace(
            folder,
            text=path,
            lexical=tuple(f"{each.rstrip('/')}/{path}" for each in folder.lexical),
            real=tuple(f"{each.rstrip('/')}/{path}" for each in folder.real),
        )
