"""Words that make git safe change nothing in a usual repository, and only safe options are read."""

import pytest

from greenroom.git._internal import GIT_SETTINGS, add_overrides
from greenroom.git.overrides import find_verb
from greenroom.programs._internal import find_reading, read_invocation
from tests.git.repositories import CANARY, READING, Ground, list_commands

SETTINGS = """
git config color.ui always; git config core.pager 'less -R'; git config alias.log 'log --oneline'
git config alias.st status; git config core.editor vi; git config diff.external ''
git config blame.ignoreRevsFile .ignored; git rev-parse HEAD > .ignored; git config log.date iso
git config core.excludesFile .git/mine; echo '*.tmp' > .git/mine; git config status.short true
git config mailmap.file .people; echo 'Ada <ada@b.test> <a@b.test>' > .people; touch x.tmp .dirty
git config diff.algorithm patience; git config core.abbrev 12; git config tag.sort -refname
"""


@pytest.mark.parametrize("settings", ["", SETTINGS])
def test_in_a_usual_repository_the_output_is_the_same(settings, tmp_path):
    made = Ground(tmp_path).make("usual", settings.replace("git config diff.external ''", ""))
    made.run(["git", "status"])  # which renews the index
    different = list(READING)
    for _ in range(3):  # what is not committed yet has the second in which one looks
        different = [
            argv
            for argv in different
            if made.run(argv) != made.run(list(add_overrides(argv)), dict(GIT_SETTINGS))
        ]
    assert different == []
    assert b"annotated" in made.read(["git", "show", "v2"])


def test_changes_of_a_submodule_are_shown_but_not_those_inside(tmp_path):
    script = "sub; git -C s checkout -q -f HEAD~1; git commit -qam x"
    made = Ground(tmp_path).make("submodule", script)
    assert made.answers.ask(str(made.work)).has_submodules
    inside = made.run(["git", "status", "-s", "s"])
    made.ground.shell(made.work, "git -C s checkout -q -f main; echo inside >> s/t")
    assert made.read(["git", "status", "-s", "s"]) == b" M s\n" != inside
    made.ground.shell(made.work, "git -C s checkout -q -f HEAD~1; echo inside >> s/t")
    assert made.read(["git", "status", "-s", "s"]) == b""


@pytest.mark.parametrize("argv", READING, ids=" ".join)
def test_usual_commands_only_read(argv):
    assert find_reading(read_invocation(argv)) is not None


DEEP = """
show; diff a; log -p; log -S x; log -G x; log -L1,2:f; log --cc; blame f; grep x
cat-file -p HEAD:f; stash show -p; diff-tree -p HEAD; log -U5; log -c
"""


@pytest.mark.parametrize("argv", list_commands(DEEP), ids=" ".join)
def test_commands_that_print_contents_say_so(argv):
    reading = find_reading(read_invocation(argv))
    assert reading is not None
    assert reading.deep


def test_commands_that_print_no_contents_say_so():
    for argv in list_commands("log --stat; status; ls-files; branch -a; log -5; reflog"):
        reading = find_reading(read_invocation(argv))
        assert reading is not None
        assert not reading.deep


# What reads or writes files elsewhere, runs programs, changes the repository, or reads its input.
MORE = """
log --output=x; log --outp=x; diff --ext-diff; diff --textconv; diff -Ox; diff --no-index a b
diff --submodule=log; diff --submodule; log --diff-merges=r; log --remerge-diff
log --show-signature; log --help; help log; log --stdin; log --alternate-refs; rev-list --stdin
rev-list --filter=blob:none HEAD; log -p --dd; status -v; status --verbose
status --ignore-submodules=none; status -sv; describe --dirty; describe --broken; whatchanged
blame --contents x f; blame -S x f; blame -sSx f; blame --ignore-revs-file x f; blame --encoding x
grep -Ovi x; grep --no-index x; grep --textconv x; grep --recurse-submodules x; ls-files -X x
grep --open-files-in-pager x; ls-files --exclude-from=x; ls-files --recurse-submodules
ls-files --exclude-per-directory=x; check-ignore --stdin; cat-file --filters HEAD:f
cat-file --textconv HEAD:f; cat-file --batch-command; name-rev --stdin; branch x; branch -v x
branch -d x; branch --sort=x y; branch --edit-description; branch -l x; tag x; tag -n x; tag -d x
tag -v x; tag --sort=x y; remote add a b; remote update; remote show origin; remote get-url
remote get-url a b; stash; stash pop; stash push; stash list -p; reflog expire; reflog -n expire
reflog delete x; reflog --date expire --all; reflog exists x; reflog -p; worktree add x
worktree prune; symbolic-ref HEAD x; symbolic-ref -d HEAD; symbolic-ref; config -l; config --get x
rev-parse --parseopt; -c a=b log; --exec-path=x log; --git-dir=x log; --bare log; --git-dir x log
--work-tree x status; -p log; --paginate log; --namespace=x log; -C a -C b log
--config-env=a=b log; fetch; ls-remote; archive HEAD; gc; fsck; difftool; var GIT_EDITOR; notes
submodule; show-ref --exclude-existing; add x; diff --pathspec-from-file=x; show --textconv
update-index --refresh; diff --merge-base --output x; shortlog --format=%s --output=x
for-each-repo log; log --format=%G?; show --pretty=%GG
"""


@pytest.mark.parametrize("argv", [["git"], *list_commands(MORE)], ids=" ".join)
def test_commands_that_may_do_more_do_not_only_read(argv):
    assert find_reading(read_invocation(argv)) is None


def test_the_verb_is_found_behind_options():
    assert find_verb(["git"]) == find_verb(["git", "-P"]) - 1 == 1
    assert add_overrides(["git", "--version"])[-1] == "--version"
    argv = ["git", "-C", "diff", "-P", "status", "-s"]
    assert find_verb(argv) == 4
    words = add_overrides(argv)
    assert words[-6:] == ("-C", "diff", "-P", "status", "--ignore-submodules=dirty", "-s")


def test_the_value_of_an_option_is_never_taken_for_the_verb():
    assert find_verb(["git", "--git-dir", "diff", "status"]) == 3


def test_a_secret_is_what_the_tests_look_for(tmp_path):
    made = Ground(tmp_path).make("usual", "")
    assert made.harm(made.run(["cat", "../outside/secret"])) == "shows a secret"
    assert made.harm(made.run(["../mark", "../outside/secret"])).startswith("ran")
    assert CANARY.encode() not in made.run(["cat", "f"])
