"""Each rule of the analyser, taken away: the cases or the composed commands notice it.

A mutant is caught by a case that it decides otherwise than its mark says, or by a composed command
that it allows though real bash, when it was asked, ran or wrote what is not allowed.
"""

import re
from collections import defaultdict
from dataclasses import replace as replaced
from importlib import import_module

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager
from greenroom.permissions.facts.fact import Command, Unknown
from greenroom.permissions.facts.host import HostPattern
from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.rules.expression import Expression
from greenroom.permissions.shell.commands import CommandReader
from greenroom.permissions.shell.grammar.cursor import Cursor
from greenroom.permissions.shell.grammar.parser import Parser
from greenroom.permissions.shell.grammar.word_reader import WordReader
from greenroom.permissions.shell.programs.table import WRAPPERS
from tests.permissions import generated
from tests.permissions.bash_oracle import outcomes
from tests.permissions.test_cases import CASES, EXPECTED, WORDS, rule

CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/proj"))
PERMISSIONS = "greenroom.permissions"


def nothing(*_, **__):
    return iter(())


def no(*_, **__):
    return False


def yes(*_, **__):
    return True


def forgetting(owner, name):
    """Make a method read what it reads, and forget the commands in it."""
    method = getattr(owner, name)

    def forgets(self, *arguments, **options):
        known = len(self.findings.nodes)
        result = method(self, *arguments, **options)
        del self.findings.nodes[known:]
        return result

    return forgets


def clear_about(*reasons):
    """Make the parser say nothing where it says that something is unclear for one of these reasons."""
    unclear = Cursor.unclear

    def hides(self, reason, *, change=False):
        if not any(each in reason for each in reasons):
            unclear(self, reason, change=change)

    return hides


def unnamed_programs_are_nothing(self, words, **options):
    return _COMMAND(self, words, **options) if words and words[0].static else iter(())


def swallow_the_rest(self, document):
    rest, self.at = self.text[self.at :], len(self.text)
    return rest


def known_only(facts, *texts):
    """Leave facts out whose reason holds one of these texts."""
    return [
        fact
        for fact in facts
        if not (isinstance(fact, Unknown) and any(text in fact.reason for text in texts))
    ]


def empty_is_fine(analyse):
    return lambda text, place: known_only(analyse(text, place), "nothing to run") or ()


_COMMAND = CommandReader.command
_ANALYSE = import_module(f"{PERMISSIONS}.shell.analyse").analyse
_NOTHING = import_module(f"{PERMISSIONS}.judging.evaluator")._NOTHING
_REACH = import_module(f"{PERMISSIONS}.judging.likeness")._reach
_COMBINE = import_module(f"{PERMISSIONS}.judging.evaluator").combine

# What is taken away, how, and the groups of cases that are asked.
MUTANTS = {
    "invisible characters are asked about": (
        [("shell.analyse.hidden_characters", lambda _: "")],
        ["quote", "url"],
    ),
    "a comment ends with its line": (
        [("shell.grammar.cursor._COMMENT", re.compile(r"#(?:\\\n|[^\n])*"))],
        ["chain"],
    ),
    "a comment is no command": (
        [("shell.grammar.cursor._COMMENT", re.compile(r"(?!)"))],
        ["benign"],
    ),
    "a continued word is one word": (
        [
            (
                "shell.grammar.word_reader.WordReader._escape",
                lambda self, special="": setattr(self, "at", self.at + 2) or Piece(" "),
            )
        ],
        ["quote", "chain"],
    ),
    "substitutions are commands": (
        [("shell.grammar.parser.Parser.substitution", forgetting(Parser, "substitution"))],
        ["subst"],
    ),
    "backticks are commands": (
        [("shell.grammar.word_reader.WordReader._backticks", forgetting(WordReader, "_backticks"))],
        ["subst"],
    ),
    "process substitutions are commands": (
        [
            (
                "shell.grammar.word_reader.WordReader.process_substitution",
                forgetting(WordReader, "process_substitution"),
            )
        ],
        ["subst"],
    ),
    "defaults of parameters are read": (
        [
            (
                "shell.grammar.word_reader.WordReader._until_brace",
                forgetting(WordReader, "_until_brace"),
            )
        ],
        ["subst"],
    ),
    "double quotes expand": (
        [("shell.grammar.word_reader.WordReader._expanded", forgetting(WordReader, "_expanded"))],
        ["subst"],
    ),
    "here-documents expand": (
        [
            (
                "shell.grammar.word_reader.WordReader.here_document",
                forgetting(WordReader, "here_document"),
            )
        ],
        ["subst"],
    ),
    "a here-document ends at its delimiter": (
        [("shell.grammar.simple_reader.SimpleReader._body", swallow_the_rest)],
        ["chain"],
    ),
    "arithmetic reads variables": ([("shell.analyse.may_hold_code", no)], ["subst"]),
    "arithmetic over what commands print": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("only known at run time"))],
        ["subst"],
    ),
    "arithmetic over what the shell fills in": (
        [("shell.grammar.word_reader._FILLED", re.compile(r"(?!)"))],
        ["subst"],
    ),
    "subscripts in arithmetic": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("in arithmetic, which may run"))],
        ["subst"],
    ),
    "builtins that compute": ([("shell.analyse.computes", no)], ["subst"]),
    "conditions that evaluate": (
        [("shell.grammar.parser._EVALUATING", frozenset())],
        ["subst"],
    ),
    "redirections are writes": ([("shell.analyse.redirection_facts", nothing)], ["redir"]),
    "descriptors and /dev/null are no files": (
        [("shell.redirections._DESCRIPTOR", re.compile("(?!)"))],
        ["redir", "benign"],
    ),
    "sockets are no files": ([("shell.redirections._SOCKET", re.compile("(?!)"))], ["redir"]),
    "assignments are changes": ([("shell.analyse.is_display", yes)], ["env"]),
    "only display variables are none": ([("shell.analyse.is_display", no)], ["env", "benign"]),
    "loops set variables": ([("shell.analyse.changes_programs", no)], ["env"]),
    "builtins set variables": (
        [
            ("shell.programs.cautions.changes_programs", no),
            ("shell.programs.cautions._FINDERS", {}),
        ],
        ["env", "subst"],
    ),
    "functions are changes": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("defines the function"))],
        ["env"],
    ),
    "bodies of functions are judged": (
        [
            (
                "shell.grammar.parser.Parser._function",
                forgetting(Parser, "_function"),
            )
        ],
        ["env"],
    ),
    "arrays and coprocesses are unclear": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("array", "coprocess", "arithmetic"))],
        ["env", "subst", "wrap"],
    ),
    "expansions that set or run are unclear": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("an expansion that may"))],
        ["subst"],
    ),
    "what can't be read is asked about": (
        [("shell.grammar.cursor.Cursor.unclear", clear_about("can't be read"))],
        ["subst"],
    ),
    "programs have names": (
        [("shell.commands.CommandReader.command", unnamed_programs_are_nothing)],
        ["dynamic"],
    ),
    "braces without a partner are not known": (
        [("shell.grammar.pieces.UNSURE", Piece("", quoted=False))],
        ["path"],
    ),
    "a home folder before quotes is written out": (
        [("shell.grammar.pieces._write_out_home", lambda pieces: pieces)],
        ["path"],
    ),
    "a glob is no name": ([("shell.grammar.pieces._is_pattern", no)], ["dynamic", "quote"]),
    "texts for shells are commands": ([("shell.commands.evaluated", lambda argv: None)], ["wrap"]),
    "shells that read a file or their input": (
        [("shell.programs.evaluated._file", lambda argv, at: None)],
        ["wrap", "dynamic"],
    ),
    "wrappers run their operands": ([("shell.commands.CommandReader._wrapped", nothing)], ["wrap"]),
    "only plain wrappers are transparent": (
        [
            (
                "shell.commands._is_transparent",
                lambda usage: usage.argv[0].text in WRAPPERS,
            )
        ],
        ["wrap"],
    ),
    "find runs its actions": ([("shell.commands.find_actions", nothing)], ["wrap"]),
    "options that write or run": (
        [("shell.programs.table.Program.marks", lambda self, option: "")],
        ["flags"],
    ),
    "scripts of sed": ([("shell.programs.cautions.sed_only_prints", yes)], ["flags"]),
    "scripts of awk": ([("shell.programs.cautions.awk_only_prints", yes)], ["flags"]),
    "what programs do with their own words": (
        [("shell.programs.cautions._FINDERS", {})],
        ["flags"],
    ),
    "braces are written out": (
        [("shell.grammar.word_reader.expand", lambda pieces: [pieces] if pieces else [])],
        ["quote"],
    ),
    "most escapes in $'…' are not known": (
        [("shell.grammar.word_reader._ODD_ESCAPE", re.compile(r"(?!)"))],
        ["path"],
    ),
    "a prefix ends at a word": (
        [
            (
                "judging.likeness.begins",
                lambda argv, prefix: (
                    len(argv) >= len(prefix)
                    and all(w.text.startswith(p) for w, p in zip(argv, prefix, strict=False))
                ),
            )
        ],
        ["chain"],
    ),
    "an allowance names the program itself": (
        [
            (
                "judging.likeness._reach",
                lambda matcher, fact: _REACH(matcher, _short(fact)),
            )
        ],
        ["quote"],
    ),
    "an allowance is about known words": (
        [
            (
                "judging.likeness.begins",
                lambda argv, prefix: [w.text for w in argv[: len(prefix)]] == list(prefix),
            )
        ],
        ["quote"],
    ),
    "a denial means every spelling of a program": (
        [("judging.prefix.program_name", lambda program: program)],
        ["quote"],
    ),
    "a denial means every spelling of an option": (
        [("judging.prefix.gives", lambda word, option: word == option)],
        ["flags"],
    ),
    "a program that runs its words": (
        [("judging.likeness.stands_in", no), ("shell.commands.RUNNERS", frozenset())],
        ["wrap"],
    ),
    "words that are not known may be options": (
        [("shell.programs.cautions._unseen", nothing)],
        ["flags"],
    ),
    "words that are not known may be files that are written": (
        [("shell.commands.extent", lambda words: "reads")],
        ["benign"],
    ),
    "words that are not known may be denied": (
        [
            ("facts.word.Word.unknown", property(no)),
            ("facts.word.Word.may_be_option", property(no)),
        ],
        ["path"],
    ),
    "the values of loops are known": (
        [("shell.grammar.known.MAX_VALUES", 0)],
        ["dynamic", "benign", "path"],
    ),
    "what sets variables ends what is known of loops": (
        [("shell.grammar.cursor.find_assigned", lambda command: frozenset())],
        ["path"],
    ),
    "the current folder is known": (
        [("shell.grammar.known._current_folder", lambda piece, splits: piece)],
        ["path"],
    ),
    "builtins change what later words mean": ([("shell.analyse.redefines", no)], ["dynamic"]),
    "values of variables are run": ([("shell.analyse.run_values", nothing)], ["env"]),
    "a file is run that was just written": (
        [("shell.analyse._written", nothing)],
        ["dynamic"],
    ),
    "operands are in a folder": (
        [("shell.commands._moved", lambda place, words: place)],
        ["path"],
    ),
    "what is left out is not read": (
        [("judging.operands._LEFT_OUT", re.compile("(?!)"))],
        ["path"],
    ),
    "operands are files": ([("judging.evaluator.operands", nothing)], ["path"]),
    "a glob stands for files": ([("facts.pattern.PathPattern.overlaps", no)], ["path"]),
    "denied paths have no case": (
        [
            (
                "facts.pattern.PathPattern.touches",
                lambda self, path, anchors: self.matches(path, anchors),
            )
        ],
        ["path"],
    ),
    "paths are made absolute": ([("facts.place._normal", lambda path: path)], ["path"]),
    "a denied host has every spelling": (
        [("facts.host.HostPattern.touches", HostPattern.matches)],
        ["url"],
    ),
    "an allowed host is read in one way": (
        [
            (
                "facts.host.HostPattern.matches",
                lambda self, host: any(self._names(name) for name in host.names),
            )
        ],
        ["url"],
    ),
    "an allowing expression matches all": (
        [("rules.expression.Expression.fullmatch", Expression.search)],
        ["regex"],
    ),
    "a denying expression matches a part": (
        [("rules.expression.Expression.search", Expression.fullmatch)],
        ["regex"],
    ),
    "any denial denies": (
        [
            (
                "manager.combine",
                lambda verdicts: min(
                    (v.decision for v in verdicts),
                    default=RuleDecision.ASK,
                    key=["allow", "ask", "deny"].index,
                ),
            )
        ],
        ["chain"],
    ),
    "nothing is not allowed": (
        [
            ("judging.call.analyse", empty_is_fine(_ANALYSE)),
            ("judging.call.Whole", lambda tool: Command(argv=(Word(tool),), guard=True)),
            ("judging.evaluator._NOTHING", replaced(_NOTHING, decision=RuleDecision.ALLOW)),
            (
                "manager.combine",
                lambda verdicts: _COMBINE(verdicts) if verdicts else RuleDecision.ALLOW,
            ),
        ],
        ["quote"],
    ),
}


def _short(fact):
    program = fact.argv[0]._replace(text=fact.argv[0].text.rpartition("/")[2])
    return replaced(fact, argv=(program, *fact.argv[1:]))


def replace(monkeypatch, target, value):
    """Put a value in the place of a name, which may be a method."""
    path, name = f"{PERMISSIONS}.{target}".rsplit(".", 1)
    try:
        owner = import_module(path)
    except ModuleNotFoundError:
        module, owner_name = path.rsplit(".", 1)
        owner = getattr(import_module(module), owner_name)
    assert hasattr(owner, name), target
    monkeypatch.setattr(owner, name, value)


GROUPS = defaultdict(list)
for group, _, rules, tool, mark, text in CASES:
    GROUPS[group].append((rules, tool, mark, text))


def caught_by_cases(groups):
    managers = {}
    for group in groups:
        for rules, tool, mark, text in GROUPS[group]:
            if rules not in managers:
                managers[rules] = PermissionManager([rule(each) for each in rules])
            found = managers[rules].check(tool, {WORDS.get(tool, "x"): text}, CONTEXT)
            if found not in EXPECTED[mark]:
                return text
    return None


def allows(text):
    manager = PermissionManager(generated.RULES)
    return manager.check("Bash", {"command": text}, CONTEXT) is RuleDecision.ALLOW


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    """Ask bash once about each composed command that is not allowed; keep those that do harm."""
    texts = [each.text for each in generated.each_once()]
    texts = [text for text in dict.fromkeys(texts) if "\0" not in text and not allows(text)]
    done = outcomes(texts, tmp_path_factory.mktemp("harmful"))
    return [
        text for text, outcome in zip(texts, done, strict=True) if outcome.beyond(generated.ALLOWED)
    ]


def test_without_a_mutant_nothing_is_caught(harmful):
    assert caught_by_cases(list(GROUPS)) is None
    assert len(harmful) > 150
    assert not any(map(allows, harmful))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_of_the_analyser_is_missed_when_it_is_gone(name, harmful, monkeypatch):
    patches, groups = MUTANTS[name]
    for target, value in patches:
        replace(monkeypatch, target, value)
    assert caught_by_cases(groups) or any(map(allows, harmful))
