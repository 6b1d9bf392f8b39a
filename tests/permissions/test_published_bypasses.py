"""Bypasses that were published for other systems, and their kin: none of them is allowed here.

Each table is named after the technique and the systems that fell for it. Beside each stand the
harmless commands that look alike and must stay allowed: over-asking drives people to bypass.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from greenroom.core import AgentContext, Execute, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

_spec = importlib.util.spec_from_file_location("commands", Path(__file__).with_name("commands.py"))
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
RULES = (
    *table.RULES,
    PermissionRule.allow_command("git grep", "git rebase", "git clone", "git fetch", "set", "tar"),
    PermissionRule.allow_command("git show", "base64", "wget", "xxd", "tree", "file", "gawk", "rg"),
    PermissionRule.allow_command("sh -c", "env", "command", "eval", "builtin", "nproc", "basename"),
    PermissionRule.deny_path("**/.env", "secrets/**"),
)
MANAGER = PermissionManager(RULES)
CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))


def decide(command):
    return MANAGER.explain("Bash", {"command": command}, CONTEXT)


def not_allowed(text):
    return pytest.mark.parametrize("command", table.commands(text))


# gemini-cli, pull request 25935; Claude Code 2.1.214, 2.1.221: the shell evaluates what an
# arithmetic expression turns into, subscripts and the commands inside them included.
ARITHMETIC = r"""
for x in 'a[$(shred f)]'; do echo $(($x)); done
for x in 'a[$(shred f)]'; do echo $((${x})); done
for x in 'a[$(shred f)]'; do echo $((1 + "$x")); done
for x in 'a[$(shred f)]'; do echo $((${x%y})); done
for x in 'a[$(shred f)]'; do eval 'echo $((x))'; done
for f in *; do echo $((f)); done
read x; echo $(($x))
read x <<< 'a[$(shred f)]'; echo $((x + 1))
cat f | while read n; do echo $(($n+1)); done
cat f | while command read n; do echo $((n+1)); done
cat f | while builtin read n; do echo $((n+1)); done
set -- 'a[$(shred f)]'; echo $(($1))
bash -c 'echo $(($1))' _ 'a[$(shred f)]'
sh -c 'echo $(($0))' 'a[$(shred f)]'
ls | xargs bash -c 'echo $(($1))' _
find . -exec sh -c 'echo $(($1))' _ {} \;
echo $[ x='a[$(shred f)]', x ]
"""

PLAIN_ARITHMETIC = r"""
echo $((1+2))
echo $(($x))
echo $((x + $y * ${z}))
echo $(( $(wc -l < f) + 1 ))
for i in 1 2 3; do echo $(($i * 2)); done
for i in {1..3}; do echo $((${i} % 2)); done
for f in a b; do cat "$f"; done
for f in *.py; do echo $((1 + 2)); done
bash -c 'for i in 1 2; do echo $((i * 2)); done'
bash -c 'echo $(($1))' _ 5
while read -r line; do echo "$line"; done
"""


@not_allowed(ARITHMETIC)
def test_arithmetic_subscripts_as_in_gemini_cli_25935(command):
    assert decide(command).decision is not ALLOW


# opencode 42979, Claude Code 2.1.98 and 2.1.113: options of harmless programs, however spelt.
ABBREVIATED_OPTIONS = r"""
sort --outp=o f
sort --o=o f
sort --outp o f
sort --compress-prog=./x f
tar --to-comm='sh x' -xf a.tar
tar --use=./x -xf a.tar
date --se=2020-01-01
date --s 2020-01-01
sed -n --in-plac=.b p f
base64 --outp=o f
git diff --outp=o
git log --ext
git grep --open=./pg a
"""

ATTACHED_OPTIONS = r"""
git grep -O./pg a
git grep -nO./pg a
git grep -inOless a
git rebase -x'shred f' main
git rebase -ix 'shred f' main
git clone -cx=y u
git clone -u./x u
sort -ro o f
sort -uoo f
wget -Oout https://x.test
wget -qo log https://x.test
wget -e use_proxy=on https://x.test
printf -vPATH x
make -E 'x:;shred f'
tree -ao out
"""

ALIKE_OPTIONS = r"""
sort -k2 f
sort --key=2 --reverse --numeric-sort f
sort -t o -k 2o f
sort -- -o f
date --iso-8601=seconds
date --date=yesterday
tar -tf a.tar
git grep -n foo
git grep --text foo
git diff --text
git diff --exit-code --stat
git log --oneline --no-merges
git rebase -X ours main
git clone -b main u
sed -n -E --quiet p f
base64 -d f
printf '%s\n' -v
"""


@not_allowed(ABBREVIATED_OPTIONS)
def test_abbreviated_options_as_in_claude_code_2_1_113(command):
    assert decide(command).decision is not ALLOW


@not_allowed(ATTACHED_OPTIONS)
def test_attached_options_as_in_claude_code_2_1_98(command):
    assert decide(command).decision is not ALLOW


# Claude Code: CVE-2025-64755, sed's own commands write files and run programs.
SCRIPTS = r"""
sed -n --exp='1e date' p
sed -n --expr='w out' p
sed -n --expression '1e date' p
sed -n --e='w out' f
sed -n -se p -ze 'w out' f
sed -n -e p -se 'w out' f
sed -n --fil=x p
sed -n --file x f
sed -n -sf x f
sed -n p --expression='w out'
sed -n "$x" f
gawk --source='BEGIN { system("id") }'
gawk -e 'BEGIN { system("id") }'
gawk -oout '{ print }' f
gawk --pretty-print=out '{ print }' f
gawk --dump-variables=out '{ print }' f
gawk -dout '{ print }' f
gawk --profile=out '{ print }' f
gawk -pout '{ print }' f
gawk --exec x f
gawk --assign x=1 'BEGIN { system("id") }'
gawk --field-separator : '{ print | "sh" }' f
awk -v x=1 'BEGIN { system("id") }'
awk -vx=1 'BEGIN { system("id") }'
awk -f x.awk f
awk "$x" f
"""

HARMLESS_SCRIPTS = r"""
sed -n p f
sed -n -se 5p f
sed -n -e 's/a/b/p' -e '3,4p' f
sed -n --expression=p f
sed -n -l 5 l f
sed -n p f out w e
awk -v n=3 'NR == n' f
awk -F , '{ print $2 }' f
awk -F, -vOFS=: '{ print $2 }' f g
gawk --field-separator : '{ print $1 }' f
"""


@not_allowed(SCRIPTS)
def test_scripts_of_sed_and_awk_as_in_cve_2025_64755(command):
    assert decide(command).decision is not ALLOW


@not_allowed(PLAIN_ARITHMETIC + ALIKE_OPTIONS[1:] + HARMLESS_SCRIPTS[1:])
def test_what_only_looks_like_a_bypass_stays_allowed(command):
    explanation = decide(command)
    assert explanation.decision is ALLOW, explanation.reason


# goclaw 1200, openclaw 47082: a program started without a shell is looked through like one in it.
def tool_that_runs(*effects):
    return SimpleNamespace(name="Run", category="execute", effects=lambda *_: effects)


@pytest.mark.parametrize(
    ("effect", "decision"),
    [
        (Execute(("sudo", "rm", "-rf", "x")), DENY),
        (Execute(("env", "rm", "-rf", "x")), DENY),
        (Execute(("bash", "-c", "rm -rf x")), DENY),
        (Execute(("xargs", "rm", "-rf")), DENY),
        (Execute(("timeout", "5", "cat", "a/.env")), DENY),
        (Execute(("cat", "key"), cwd="secrets"), DENY),
        (Execute(("cat", "../secrets/key"), cwd="src"), DENY),
        (Execute(("ls",), environment=(("LD_PRELOAD", "x.so"),)), ASK),
        (Execute(("ls",), environment=(("FOO", "1"),)), ASK),
        (Execute(("ls\0", "a")), ASK),
        (Execute(("$X",)), ASK),
        (Execute(("ls",), environment=(("NO_COLOR", "1"),)), ALLOW),
        (Execute(("ls", "a > b; rm -rf x")), ALLOW),
        (Execute(("timeout", "5", "ls", "$(rm -rf x)")), ALLOW),
        (Execute(("cat", "key"), cwd="src"), ALLOW),
    ],
)
def test_programs_without_a_shell_as_in_goclaw_1200(effect, decision):
    rules = [
        PermissionRule(decision=rule.decision, matcher=replace(rule.matcher, tool=()))
        for rule in RULES
    ]
    manager = PermissionManager(rules)
    assert manager.check(tool_that_runs(effect), {}, CONTEXT) is decision
