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
from greenroom.permissions.patterns import Expression, HostPattern
from greenroom.shell.analyser import Analyser
from greenroom.shell.effects import Command, Unknown
from greenroom.shell.lexer import Findings, Lexer
from greenroom.shell.parser import Parser
from greenroom.shell.programs import WRAPPERS
from greenroom.shell.words import Piece, Word
from tests.permissions import generated
from tests.permissions.bash_oracle import outcomes
from tests.permissions.test_cases import CASES, EXPECTED, WORDS, rule

CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/proj"))
PACKAGE = "greenroom"


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
    """Make the parser ignore what is unclear for one of these reasons."""
    unclear = Findings.add_unclear

    def hides(self, reason, *, change=False):
        if not any(each in reason for each in reasons):
            unclear(self, reason, change=change)

    return hides


def unnamed_programs_are_nothing(self, words, **options):
    return _COMMAND(self, words, **options) if words and words[0].static else iter(())


def swallow_the_rest(self, document):
    lexer = self.lexer
    rest, lexer.at = lexer.text[lexer.at :], len(lexer.text)
    return rest


def known_only(facts, *texts):
    """Leave facts out whose reason holds one of these texts."""
    return [
        fact
        for fact in facts
        if not (isinstance(fact, Unknown) and any(text in fact.reason for text in texts))
    ]


def empty_is_fine(list_effects):
    return lambda text, place: known_only(list_effects(text, place), "nothing to run") or ()


_COMMAND = Analyser.read_command
_ANALYSE = import_module(f"{PACKAGE}.shell.analyser").list_effects
_NOTHING = import_module(f"{PACKAGE}.permissions.evaluator")._NOTHING
_REACH = import_module(f"{PACKAGE}.permissions.evaluator")._count_named_words
_COMBINE = import_module(f"{PACKAGE}.permissions.evaluator").combine

# What is taken away, how, and the groups of cases that are asked.
MUTANTS = {
    "invisible characters are asked about": (
        [("shell.analyser.name_hidden_characters", lambda _: "")],
        ["quote", "url"],
    ),
    "a comment ends with its line": (
        [("shell.lexer._COMMENT", re.compile(r"#(?:\\\n|[^\n])*"))],
        ["chain"],
    ),
    "a comment is no command": (
        [("shell.lexer._COMMENT", re.compile(r"(?!)"))],
        ["benign"],
    ),
    "a continued word is one word": (
        [
            (
                "shell.lexer.Lexer._read_escape",
                lambda self, special="": setattr(self, "at", self.at + 2) or Piece(" "),
            )
        ],
        ["quote", "chain"],
    ),
    "substitutions are commands": (
        [("shell.parser.Parser.read_substitution", forgetting(Parser, "read_substitution"))],
        ["subst"],
    ),
    "backticks are commands": (
        [("shell.lexer.Lexer._read_backticks", forgetting(Lexer, "_read_backticks"))],
        ["subst"],
    ),
    "process substitutions are commands": (
        [
            (
                "shell.lexer.Lexer.read_process_substitution",
                forgetting(Lexer, "read_process_substitution"),
            )
        ],
        ["subst"],
    ),
    "defaults of parameters are read": (
        [
            (
                "shell.lexer.Lexer._skip_to_brace",
                forgetting(Lexer, "_skip_to_brace"),
            )
        ],
        ["subst"],
    ),
    "double quotes expand": (
        [("shell.lexer.Lexer._read_expandable", forgetting(Lexer, "_read_expandable"))],
        ["subst"],
    ),
    "here-documents expand": (
        [
            (
                "shell.lexer.Lexer.read_here_document",
                forgetting(Lexer, "read_here_document"),
            )
        ],
        ["subst"],
    ),
    "a here-document ends at its delimiter": (
        [("shell.parser.Parser._read_body", swallow_the_rest)],
        ["chain"],
    ),
    "arithmetic reads variables": ([("shell.analyser.may_hold_code", no)], ["subst"]),
    "arithmetic over what commands print": (
        [("shell.lexer.Findings.add_unclear", clear_about("only known at run time"))],
        ["subst"],
    ),
    "arithmetic over what the shell fills in": (
        [("shell.lexer._SET_BY_SHELL", re.compile(r"(?!)"))],
        ["subst"],
    ),
    "subscripts in arithmetic": (
        [("shell.lexer.Findings.add_unclear", clear_about("in arithmetic, which may run"))],
        ["subst"],
    ),
    "builtins that compute": ([("shell.analyser.computes", no)], ["subst"]),
    "conditions that evaluate": (
        [("shell.parser._EVALUATING", frozenset())],
        ["subst"],
    ),
    "redirections are writes": ([("shell.analyser.list_redirection_effects", nothing)], ["redir"]),
    "descriptors and /dev/null are no files": (
        [("shell.effects._DESCRIPTOR", re.compile("(?!)"))],
        ["redir", "benign"],
    ),
    "sockets are no files": ([("shell.effects._SOCKET", re.compile("(?!)"))], ["redir"]),
    "assignments are changes": ([("shell.analyser.is_display_setting", yes)], ["env"]),
    "only display variables are none": (
        [("shell.analyser.is_display_setting", no)],
        ["env", "benign"],
    ),
    "loops set variables": ([("shell.analyser.changes_programs", no)], ["env"]),
    "builtins set variables": (
        [
            ("shell.risks.changes_programs", no),
            ("shell.risks._CHECKS", {}),
        ],
        ["env", "subst"],
    ),
    "functions are changes": (
        [("shell.lexer.Findings.add_unclear", clear_about("defines the function"))],
        ["env"],
    ),
    "bodies of functions are judged": (
        [
            (
                "shell.parser.Parser._read_function",
                forgetting(Parser, "_read_function"),
            )
        ],
        ["env"],
    ),
    "arithmetic is unclear": (
        [("shell.lexer.Findings.add_unclear", clear_about("arithmetic"))],
        ["env", "subst", "wrap"],
    ),
    "expansions that set or run are unclear": (
        [("shell.lexer.Findings.add_unclear", clear_about("an expansion that may"))],
        ["subst"],
    ),
    "what can't be read is asked about": (
        [("shell.lexer.Findings.add_unclear", clear_about("can't be read"))],
        ["subst"],
    ),
    "programs have names": (
        [("shell.analyser.Analyser.read_command", unnamed_programs_are_nothing)],
        ["dynamic"],
    ),
    "braces without a partner are not known": (
        [("shell.words.UNSURE", Piece("", quoted=False))],
        ["path"],
    ),
    "a home folder before quotes is written out": (
        [("shell.words._write_out_home", lambda pieces: pieces)],
        ["path"],
    ),
    "a glob is no name": ([("shell.words._is_pattern", no)], ["dynamic", "quote"]),
    "texts for shells are commands": (
        [("shell.analyser.find_inner_text", lambda argv: None)],
        ["wrap"],
    ),
    "shells that read a file or their input": (
        [("shell.programs._find_file_text", lambda argv, at: None)],
        ["wrap", "dynamic"],
    ),
    "wrappers run their operands": (
        [("shell.analyser.Analyser._read_wrapped_command", nothing)],
        ["wrap"],
    ),
    "only plain wrappers are transparent": (
        [
            (
                "shell.analyser.is_transparent",
                lambda invocation: invocation.argv[0].text in WRAPPERS,
            )
        ],
        ["wrap"],
    ),
    "find runs its actions": ([("shell.analyser.find_actions", nothing)], ["wrap"]),
    "options that write or run": (
        [("shell.programs.Program.marks", lambda self, option: "")],
        ["flags"],
    ),
    "scripts of sed": ([("shell.risks.sed_only_prints", yes)], ["flags"]),
    "scripts of awk": ([("shell.risks.awk_only_prints", yes)], ["flags"]),
    "what programs do with their own words": (
        [("shell.risks._CHECKS", {})],
        ["flags"],
    ),
    "braces are written out": (
        [("shell.lexer.expand", lambda pieces: [pieces] if pieces else [])],
        ["quote"],
    ),
    "most escapes in $'…' are not known": (
        [("shell.lexer._ODD_ESCAPE", re.compile(r"(?!)"))],
        ["path"],
    ),
    "a prefix ends at a word": (
        [
            (
                "permissions.evaluator.begins_with",
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
                "permissions.evaluator._count_named_words",
                lambda matcher, fact: _REACH(matcher, _short(fact)),
            )
        ],
        ["quote"],
    ),
    "an allowance is about known words": (
        [
            (
                "permissions.evaluator.begins_with",
                lambda argv, prefix: [w.text for w in argv[: len(prefix)]] == list(prefix),
            )
        ],
        ["quote"],
    ),
    "a denial means every spelling of a program": (
        [("permissions.evaluator.program_name", lambda program: program)],
        ["quote"],
    ),
    "a denial means every spelling of an option": (
        [("permissions.evaluator.turns_on", lambda word, option: word == option)],
        ["flags"],
    ),
    "a program that runs its words": (
        [("permissions.evaluator.occurs_in", no), ("shell.analyser.RUNNERS", frozenset())],
        ["wrap"],
    ),
    "words that are not known may be options": (
        [("shell.risks._find_possible_options", nothing)],
        ["flags"],
    ),
    "words that are not known may be files that are written": (
        [
            ("shell.analyser.find_extent", lambda invocation: "reads"),
            ("shell.risks.find_extent", lambda invocation: "reads"),
        ],
        ["benign"],
    ),
    "words that are not known may be denied": (
        [
            ("shell.words.Word.unknown", property(no)),
            ("shell.words.Word.may_be_option", property(no)),
        ],
        ["path"],
    ),
    "the values of loops are known": (
        [("shell.words.MAX_VALUES", 0)],
        ["dynamic", "benign", "path"],
    ),
    "what sets variables ends what is known of loops": (
        [("shell.lexer.find_assigned_names", lambda command: frozenset())],
        ["path"],
    ),
    "the current folder is known": (
        [("shell.words._write_current_folder", lambda piece, splits: piece)],
        ["path"],
    ),
    "builtins change what later words mean": ([("shell.analyser.redefines", no)], ["dynamic"]),
    "values of variables are run": ([("shell.analyser.list_variable_effects", nothing)], ["env"]),
    "a file is run that was just written": (
        [("shell.analyser._list_written_files", nothing)],
        ["dynamic"],
    ),
    "operands are in a folder": (
        [("shell.analyser._change_folder", lambda place, words: place)],
        ["path"],
    ),
    "what is left out is not read": (
        [("permissions.call._LEFT_OUT", re.compile("(?!)"))],
        ["path"],
    ),
    "operands are files": ([("permissions.evaluator.find_operands", nothing)], ["path"]),
    "a glob stands for files": ([("permissions.patterns.PathPattern.overlaps", no)], ["path"]),
    "denied paths have no case": (
        [
            (
                "permissions.patterns.PathPattern.touches",
                lambda self, path, anchors: self.matches(path, anchors),
            )
        ],
        ["path"],
    ),
    "paths are made absolute": ([("shell.effects._normalize", lambda path: path)], ["path"]),
    "a denied host has every spelling": (
        [("permissions.patterns.HostPattern.touches", HostPattern.matches)],
        ["url"],
    ),
    "an allowed host is read in one way": (
        [
            (
                "permissions.patterns.HostPattern.matches",
                lambda self, host: any(self._is_about(name) for name in host.names),
            )
        ],
        ["url"],
    ),
    "an allowing expression matches all": (
        [("permissions.patterns.Expression.fullmatch", Expression.search)],
        ["regex"],
    ),
    "a denying expression matches a part": (
        [("permissions.patterns.Expression.search", Expression.fullmatch)],
        ["regex"],
    ),
    "any denial denies": (
        [
            (
                "permissions.manager.combine",
                lambda rulings: min(
                    (v.decision for v in rulings),
                    default=RuleDecision.ASK,
                    key=["allow", "ask", "deny"].index,
                ),
            )
        ],
        ["chain"],
    ),
    "nothing is not allowed": (
        [
            ("permissions.call.list_effects", empty_is_fine(_ANALYSE)),
            ("permissions.call.Whole", lambda tool: Command(argv=(Word(tool),), guard=True)),
            ("permissions.evaluator._NOTHING", replaced(_NOTHING, decision=RuleDecision.ALLOW)),
            (
                "permissions.manager.combine",
                lambda rulings: _COMBINE(rulings) if rulings else RuleDecision.ALLOW,
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
    path, name = f"{PACKAGE}.{target}".rsplit(".", 1)
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
