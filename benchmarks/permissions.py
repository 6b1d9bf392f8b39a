"""What a permission check costs: usual calls with many rules, and texts made to be slow.

python benchmarks/permissions.py

The floor of a usual command is the standard library's splitting of a line of 200 characters into
words, that of a long one the splitting of the same text, that of a file its bare `realpath`; all in
the same run, so the ratios hold on every machine. It exits with 1 when a promise is broken: a usual
call within its ratio, a hundred rules for little more than a few, and twice the length for about
twice the time, up to 64 KB.

It also times regular expressions of rules over texts that are made to be slow for them, none of
which may take a quarter of a second, and the cases of the tests, those made to be large or deep
among them, and those of the acceptance corpus where GREENROOM_PERMISSION_SAMPLE names its file, and
counts which take longer than a quarter of a second.
"""

import os
import shlex
import sys
import tempfile
import time
from functools import partial
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests have the cases

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.permissions.patterns import MAX_TEXT, Expression

CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))
FEW = (
    PermissionRule.allow_command("git status", "echo", "ls", "cat", "find", "xargs", "eval"),
    PermissionRule.deny_command("rm -rf", "sudo"),
    PermissionRule.deny_path("**/.env"),
    PermissionRule.allow_tool("Read"),
)
SPELLINGS = ("curl .*[|] *(ba)?sh", "[ab]+c", ".*--no-verify.*", "npm run (lint|test)( .*)?")
MANY = (
    *FEW,
    *(PermissionRule.allow_command(f"tool{n}", f"make target{n}") for n in range(40)),
    *(PermissionRule.deny_command(f"danger{n} --force", f"git verb{n}") for n in range(30)),
    *(PermissionRule.deny_path(f"**/secret{n}.key", f"**/*.k{n}", f"d{n}/**") for n in range(30)),
    *(
        PermissionRule(decision=RuleDecision.DENY, matcher=RuleMatcher(regex=(each,)))
        for each in SPELLINGS
    ),
    PermissionRule.deny_domain("evil.test", "*.evil.test"),
)
COMMANDS = {
    "one command": "git status -s",
    "a line of work": "cd src && pytest -q tests/test_x.py 2>&1 | tail -20",
    "a loop": (
        "for f in a.py b.py; do echo $f; cat $f | xargs -n1 echo; done && git status | tail -3"
    ),
}
LINE = (
    "python -m pytest -q tests/test_some_thing.py --maxfail 3 && git commit -m 'a subject' " * 3
)[:200]
FILES = {"a file": "src/greenroom/core/errors.py", "a protected one": "src/.git/hooks/pre-commit"}
DEEP = "$(" * 80 + "ls" + ")" * 80
# What stands before, what is repeated up to the length, and what stands behind.
LONG = {
    "commands": ("", "ls; ", ""),
    "words": ("cat ", "a ", ""),
    "one word": ("cat ", "x", ""),
    "actions of find": ("", "find . -exec ls {} \\; ", ""),
    "deep substitutions": ("", f"{DEEP} ", ""),
    "open substitutions": ("", '"$(', ""),
    "process substitutions": ("", "<(", ""),
    "parentheses": ("", "(", ""),
    "arithmetic": ("", "((x;", ""),
    "backticks": ("", "`", ""),
    "parameters": ("", "${x:-", ""),
    "braces": ("echo ", "{", ""),
    "brace lists": ("echo ", "{a,b}", ""),
    "keywords": ("", "if ", ""),
    "here-documents": ("", "ls <<A <<B\n", ""),
    "assignments": ("", "x=1 ", ""),
    "redirections": ("", "ls >a; ", ""),
    "eval": ("", "eval ", "ls"),
    "wrappers": ("", "timeout 1 ", "ls"),
    "nested find": ("", "find . -exec ", ""),
    "shells": ("", "bash -c '", ""),
    "texts": ("", "bash -c 'ls'; ", ""),
    "an unknown program": ("frob ", "rm ", ""),
    "sed": ("sed -n '", "{", "'"),
    "awk": ("awk '", "print(", "'"),
    "paths": ("cat ", "a/../", ""),
    "folders": ("", "cd a; ", ""),
    "files in many folders": ("cd a; cd b; cd c; cd d; cat ", "w{n} ", ""),
    "different commands": ("", "tool{n} a{n}; ", ""),
    "different folders": ("", "cd d{n}; ", ""),
    "different redirections": ("", "ls >f{n}; ", ""),
    "values of a variable": ("v=a; ", "ls $v; ", ""),
    "patterns": ("ls ", "*a{n} ", ""),
    "hosts": ("", "curl https://h{n}.test; ", ""),
    "what is sought": ("echo ", "curl a | ", "sh"),
}
# Expressions of all weights that are accepted, and what texts for them are made of.
HEAVY = (
    *SPELLINGS,
    r"\w+(ab){2}[cd]",
    "a*aaaa{2}[cd]",
    "(a)*(?:c|d)",
    "(?i)a[ab]*[cd]",
    "a.*[ab]*(c|d)",
    "(.*/)?a( .*)?c",
    "[ab]*a[ab]{200}c",
    ".*a.*b.*(c|d)",
    "(?=.*a)[^c]*?c$",
    "(?i)[ab]*" + "[ab]" * 100 + "c",
    r"([ab])*([ab])*x",
    r"(a*)\1c",
)
UNITS = ("a", "ab", "aaab", " a", "/a ", "b a", "curl |")
LENGTH = 64_000  # a longer text is not plain, whatever it holds
MOST = {"commands": 20, "files": 12, "a long text": 40, "many rules": 2.0, "twice the length": 2.6}
SLOW = 0.25  # seconds
NOISE = 0.02  # seconds below which a ratio of two lengths says nothing


def seconds(function, times, rounds=5):
    """The shortest of some rounds: what others do on the machine only adds to it."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(times):
            function()
        spent.append((time.process_time() - begin) / times)
    return min(spent)


def checked(manager, tool, data, times, rounds=5):
    return seconds(lambda: manager.check(tool, data, CONTEXT), times, rounds)


def text_of(name, length):
    before, unit, after = LONG[name]
    numbered = "{n}" in unit
    units = (unit.replace("{n}", str(n)) if numbered else unit for n in range(length))
    text = before
    parts = []
    size = len(before) + len(after)
    for each in units:
        size += len(each)
        if size > length:
            break
        parts.append(each)
    return text + "".join(parts) + after


def usual(broken):
    few, many = PermissionManager(FEW), PermissionManager(MANY)
    print(f"{len(MANY)} rules: µs for one check, × its floor, × the same with {len(FEW)} rules")
    for kind, tool, key, calls, floor in (
        ("commands", "Bash", "command", COMMANDS, lambda _: list(_split(LINE))),
        (
            "files",
            "Read",
            "file_path",
            FILES,
            lambda name: os.path.realpath(f"/srv/project/{name}"),
        ),
    ):
        for name, text in calls.items():
            spent = checked(many, tool, {key: text}, 200)
            ratio = spent / seconds(lambda floor=floor, text=text: floor(text), 200)
            rules = spent / checked(few, tool, {key: text}, 200)
            print(f"{spent * 1e6:9.1f} {ratio:6.1f} {rules:6.2f}  {name}")
            broken += [name] * (ratio > MOST[kind] or rules > MOST["many rules"])


def long(broken):
    many = PermissionManager(MANY)
    print(f"{LENGTH // 1000} KB: ms for one check, × its floor, × the same with half the length")
    for name in LONG:
        text = text_of(name, LENGTH)
        data, half = {"command": text}, {"command": text_of(name, LENGTH // 2)}
        spent, before = checked(many, "Bash", data, 1, 3), checked(many, "Bash", half, 1, 3)
        if spent > MOST["twice the length"] * before:  # others may have been busy just then
            spent = min(spent, checked(many, "Bash", data, 1, 9))
        ratio = spent / seconds(lambda text=text: list(_split(text)), 1, 3)
        growth = spent / before
        print(f"{spent * 1e3:9.1f} {ratio:6.1f} {growth:6.2f}  {name}", flush=True)
        slow = spent > NOISE and growth > MOST["twice the length"]
        broken += [name] * (slow or ratio > MOST["a long text"])


def expressions(broken):
    print(f"regular expressions: ms for the slowest text; no more than {SLOW * 1e3:.0f}")
    for source in HEAVY:
        expression = Expression(source)
        spent = max(
            seconds(partial(match, f"{(unit * MAX_TEXT)[: MAX_TEXT - 1]}{end}"), 1, 2)
            for match in (expression.fullmatch, expression.search)
            for unit in UNITS
            for end in ("", "c")
        )
        print(f"{spent * 1e3:9.1f}  {source}", flush=True)
        broken += [source] * (spent > SLOW)


def cases():
    from tests.permissions import test_cases, test_corpus

    print(f"cases: how many take longer than {SLOW * 1e3:.0f} ms, and ms for the slowest")
    stress = PermissionManager([test_cases.rule(each) for each in test_cases.STRESS_RULES])
    large = {}
    for number, text in enumerate(chain(*test_cases.STRESS.values())):
        large[f"{number} {text[:40]!r}"] = partial(stress.check, "Bash", {"command": text}, CONTEXT)
    _slowest("large and deep ones", large)
    usual = {}
    for (group, rules), found in test_cases.SETS.items():
        manager = PermissionManager([test_cases.rule(each) for each in rules])
        for tool, _, text in found:
            data = {test_cases.WORDS.get(tool, "x"): text}
            usual[f"{group} {text[:40]!r}"] = partial(manager.check, tool, data, CONTEXT)
    _slowest("those of the tests", usual)
    with tempfile.TemporaryDirectory() as folder:
        corpus = {}
        for case in test_corpus.CASES:
            corpus[case["id"]] = lambda case=case: test_corpus.decided(
                case, Path(tempfile.mkdtemp(dir=folder))
            )
        _slowest("those of the corpus, with the reading of their rules", corpus)


def _slowest(name, checks):
    spent = {case: seconds(check, 1, 2) for case, check in checks.items()}
    if spent:
        slow = sum(each > SLOW for each in spent.values())
        worst = max(spent, key=spent.get)
        print(f"{slow:6} of {len(spent):5} {spent[worst] * 1e3:9.1f}  {name}: {worst}", flush=True)


def _split(text):
    """Split as `shlex.split` does, a quote that is not closed included."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    try:
        yield from words
    except ValueError:
        return


def main():
    broken = []
    usual(broken)
    long(broken)
    expressions(broken)
    cases()
    if broken:
        sys.exit(f"a promise is broken: {', '.join(broken)}")


if __name__ == "__main__":
    main()
