"""What a call does beyond the workspace and beyond itself, in words for the person who is asked."""

from collections.abc import Iterable, Iterator
from itertools import chain

from greenroom.core import PermissionEffects, clip, visible
from greenroom.permissions.facts.fact import Change, Command, HostUse, PathUse
from greenroom.permissions.facts.word import basename
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.fingerprint import outermost
from greenroom.permissions.judging.operands import named_files, named_hosts

__all__ = ["consequences"]

_MOST = 20  # of each kind; the parts of the call have them all
_TEXT = 300  # characters of each
_NAMES = 256  # of files, in the words of one command
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_PRIVILEGED = frozenset({"doas", "gosu", "pkexec", "run0", "runuser", "su", "sudo", "sudoedit"})


def consequences(call: Call) -> PermissionEffects:
    """Gather what a call would do, as far as it can be told; what can't be is a part of its own."""
    found = [fact for fact in call.facts if isinstance(fact, Command)]
    commands = [each for each in found if each.extent != "prints"]  # whose words are only text
    paths = [fact for fact in call.facts if isinstance(fact, PathUse) and _is_outside(fact, call)]
    changes = (fact.reason for fact in call.facts if isinstance(fact, Change))
    return PermissionEffects(
        reads=_listed(_named(fact) for fact in paths if fact.kind == "read"),
        writes=_listed(_named(fact) for fact in paths if fact.kind == "write"),
        names=_listed(name for each in outermost(commands) for name in _names(each, call)),
        hosts=_listed(_hosts(call, commands)),
        changes=_listed(changes),
        privileges=_listed(
            each.text for each in commands if basename(each.argv[0].text) in _PRIVILEGED
        ),
    )


def _listed(found: Iterable[str]) -> tuple[str, ...]:
    """Return each once, nothing in them hidden, and whether there are more."""
    each = dict[str, None]()
    for text in (clip(visible(text), _TEXT) for text in found):
        if len(each) == _MOST and text not in each:
            return (*each, "and more")
        each[text] = None
    return tuple(each)


def _is_outside(fact: PathUse, call: Call) -> bool:
    """Whether it may lie outside of the workspace, as it is written or with links followed."""
    return fact.text not in _NOWHERE and not call.has(fact)


def _named(fact: PathUse) -> str:
    """Name a file, and where a link leads."""
    real = fact.real[0] if fact.real else ""
    is_same = not real or real in fact.lexical
    return fact.text if is_same else f"{fact.text} (which is {real})"


def _names(command: Command, call: Call) -> Iterator[str]:
    words = dict.fromkeys(command.argv[1:])
    uses = (use for word in words for use in named_files(word, command.place, call))
    for at, use in enumerate(uses):
        if at == _NAMES:  # each takes a look at the disk
            yield "more, which were not looked at"
            return
        if _is_outside(use, call):
            yield _named(use)


def _hosts(call: Call, commands: Iterable[Command]) -> Iterator[str]:
    """Name the hosts that URLs lead to; all of a URL where readers may differ on that."""
    used = (fact for fact in call.facts if isinstance(fact, HostUse))
    named = (use for command in commands for use in named_hosts(command.text))
    yield from (use.host.exact or use.url for use in chain(used, named))
