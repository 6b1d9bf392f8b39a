"""The rules that a remembered answer would add: for each open part, exact words or a prefix.

By default, a rule names all words of a command, since that is what was approved. Where the first
words say what is done, as in `npm run build` and `pytest`, the person may choose a rule for these
words alone. Programs that run a text, publish, destroy, or write where they are told are only ever
remembered by all of their words; and what depends on more than the words is asked about each time.
"""

import os
import posixpath
import re
from collections.abc import Sequence
from contextlib import suppress

from greenroom.core import RuleDecision, RuleFileError
from greenroom.permissions.call import Call, Fact, Whole
from greenroom.permissions.evaluator import Ruling, covers
from greenroom.permissions.grants import make_answer
from greenroom.permissions.matcher import RuleMatcher, quote_words
from greenroom.permissions.operands import HostUse, list_files
from greenroom.permissions.rule import PermissionRule
from greenroom.programs._internal import (
    VERBS,
    chooses_programs,
    count_first_words,
    count_verb_words,
    find_lead,
    may_run_input,
    name_program,
)
from greenroom.shell._internal import Change, Command, PathUse, Unknown

_PLAIN = re.compile(r"[\w.,:/@%+=-]*")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")


def suggest(
    call: Call, rulings: Sequence[Ruling]
) -> tuple[tuple[PermissionRule, ...], tuple[PermissionRule, ...]]:
    """Propose rules that would have allowed the open parts of a call, one for each part.

    A part whose words don't say enough, such as an interpreter that runs its input, gets none and
    is asked about again. Nothing at all is proposed if a rule asks or may deny, if a part is
    unknown, or if one writes to a file outside of the workspace.

    Returns:
        The narrowest rules; and the same, but with a prefix where there is one, if there is any.
    """
    open_parts = [each for each in rulings if each.decision is RuleDecision.ASK]
    if any(each.rule is not None or _is_unclear(each, call) for each in open_parts):
        return (), ()
    if not all(_is_bounded(each, call) for each in call.facts if each.guard):
        return (), ()  # such as a piece of a text that a shell is given
    groups: dict[Fact, list[Fact]] = {}
    for each in open_parts:
        groups.setdefault(_find_subject(each.fact), []).append(each.fact)
    found = [each for each in (_find_matchers(*group, call) for group in groups.items()) if each]
    exact, prefixes = (
        tuple(make_answer(RuleDecision.ALLOW, each) for each in dict.fromkeys(matchers))
        for matchers in ([each[0] for each in found], [each[-1] for each in found])
    )
    return exact, prefixes if prefixes != exact else ()


def _is_unclear(ruling: Ruling, call: Call) -> bool:
    fact = ruling.fact
    if isinstance(fact, Command):
        return fact.takes_input and ruling.doubt
    if isinstance(fact, PathUse):
        return bool(call.commands) and not (fact.command and call.writes_inside(fact))
    return isinstance(fact, Unknown) or (isinstance(fact, Change) and not fact.setting)


def _find_subject(fact: Fact) -> Fact:
    """Return the command that a rule has to be about to allow a fact; else the fact itself."""
    if isinstance(fact, Change | PathUse) and fact.command:
        fact = fact.command
    while isinstance(fact, Command) and fact.outer is not None and not fact.outer.guard:
        fact = fact.outer
    return fact


def _find_matchers(subject: Fact, facts: Sequence[Fact], call: Call) -> Sequence[RuleMatcher]:
    """Find the matchers that would have allowed all of these facts, the narrowest first."""
    lengths = [0]
    if isinstance(subject, Command):
        is_set = all(_may_set(each, subject, call) for each in subject.settings)
        if not is_set or not all(_is_bounded(each, call, subject) for each in (subject, *facts)):
            return ()
        lengths += filter(None, [_count_prefix(subject.argv, subject, call)])
    if any(call.writes_own_rules(each) for each in facts):
        return ()
    made = (_make_matcher(subject, each, call, allows=True) for each in lengths)
    return [each for each in made if each and all(covers(each, fact, call) for fact in facts)]


def forbid(call: Call, rulings: Sequence[Ruling]) -> tuple[PermissionRule, ...]:
    """Propose the rule that a "never" adds: by a prefix or a verb, else by the exact words.

    For a call with several open parts there is none, since it is unclear which one was meant.
    """
    open_facts = [each.fact for each in rulings if each.decision is RuleDecision.ASK]
    parts = [fact.command or fact if isinstance(fact, Change) else fact for fact in open_facts]
    if not parts or any(each != parts[0] for each in parts):
        return ()
    fact, length = parts[0], 0
    while isinstance(fact, Command) and fact.outer is not None:
        fact = fact.outer  # the question was about the whole command
    if isinstance(fact, Command):
        length = _count_prefix(fact.argv, fact, call) or count_verb_words(fact.argv)
    matcher = _make_matcher(fact, length, call, allows=False)
    return (make_answer(RuleDecision.DENY, matcher),) if matcher else ()


def _make_matcher(fact: Fact, length: int, call: Call, *, allows: bool) -> RuleMatcher | None:
    """Make the matcher for a fact; of a command, for its first words, or for all if `length` is 0.

    It names the variables that are set for the command. An allowance also names the files in the
    workspace that the output goes to.
    """
    with suppress(RuleFileError):  # no rule can hold the name, such as a path with a brace
        match fact:
            case Command():
                given = (*fact.settings, *fact.argv[: length or None])
                return RuleMatcher(
                    tool=(call.tool,),
                    command_prefix=(quote_words(given),) if length else (),
                    argv_exact=() if length else given,
                    redirect_to=_list_targets(fact, call) if allows else (),
                )
            case PathUse() if pattern := _write_pattern(fact, call):
                return RuleMatcher(tool=(call.tool,), path=(pattern,))
            case HostUse() if fact.host.exact and not fact.guard:
                return RuleMatcher(tool=(call.tool,), domain=(fact.host.exact,))
            case Whole():  # a "never" outlasts a change of the definition
                own = call.definition_hash if allows else ""
                return RuleMatcher(tool=(fact.tool,), definition_hash=(own,) if own else ())
            case _:
                pass
    return None


def _write_pattern(fact: PathUse, call: Call) -> str:
    """Write the file's folder if it lies in the workspace, else the file itself.

    The whole of a hidden or protected folder is never proposed.
    """
    pattern = _write_path(fact.lexical[0], call) if len(fact.lexical) == 1 else ""
    folder = posixpath.dirname(pattern)
    is_open = not pattern.startswith("/") and "/." not in f"/{folder}"
    return f"{folder}/**" if folder and is_open and not call.find_protected(fact) else pattern


def _write_path(path: str, call: Call) -> str:
    """Write a path as in a rule, relative if it lies in the workspace; empty if no rule can."""
    root = posixpath.join(call.place.root, "")
    return "" if _SPECIAL.search(path) else path.removeprefix(root)


def _list_targets(fact: Command, call: Call) -> tuple[str, ...]:
    """List the files in the workspace that the output of a command goes to."""
    written = (each for each in call.paths if each.kind == "write" and each.command == fact)
    inside = [each for each in written if call.writes_inside(each)]
    return tuple(filter(None, (_write_path(path, call) for use in inside for path in use.lexical)))


# How many words a prefix has.


def _count_prefix(words: Sequence[str], fact: Command, call: Call) -> int:
    """Count the first words that a rule may name; 0 if it has to name all of them.

    A program in the workspace's own environment is treated like the usual one of its name.
    """
    if words[0] == "xargs":
        inner = fact.invocation.inner or 0
        return inner + 1 if {*words[inner : inner + 1]} & VERBS["harmless"] else 0
    words = _normalize(words, fact, call)
    if lead := find_lead(words):
        local = f"node_modules/.bin/{words[lead]}"
        if words[0] in VERBS["fetchers"] and not _own_program(local, fact, call):
            return 0
        length = _count_prefix(words[lead:], fact, call)
        return length and length + lead
    return count_first_words(words, lambda name: os.path.lexists(f"{fact.place.folder}/{name}"))


def _normalize(words: Sequence[str], fact: Command, call: Call) -> tuple[str, ...]:
    """Name the program without its version, and without its folder if it is the workspace's."""
    program = _own_program(words[0], fact, call) or words[0]
    return (program if "/" in program else name_program(program), *words[1:])


# Whether the words of a command say enough for a rule.


def _is_bounded(fact: Fact, call: Call, subject: Command | None = None) -> bool:
    """Return whether a part does what the words of the subject say, and writes in the workspace."""
    if not isinstance(fact, Command):
        return not isinstance(fact, PathUse) or fact.kind == "read" or call.writes_inside(fact)
    subject, words = subject or fact, _normalize(fact.argv, fact, call)
    while lead := find_lead(words):
        words = _normalize(words[lead:], fact, call)
    name, others = name_program(words[0]), words[1:]
    if name in VERBS["never"] or (name == "xargs" and fact is not subject):
        return _activates(fact, call)
    if may_run_input(words):
        return False
    is_fed = fact.takes_input and subject.invocation.name != "find"
    if is_fed and fact.argv[0] not in VERBS["harmless"]:
        return False
    if name in VERBS["setters"] and not all(_may_set(x, fact, call) for x in others if "=" in x):
        return False
    writes = fact.risks or name in VERBS["writers"]
    operands = (*subject.argv[1:], *others) if writes else ()
    return all(_stays_inside(word, subject, call) for word in operands)


def _activates(fact: Command, call: Call) -> bool:
    """Return whether a command only activates a virtual environment of the workspace."""
    is_source = len(fact.argv) == 2 and fact.argv[0] in (".", "source")
    is_ours = is_source and _own_program(fact.argv[1], fact, call) == "activate"
    return is_ours and bool(_list_inside(fact.argv[1], fact, call))


def _own_program(program: str, fact: Command, call: Call) -> str:
    """Name a program of a virtual environment or of `node_modules` in the workspace, else ""."""
    folder, _, name = program.rpartition("/")
    there = [path for path in _list_inside(folder, fact, call) if os.path.lexists(f"{path}/{name}")]
    is_own = all(
        path.endswith("/node_modules/.bin")
        or (path.endswith("/bin") and os.path.isfile(f"{path}/../pyvenv.cfg"))
        for path in there
    )
    return name if there and is_own else ""


def _may_set(setting: str, fact: Command, call: Call) -> bool:
    """Return whether a rule may name this setting, since it does not change what programs run."""
    name, _, value = setting.partition("=")
    if name in ("PYTHONPATH", "NODE_PATH"):
        return all(_list_inside(each, fact, call) for each in value.split(":"))
    return not chooses_programs(name) and _PLAIN.fullmatch(value) is not None


def _stays_inside(word: str, fact: Command, call: Call) -> bool:
    """Return whether a word names something inside the workspace; all of it only to look into."""
    looks = word == "." and fact.argv[0] in ("cp", "find", "mv")
    uses = tuple(list_files(word, fact.place))
    is_inside = all(call.writes_inside(use) for use in uses)
    return is_inside and (looks or all(call.place.root not in use.lexical for use in uses))


def _list_inside(name: str, fact: Command, call: Call) -> tuple[str, ...]:
    """Return the paths of a name if it lies in the workspace and is not protected."""
    use = fact.place.use("write", name)
    return use.lexical if isinstance(use, PathUse) and call.writes_inside(use) else ()
