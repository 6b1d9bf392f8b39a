"""What a call does beyond the workspace and beyond itself, in words for the person who is asked."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from greenroom.core import PermissionEffects, clip, visible
from greenroom.permissions.facts.fact import Change, Command, HostUse, PathUse
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.pattern import segments
from greenroom.permissions.facts.word import basename
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.fingerprint import outermost
from greenroom.permissions.judging.operands import named_files

__all__ = ["consequences"]

_MOST = 20  # of each kind; the parts of the call have them all
_TEXT = 300  # characters of each
_NAMES = 256  # of files, in the words of one command
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_TALKERS = frozenset({"echo", "printf"})  # their words are only text
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_PRIVILEGED = frozenset({"doas", "gosu", "pkexec", "run0", "runuser", "su", "sudo", "sudoedit"})


def consequences(call: Call) -> PermissionEffects:
    """Gather what a call would do, as far as it can be told; what can't be is a part of its own."""
    commands = [fact for fact in call.facts if isinstance(fact, Command) and fact.argv]
    commands = [each for each in commands if each.argv[0].text not in _TALKERS]
    paths = [fact for fact in call.facts if isinstance(fact, PathUse) and _is_outside(fact, call)]
    changes = (fact.reason for fact in call.facts if isinstance(fact, Change))
    return PermissionEffects(
        reads=_listed(_named(fact) for fact in paths if fact.kind == "read"),
        writes=_listed(_named(fact) for fact in paths if fact.kind == "write"),
        names=_listed(name for each in outermost(commands) for name in _names(each, call)),
        hosts=_listed(_hosts(call, commands)),
        changes=_listed(changes),
        privileges=_listed(each.text for each in commands if _is_privileged(each)),
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
    written, followed = call.anchors
    return any(
        segments(path)[: len(anchors.root)] != anchors.root
        for paths, anchors in ((fact.lexical, written), (fact.real, followed))
        for path in paths
        if path not in _NOWHERE
    )


def _named(fact: PathUse) -> str:
    """Name a file, and where a link leads."""
    real = fact.real[0] if fact.real else ""
    is_same = not real or real in fact.lexical
    return fact.text if is_same else f"{fact.text} (which is {real})"


def _names(command: Command, call: Call) -> Iterator[str]:
    place = command.place or call.place
    uses = (
        use for word in dict.fromkeys(command.argv[1:]) for use in named_files(word, place, "read")
    )
    for at, use in enumerate(uses):
        if at == _NAMES:  # each takes a look at the disk
            yield "more, which were not looked at"
            return
        if _is_outside(use, call):
            yield _named(use)


def _hosts(call: Call, commands: Iterable[Command]) -> Iterator[str]:
    """Name the hosts that URLs lead to; all of a URL where readers may differ on that."""
    used = ((fact.url, fact.host) for fact in call.facts if isinstance(fact, HostUse))
    urls = (url for command in commands for url in _URL.findall(command.text))
    for url, host in chain(used, ((url, Host.of(url)) for url in urls)):
        yield host.exact or url


def _is_privileged(command: Command) -> bool:
    return basename(command.argv[0].text) in _PRIVILEGED
