"""Commands that only read, inside the workspace: which ones need no rule."""

import subprocess
from pathlib import Path

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.fs import file_lookup
from greenroom.git._internal import GitAnswer
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from tests.permissions.tables import read_lines

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY
MANAGER = PermissionManager()

READ = r"""
ls
ls -la src
cd src && ls
cat README.md | head -20
head -n 5 src/a.py
tail -f README.md
wc -l src/*.py
rg -n foo src
rg "/api/" src
grep -rn "/api" src --include=*.py
grep -n -e foo -- src/a.py
find . -name '*.py' -type f
find src -maxdepth 2 -name "*.py" | sort | uniq -c
find . -path './node_modules' -prune -o -name '*.js' -print | wc -l
pwd
which python
type ls
command -v git
file README.md
stat README.md
du -sh .
df -h .
tree -L 2
sort README.md | uniq -c | sort -rn
cut -d/ -f1 README.md
cut -d : -f 1 README.md
tr a b < /dev/null
diff README.md src/a.py
cmp README.md src/a.py
jq . package.json
jq -r '.scripts | keys[]' package.json
jq '..|.x?' package.json
test -f README.md && echo yes
[ -d src ] || echo no
true
basename /a/b
dirname /etc/x
date +%F
date -d yesterday +%s
whoami
id
uname -a
sed -n '1,5p' README.md
sed -n "3,10p" src/a.py | grep foo
sed 's/a/b/' README.md
python --version
node -v
git --version
git status
git status --short
git diff
git diff --stat HEAD~1
git diff HEAD~1..HEAD -- src
git log --oneline -5
git log --format=%h -n 3 --grep /api
git log -p -S foo -- src/a.py
git log main..HEAD --author=me
git show HEAD
git show HEAD:src/a.py
git branch
git branch -a
git branch -vv --list 'f*'
git branch --show-current
git branch --contains HEAD
git rev-parse --show-toplevel
git ls-files '*.py'
git blame src/a.py
git describe --tags
git remote -v
git remote get-url origin
git tag
git tag -l 'v*'
git stash list
git reflog
git show-ref
git shortlog -sn HEAD
git cat-file -p HEAD
git --no-pager log -3
git -C src log
git worktree list
ls src 2>/dev/null
ls | grep foo | wc -l
md5sum README.md
sha256sum README.md
seq 3
realpath src
readlink pwx
nl README.md
column -t -s, README.md
git diff --name-only | head
ls *.md
cat src/*.py
ls -l | sort -k5 -n
env ls
time ls
timeout 5 ls
cat < README.md
"""

MORE = r"""
ls /
ls ..
cat /etc/passwd
cat out/passwd
cat pw
cat ~/.bashrc
cd
cd -
cd /
cd out
cd .. && ls
head -c5 /etc/passwd
grep -f/etc/passwd x
grep -nf /etc/passwd x
grep -f pw x
grep foo /etc/passwd
grep -e foo /etc/passwd
grep --regexp=foo /etc/passwd
grep --rege foo /etc/passwd
grep --file /etc/passwd README.md
grep --file=/etc/passwd README.md
grep -R foo .
grep -rR foo .
rg --pre cat foo
rg --files /etc
rg -f /etc/passwd README.md
rg -z foo
rg foo ..
rg -L foo
find / -name x
find . -delete
find . -exec rm {} +
find . -fprint x
find -L . -name x
find . $x
find src out -type f
sort -o x README.md
sort --files0-from=README.md
sort -T /tmp README.md
sort README.md -o README.md
uniq README.md x
tree -o x
tree -R -H . -L 1
file -C -m x
file -f README.md
file -z x
date -s 2020-01-01
date 01010000
jq -f /etc/x .
jq --rawfile a /etc/passwd .
jq --slurpfile a pw . package.json
jq -L/etc '.' x
jq . /etc/passwd
jq -n 'import "/etc/x" as $d; $d'
jq 'include "x"; .' package.json
sed -i s/a/b/ README.md
sed -n 'w x' README.md
sed 's/a/b/w x' README.md
sed -n p /etc/passwd
sed -ne p /etc/passwd
sed -f x README.md
diff -r src tests
diff /etc/passwd README.md
diff --from-file=/etc/passwd README.md
wc --files0-from=README.md
du --files0-from=README.md
cat $x
cat "$x"
cat src/$x
ls $x
git diff --no-index a b
git diff /etc/passwd README.md
git diff --output=x
git diff --ext-diff
git log --textconv
git log --show-signature
git log --output x
git grep -O foo
git branch foo
git branch -d foo
git branch -D foo
git branch -m a b
git branch --edit-description
git branch -f a b
git branch -u origin/x
git branch --unset-upstream
git branch a --no-color
git tag v1
git tag -d v1
git tag -a v1
git stash
git stash pop
git stash drop
git remote add a b
git remote show origin
git remote update
git remote -v update
git reflog expire --all
git reflog delete x
git worktree add x
git config user.name
git -c core.pager=x log
git -C .. log
git -C / status
git --git-dir=x status
git --exec-path=. status
git --work-tree=/ status
git -p log
git add .
git commit -m x
git checkout x
git fetch
git submodule status
ls > x
python -c 1
python -m pytest
python --version x
./ls
src/ls
npm test
node --version x
cat README.md | sh
echo `npm test`
xargs rm
ls | xargs rm
ls | xargs sh -c
ls | xargs -a /etc/passwd cat
ls | xargs --arg-file=/etc/passwd echo
ls | xargs sort
FOO=1 ls
alias ls=rm
ls() { rm x; }; ls
cat README.md > /tmp/x
cat < /etc/passwd
bat README.md
less README.md
echo /etc/*
ls ~
cat ~root/x
realpath /etc/x
printf -v x y
test -v 'a[$(id)]'
jq -n " $(cat a.txt)"
git ls-files | xargs wc -l
ls | xargs --replace rm cat {}
sed -n -l '' '1e touch out' a.txt
sed 's/[/]//e;/x;/a/p' a.txt
find -D -name -delete
git stash -m list
wc -c /etc/passwd
stat -t /etc/passwd
xargs cat <<< /etc/hostname
cat e{1..1}$((0))
du -"${x:--files0-from=../outside}"
find . -fprint$? .git/hooks/x
echo a >& {.envrc,}
echo a > {x..x}
test -$'\x76' "$(cat a.txt)"
: "$(cat a.txt)"; test -v "$_"
command ls /etc
md5sum -c README.md
stat -f /etc
column /etc/passwd
git show HEAD > x
cat < $x
cat < "$x/y"
cat < pw
grep "$x" README.md
head -n $N README.md
ls | xargs -I{} cat /etc/{}
ls | xargs cat $y
ls | xargs git log
echo "$(cat /etc/passwd)"
git tag --list x -d y
git branch --list -D x
git log -O/etc/passwd
cat *
ls | xargs xargs
ls | xargs env
ls | xargs -I{} {} x
ls | xargs uniq
ls | xargs find
cat ~-/x
git log --format=%G?
git for-each-ref --format='%(signature)'
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "src").mkdir()
    (folder / "d").mkdir()
    (folder / "src/a.py").write_text("foo\n")
    (folder / "d/-o").write_text("")
    for name in ("README.md", "package.json", "-n"):
        (folder / name).write_text("{}\n")
    (folder / "out").symlink_to("/etc")
    (folder / "pw").symlink_to("/etc/passwd")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    for name in ("CDPATH", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


def decide(command, folder, manager=MANAGER, tool="Bash"):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(folder))
    answers = {str(place): GitAnswer() for place in (folder, Path(folder) / "src")}
    return manager.explain(tool, {"command": command}, context, git=answers)


@pytest.mark.parametrize("command", read_lines(READ))
def test_reading_inside_the_workspace_needs_no_rule(command, workspace):
    found = decide(command, workspace)
    assert (found.decision, found.rule) == (ALLOW, None), found.reason


@pytest.mark.parametrize("command", read_lines(MORE))
def test_what_writes_runs_or_leads_outside_is_asked_about(command, workspace):
    assert decide(command, workspace).decision is ASK


def test_without_a_workspace_nothing_is_inside_of_it():
    assert decide("ls", "/srv/proj-that-is-not-there").decision is ASK


def test_a_program_of_the_workspace_on_the_path_is_another_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cat").touch(0o755)
    assert decide("cat f", tmp_path).decision is ASK
    assert decide("head f", tmp_path).decision is ALLOW


def test_a_shim_runs_what_files_of_the_project_say(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims/node").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:/usr/bin:/bin")
    assert decide("node --version", tmp_path / "work").decision is ASK
    assert decide("git --version", tmp_path / "work").decision is ALLOW


def test_a_pattern_that_stands_for_too_many_names_is_asked_about(tmp_path, monkeypatch):
    for name in "abcdef":
        (tmp_path / name).touch()
    assert decide("cat *", tmp_path).decision is ALLOW
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 3)
    assert decide("cat *", tmp_path).decision is ASK


def test_rules_come_before_it(workspace):
    rules = {
        "cat src/a.py": RuleMatcher(path=("src/**",)),
        "ls -la": RuleMatcher(command_prefix=("ls",)),
        "git log": RuleMatcher(tool=("Bash",)),
    }
    for command, matcher in rules.items():
        for decision in (ASK, DENY):
            manager = PermissionManager([PermissionRule(decision=decision, matcher=matcher)])
            assert decide(command, workspace, manager).decision is decision


def test_it_can_be_switched_off_and_children_inherit_that(workspace):
    manager = PermissionManager(read_only=False)
    child = manager.child([PermissionRule.allow_command("cat")])
    assert decide("ls", workspace, manager).decision is ASK
    assert decide("ls", workspace, child).decision is ASK
    child.read_only = True
    assert decide("ls", workspace, child).decision is ASK
    assert decide("ls", workspace, PermissionManager().child([])).decision is ALLOW


@pytest.mark.parametrize(("mode", "other"), [("plan", DENY), ("deny", DENY), ("default", ASK)])
def test_it_holds_in_every_mode(mode, other, workspace):
    manager = PermissionManager(mode=mode)
    assert decide("git log | head", workspace, manager).decision is ALLOW
    assert decide("git log > f", workspace, manager).decision is other
    assert decide("ls; make", workspace, manager).decision is other
