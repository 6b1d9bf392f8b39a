"""The rules that an "always" would add: for each open part, the narrowest one that is useful.

A rule names the first words of a command, such as `git commit`, if developers run them all day or
if they only read. For other commands it names the exact words. There is no rule for commands that
run a text, fetch programs, publish something, or reach out of the workspace.
"""

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

from greenroom.core import RuleDecision, RuleFileError, serde
from greenroom.permissions.call import (
    Call,
    Fact,
    HostUse,
    Whole,
    find_files,
    find_protected,
    writes_inside,
    writes_own_rules,
)
from greenroom.permissions.evaluator import Ruling, covers
from greenroom.permissions.matcher import RuleMatcher, quote_words
from greenroom.permissions.rule import PermissionRule, RuleScope
from greenroom.permissions.rule_file import encode_rule, parse_rules
from greenroom.shell import (
    RUNNERS,
    SHELLS,
    WRAPPERS,
    Change,
    Command,
    PathUse,
    Unknown,
    Word,
    changes_programs,
    find_extent,
    read_invocation,
)

# Answers for one session: how they are stored with it, and what they may say when they are read.
#
# A stored answer is a JSON object: decision and matchers as in a rule file, with the session and
# the folder that it was given for. It may not say anything else, such as that it is final.

ANSWER = "prompt"  # the `created_by` of rules made from a person's answer
_SOURCE = "an answer in this session"
_FIELDS = {"decision", "tool", "command_prefix", "argv_exact", "path", "domain", "redirect_to"}
_MAX_QUOTE = 200  # characters of an invalid answer


class GrantStore(Protocol):
    """The part of a session's conversation that stores answers."""

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """The stored answers, in order."""

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Store more answers."""

    def revoke_grants(self) -> None:
        """Discard all answers."""


class GrantKeeper(Protocol):
    """A session that can store the answers that are remembered for it."""

    @property
    def session_id(self) -> str:
        """The session's id."""

    @property
    def conversation(self) -> GrantStore:
        """The conversation that stores the answers."""


def encode_grants(rules: Iterable[PermissionRule], root: str | Path) -> list[dict[str, object]]:
    """Encode the rules of an answer for a session, with the folder that it was given for."""
    return [
        {name: value for name, value in encode_rule(rule).items() if name in _FIELDS}
        | {"session": rule.session, "workspace": str(root)}
        for rule in rules
    ]


def read_grants(
    grants: Iterable[dict[str, object]], session_id: str, root: str | Path
) -> tuple[tuple[PermissionRule, ...], tuple[str, ...]]:
    """Decode stored answers: the rules that apply in this folder, and a note for each other."""
    rules, notes = list[PermissionRule](), list[str]()
    for grant in grants:
        try:
            rule = _read_grant(grant, session_id)
        except RuleFileError as error:
            note = f"a remembered answer does not hold: {error.message}: {str(grant)[:_MAX_QUOTE]}"
            if grant.get("decision") != "allow":
                # It may have denied anything, so nothing of this session runs without a question.
                question = make_answer(RuleDecision.ASK, RuleMatcher(all=True))
                rules.append(question.within(session_id))
                note += "; every call is asked about"
            notes.append(note)
            continue
        if rule.decision is RuleDecision.ALLOW and grant["workspace"] != str(root):
            notes.append(f"a remembered answer holds in {grant['workspace']} only: {rule}")
        else:
            rules.append(rule)
    return tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(notes))


def _read_grant(grant: Mapping[str, object], session_id: str) -> PermissionRule:
    if further := sorted(grant.keys() - _FIELDS - {"session", "workspace"}):
        raise RuleFileError(f"an answer can't have the field {further[0]!r}")
    if grant.get("session") != session_id or not isinstance(grant.get("workspace"), str):
        raise RuleFileError("it was not given for this session")
    fields = {name: grant[name] for name in _FIELDS & grant.keys()}
    (rule,) = parse_rules(serde.dumps({"version": 1, "rules": [fields]}).decode(), _SOURCE)
    if not rule.matcher.tool:
        raise RuleFileError("it names no tool")
    return make_answer(rule.decision, rule.matcher).within(session_id)


def make_answer(decision: RuleDecision, matcher: RuleMatcher) -> PermissionRule:
    """Make the rule that an answer adds; it applies to every session until it is limited to one."""
    return PermissionRule(
        decision=decision, matcher=matcher, scope=RuleScope.USER, created_by=ANSWER, source=_SOURCE
    )


def _read_tables(text: str) -> dict[str, frozenset[tuple[str, ...]]]:
    """Read tables by their titles; `suggestions.txt` explains the format of a row."""
    tables: dict[str, set[tuple[str, ...]]] = {}
    rows = set[tuple[str, ...]]()
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), set())
            continue
        programs, _, verbs = line.partition(":")
        each = product(programs.split("|"), verbs.split())
        rows.update(tuple(" ".join(words).split()) for words in each)
    return {title: frozenset(rows) for title, rows in tables.items()}


_TABLES = _read_tables(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
_DAILY, _WRITERS, _LEADS = _TABLES["daily"], _TABLES["writers"], _TABLES["leads"]
_NEVER = _TABLES["never"] | {(each,) for each in (*SHELLS, *WRAPPERS, *RUNNERS)}
_GROUPS = {each[:-1] for each in _DAILY | _NEVER} | {(each,) for each in RUNNERS}
# Programs that run another program, or a text, that their words name.
_RUN_OTHERS = {".", "eval", "source", *SHELLS, *WRAPPERS}
# Commands, joined by NUL, that install what the project lists, or only contact this machine.
_KNOWN = re.compile(
    r"(?:yarn|(?:bun|bundle|composer|npm|pdm|pnpm|poetry|uv|yarn|(?:uv\0)?pip)\0"
    r"(?:ci|i|install|lock|sync|venv))(?:\0-[^\0/:]*|\0-[cr]\0\w[\w/-]*\.txt|\0\.(?:\[[\w,-]+\])?)*"
    r"|curl(?:\0(?:-[fgGiIkLNsSv]+|--[a-z-]+|-[dHX]\0[^\0]*"
    r"|(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/[^\0]*)?))+"
)
# What git can't undo, here or on a server, and URLs that no remote lists.
_FORCES = re.compile(r"-\w*[dDf]\w*|--(?:delete|discard|force|hard|mirror|prune).*|[+:].*|\w+://.*")
# Among the variables that may change what programs run, those that only say how they run it.
_HARMLESS = re.compile(r"NODE_ENV|RUST_(?:LOG|BACKTRACE)|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE)")
_PLAIN = re.compile(r"[\w.,:/@%+=-]*")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_VERB = re.compile(r"[a-z][A-Za-z0-9:_-]*")


def suggest(call: Call, rulings: Sequence[Ruling]) -> tuple[PermissionRule, ...]:
    """Propose rules that would have allowed the open parts of a call, one rule for each part.

    A part for which no rule is narrow enough, such as a download, gets none and is asked about
    again. Nothing at all is proposed if a rule asks or may deny, or if a part is unknown, is
    wrapped in another, or writes to a file outside of the workspace.
    """
    open_parts = [each for each in rulings if each.decision is RuleDecision.ASK]
    if any(each.rule is not None or _is_unclear(each.fact, call) for each in open_parts):
        return ()
    proposed = ((each.fact, _make_matcher(_find_subject(each.fact), call)) for each in open_parts)
    matchers = [each for fact, each in proposed if each and covers(each, fact, call)]
    return tuple(make_answer(RuleDecision.ALLOW, each) for each in dict.fromkeys(matchers))


def _find_subject(fact: Fact) -> Fact:
    """Return the command that a variable is set for or that writes to a file; else the fact."""
    return fact.command or fact if isinstance(fact, Change | PathUse) else fact


def _is_unclear(fact: Fact, call: Call) -> bool:
    match fact:
        case Command():
            by_another = fact.outer is not None and not fact.outer.guard
            dynamic = any(word.dynamic for word in fact.argv)
            runs_text = _base_name(fact.argv[0].text) in _RUN_OTHERS and not _activates(fact, call)
            return by_another or dynamic or runs_text
        case PathUse() if any(isinstance(each, Command) for each in call.facts):
            return fact.command is None or not writes_inside(fact, call)
        case Change():
            return not (fact.command and fact.setting)
        case _:
            return isinstance(fact, Unknown)


def forbid(call: Call, rulings: Sequence[Ruling]) -> tuple[PermissionRule, ...]:
    """Propose the rule that a "never" adds: as for an "always", else by verb or exact words.

    For a call with several open parts there is none, since it is unclear which one was meant.
    """
    open_facts = [each.fact for each in rulings if each.decision is RuleDecision.ASK]
    open_parts = [_find_subject(fact) if isinstance(fact, Change) else fact for fact in open_facts]
    if not open_parts or any(each != open_parts[0] for each in open_parts):
        return ()
    fact = open_parts[0]
    while isinstance(fact, Command) and fact.outer is not None:
        fact = fact.outer  # the question was about the whole command
    matcher = _make_matcher(fact, call, forbids=True)
    return (make_answer(RuleDecision.DENY, matcher),) if matcher else ()


def _make_matcher(fact: Fact, call: Call, *, forbids: bool = False) -> RuleMatcher | None:
    if not forbids and writes_own_rules(fact, call):
        return None
    try:
        match fact:
            case Command():
                return _make_command_matcher(fact, call, forbids=forbids)
            case PathUse():
                return _make_path_matcher(fact, call)
            case HostUse() if fact.host.exact and not fact.guard:
                return RuleMatcher(tool=(call.tool,), domain=(fact.host.exact,))
            case Whole():
                return RuleMatcher(tool=(fact.tool,))
            case _:
                return None
    except RuleFileError:
        return None  # no rule can hold the name, such as a path with a brace


def _make_path_matcher(fact: PathUse, call: Call) -> RuleMatcher | None:
    """Propose the file's folder if it lies in the workspace, else the file itself.

    The whole of a hidden or protected folder is never proposed.
    """
    pattern = _write_path(fact.lexical[0], call) if len(fact.lexical) == 1 else ""
    folder = posixpath.dirname(pattern)
    is_open = not pattern.startswith("/") and "/." not in f"/{folder}"
    if folder and is_open and not find_protected(fact, call):
        pattern = f"{folder}/**"
    return RuleMatcher(tool=(call.tool,), path=(pattern,)) if pattern else None


def _make_command_matcher(fact: Command, call: Call, *, forbids: bool) -> RuleMatcher | None:
    """Make the matcher for a command that is always allowed, or denied; None if it is too broad.

    It names the variables that are set for the command. An allowance also names the files in the
    workspace that the output goes to; a denial names the program and its verb, as in `git push`.
    """
    words = [word.text for word in fact.argv]
    length = _count_words(words, fact, call) if words else None
    if forbids:
        length = length or _count_verb_words(words)
    elif length is None or not all(_may_set(each, fact, call) for each in fact.settings):
        return None
    named = fact.argv[: length or None]
    if not all(word.static for word in named):
        return None
    given = (*fact.settings, *(word.text for word in named))
    return RuleMatcher(
        tool=(call.tool,),
        command_prefix=(quote_words(given),) if length else (),
        argv_exact=() if length else given,
        redirect_to=() if forbids else _list_targets(fact, call),
    )


def _count_verb_words(words: Sequence[str]) -> int:
    """Count the words that name a program and its verb; 0 for a program without known verbs."""
    length = _match_table(words, _GROUPS)
    return length + 1 if length and _VERB.fullmatch("".join(words[length : length + 1])) else 0


def _count_words(words: Sequence[str], fact: Command, call: Call) -> int | None:
    """Count the first words a rule names: 0 for all of them exactly, None if that is too broad.

    A program in the workspace's own environment is treated like the usual one of its name.
    """
    program = _own_program(words[0], fact, call) or words[0]
    name, others = _base_name(program), words[1:]
    words = [program if "/" in program else name, *others]
    if (lead := _match_table(words, _LEADS)) and words[lead:]:
        there = (name,) not in _TABLES["fetchers"] or _own_program(
            f"node_modules/.bin/{words[lead]}", fact, call
        )
        length = _count_words(words[lead:], fact, call) if there else None
        return length and length + lead
    if _activates(fact, call) or (
        len(fact.argv) == 2 and find_extent(read_invocation(fact.argv)) == "prints"
    ):
        return 0
    options = [fact.argv[at].text for at, _ in fact.risks]
    if not all(name == "sed" and each.startswith(("-i", "--in-")) for each in options):
        return None
    if length := _match_table(words, _DAILY) or (0 if options else _count_reading_words(fact)):
        return length
    if name == "export" and others:
        return 0 if all("=" in each and _may_set(each, fact, call) for each in others) else None
    is_broad = _is_broad(name, others) and not _KNOWN.fullmatch("\0".join(words))
    operands = fact.argv[1:] if (name,) in _WRITERS else ()
    leaves = not all(_stays_inside(word, fact, call) for word in operands)
    return None if is_broad or leaves else 0


def _match_table(words: Sequence[str], table: Collection[tuple[str, ...]]) -> int:
    """Return the length of the longest row that the words begin with, at most 3; 0 if none fits."""
    first = tuple(words[:3])
    if len(first) == 3 and (*first[:2], "*") in table and _VERB.fullmatch(first[2]):
        return 3
    return next((at for at in range(len(first), 0, -1) if first[:at] in table), 0)


def _is_broad(name: str, others: Sequence[str]) -> bool:
    """Return whether even a rule for exactly these words would be too broad."""
    if (name,) in _TABLES["interpreters"]:
        # The script comes first, with no option before it that could hold a program's text.
        return not others or others[0].startswith("-")
    if name == "git":
        return not others or any(_FORCES.fullmatch(x) or ("git", x) in _NEVER for x in others)
    return name.startswith("-") or _match_table([name, *others], _NEVER) > 0


def _count_reading_words(fact: Command) -> int:
    """Count the words that name a program, or a verb of git, that only reads; else 0."""
    invocation = read_invocation(fact.argv)
    program, verb = invocation.program, invocation.start
    name = fact.argv[0].text
    is_plain = verb < 2 and "$" not in program.kinds and "/" not in name
    is_harmless = name not in ("cd", "command", "find")
    is_reading = find_extent(invocation) in ("prints", "reads")
    return verb + 1 if is_plain and is_harmless and is_reading else 0


def _activates(fact: Command, call: Call) -> bool:
    """Return whether a command only activates a virtual environment of the workspace."""
    words = [word.text for word in fact.argv]
    is_source = fact.known and len(words) == 2 and words[0] in (".", "source")
    is_ours = is_source and _own_program(words[1], fact, call) == "activate"
    return is_ours and bool(_list_inside(words[1], fact, call))


def _base_name(program: str) -> str:
    """Return the name of a program, without its path and version."""
    name = program.rpartition("/")[2]
    return name.rstrip("-.0123456789") or name


def _own_program(program: str, fact: Command, call: Call) -> str:
    """Name a program of a virtual environment or of `node_modules` in the workspace, else ""."""
    folder, _, name = program.rpartition("/")
    there = [path for path in _list_inside(folder, fact, call) if os.path.lexists(f"{path}/{name}")]
    return name if there and all(map(_holds_programs, there)) else ""


def _holds_programs(folder: str) -> bool:
    is_venv = folder.endswith("/bin") and os.path.isfile(f"{folder}/../pyvenv.cfg")
    return is_venv or folder.endswith("/node_modules/.bin")


def _may_set(setting: str, fact: Command, call: Call) -> bool:
    """Return whether a rule may name this setting, since it does not change what programs run."""
    name, _, value = setting.partition("=")
    if name in ("PYTHONPATH", "NODE_PATH"):
        return all(_list_inside(each, fact, call) for each in value.split(":"))
    finds = changes_programs(name) and not _HARMLESS.fullmatch(name)
    return not finds and _PLAIN.fullmatch(value) is not None


def _stays_inside(word: Word, fact: Command, call: Call) -> bool:
    """Return whether a word names something inside the workspace; all of it only to copy into."""
    fills = word.text == "." and fact.argv[0].text in ("cp", "mv")
    uses = find_files(word, fact.place, call)
    is_inside = all(writes_inside(use, call) for use in uses)
    return is_inside and (fills or all(call.place.root not in use.lexical for use in uses))


def _list_inside(name: str, fact: Command, call: Call) -> tuple[str, ...]:
    """Return the paths of a name if it lies in the workspace and is not protected."""
    use = (fact.place or call.place).use("write", name)
    return use.lexical if isinstance(use, PathUse) and writes_inside(use, call) else ()


def _list_targets(fact: Command, call: Call) -> tuple[str, ...]:
    """List the files in the workspace that the output of a command goes to."""
    uses = (each for each in call.facts if isinstance(each, PathUse) and each.command == fact)
    inside = [each for each in uses if each.kind == "write" and writes_inside(each, call)]
    return tuple(filter(None, (_write_path(path, call) for use in inside for path in use.lexical)))


def _write_path(path: str, call: Call) -> str:
    """Write a path as in a rule, relative if it lies in the workspace; empty if no rule can."""
    root = posixpath.join(call.place.root, "")
    return "" if _SPECIAL.search(path) else path.removeprefix(root)
