"""Commands that only read: what they read, and that nothing else happens."""

import os
import random
import shlex
import sys

import pytest

from greenroom.programs.invocation import read_invocation
from greenroom.programs.languages import awk_only_prints, ps_only_lists
from greenroom.programs.reading import find_reading, read_only_commands
from tests.programs import generated_readings as generated, reading_oracle as oracle

TRIED = int(os.environ.get("GREENROOM_BASH_CASES", "200"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "7"))

# What stands behind the bar is read; `/` behind it means folders too, and `**` what is in them.
READS = r"""
ls | . /
ls -la src | src /
ls -lhS --color=auto | . /
cat a b | a / b /
cat -- -a | -a /
head -n 5 a | a /
head -5 a | a /
head -n -5 a | a /
tail -20 a | a /
tail -n +20 a | a /
tail -f a | a /
wc -l a b | a / b /
grep x a | a /
grep x | . /
grep -rn x src | src / **
grep -e x a b | a / b /
grep -rnE 'a|b' src --include='*.py' | src / **
grep -if p a | a / p /
grep -ifp a | a / p /
grep --recursive x | . / **
egrep -n 'x|y' a | a /
fgrep -r x | . / **
grep -A3 -B 2 x a | a /
rg x | . / **
rg -n 'TODO|FIXME' src tests | src / tests / **
rg -l x web --glob '*.tsx' | web / **
rg -e x -e foo src | src / **
rg --files src | src / **
find . -name '*.py' -not -path './.venv/*' | . /
find src -maxdepth 2 -type f ( -size +1k -o -newer a ) | src / a /
find -type f | . /
sort -t: -k2 -rn a | a /
sort -nk2 -u |
uniq -c |
cut -d, -f1 a | a /
cut -d= -f2 a | a /
tr a b |
diff a b | a b
diff -u a b | a b
cmp a b | a b
jq .scripts a | a /
jq -r '.a | keys[]' |
jq -n '$x' --arg x y |
jq . --slurpfile x y a | a / y /
sed -n 1,5p a | a /
sed -n -e 1p -e '$p' a b | a / b /
sed 'y/ab/cd/;s/a/b/2p;/x/!d' a | a /
sed -E 's/a|b/c/' a | a /
awk '{print $1}' a | a /
awk -F: -v x=1 '$3 > x {print $1, NR}' a | a /
awk 'NR==FNR{n[$1];next} $1 in n' a b | a / b /
date +%F |
date -d yesterday +%s |
date -d 'TZ="Europe/Paris" 9:00' |
date -ufa | a /
stat -c %s a | a /
file -b a | a /
du -sh . | . /
du -h --max-depth=1 | . /
df -h . | . /
tree -L 2 -I node_modules | . /
tree -aL 2 src | src /
find . -newermt 2024-01-01 | . /
basename a .py |
realpath src | src /
readlink -f a | a /
which python | python /
type ls |
md5sum a | a /
cksum a | a /
comm -12 a b | a / b /
nl -ba a | a /
column -t -s, a | a /
xxd -l 64 a | a /
hexdump -C -n 64 a | a /
od -A x -t x1 a | a /
strings -n 8 a | a /
ps aux |
ps -fp 12 |
ps axo pid,cmd |
ps -ef |
ps -eo pid,cmd --sort=-%mem |
env |
printenv PATH |
test -f a -a -d b |
[ a = b ] |
echo -e x |
printf '%s\n' a |
seq 5 -1 1 |
cd src | src /
pwd |
command -v git |
sleep 1 |
python --version |
node -v |
ls --version |
git --version |
git -C src status -s a | a / in src
git branch --list a |
git tag --format=x --list a |
git log -S word a | **
"""

ASKED = r"""
ls -L
ls --recurs
ls --color=auto --dereference
./ls
/bin/ls
cat --number=x a
head --lines
head -n
tail -F a
tail -5c a
head -5c a
tail --follow=name a
wc --files0-from=a
grep -R x .
grep -d recurse x .
grep -rf= x
rg --pre sh x
rg -z x
rg -L x
rg -g --pre=x hi
rg -C -x hi
find . -delete
find . -exec rm {} +
find -L . -name x
find . -fprint x
find . -okdir x ;
find . -files0-from a
find . -name
find . -namex y
sort -o x a
sort a -ox
sort -T x a
sort --files0-from=a
uniq a b
diff -r a b
diff a b c
diff --from-file=a b
jq -f a .
jq -L a .
jq . -- a
jq 'import "a" as $a; .'
jq --args . a
jq 'include "x"; .' a
sed -i p a
sed -f a b
sed 's/[/]//e;/x;/a/p' a
sed '1e id' a
sed 'r x' a
sed 'y/a/b/w x' a
sed -n w a
sed 's/a/b/e' a
awk '{print > "x"}' a
awk -f a b
awk '{"x" | getline}' a
awk 'BEGIN {while ((getline x < "/etc/passwd") > 0) print x}'
date -s x
date 01010000
date -f '' +%F
date +%F +%F
date -d 'TZ="/etc/hostname" now'
date '--date= TZ=":../../a" 1'
find . -newermt 'TZ="/x" now'
file -C -m a
file -f a
file -z a
tree -o x
tree -R
tree -l
tree -Iolist a.txt W2
tree -L2 src
tree --fromfile a
md5sum -c a
xxd -r a
xxd a b
xxd a -p
strings @a
du -L
du --files0-from=a
stat
ps auxe
ps e
ps -ef u
ps -u axe
ps -o environ
env A=1
env ls
env -i
test -v x
[ -R x ]
printf -v x y
printf %n x
cd
cd -
cd a b
cd -P a
hostname x
command ls
python -c 1
python --version x
python
git -C a -C b status
git branch a
git tag --format --list a
git branch --sort -v --column --list a
git show -tS --output=out a
git log -S --ext-diff
git diff -pG secrets/key
git stash
frobnicate a
which
base64 -o x a
fmt @a x --foo
kill 1
"""


@pytest.mark.parametrize("row", READS.strip().splitlines())
def test_what_a_reading_command_reads(row):
    line, _, expected = row.rpartition(" |")
    found = find_reading(read_invocation(shlex.split(line)))
    assert found is not None
    words = [word for each in found.files for word in (each.path, "/" * each.may_be_folder) if word]
    words += ["**"] * found.deep + ["in", found.folder] * bool(found.folder)
    assert words == expected.split()


@pytest.mark.parametrize("line", ASKED.strip().splitlines())
def test_what_is_not_in_a_row_is_not_reading(line):
    assert find_reading(read_invocation(shlex.split(line))) is None


def test_on_other_systems_only_what_they_read_alike_is_reading(monkeypatch):
    alike = (
        "git status a -s",
        "sort -k2 a",
        "grep -rn x src",
        "sed -n 1p a",
        "head -n 5 a",
        "ps aux",
    )
    apart = (
        "ls --color",
        "date -d x +%F",
        "grep -P x a",
        "strings a",
        "stat -c %s a",
        "head a -n 5",
    )
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        found = [find_reading(read_invocation(line.split())) for line in (*alike, *apart)]
        assert [each is not None for each in found] == [True] * 6 + [platform == "linux"] * 6
    assert "strings" not in read_only_commands()


AWK_PRINTS = (
    *("BEGIN{for(i = 2 > 1; i; print (2 > i)) i = 0}", "{for(print; 2 > i++;) print}"),
    *("length > 80", "!seen[$0]++", "{s+=$3} END{print s/NR}", "{print ($1 > 2)}", "/a/,/b/"),
    *('{gsub(/[^a-z]/,""); print}', '{printf "%s %d\\n", $1, $2}', "{print\n} # c\n{x = 1 > 2}"),
    *(
        '{ sub(/\\/$/, ""); print }',
        "function f(x) {return x/2} {print f($1)}",
        "{if ($1>2) print}",
    ),
)
AWK_DOES_MORE = (
    *('{print > "x"}', '{print a,\n b > "x"}', "{print | x}", "BEGIN {system(x)}", '1system("x")'),
    *('x++ / 2; {print "a" > "/f"}', 'f((1)/=/); print/a>b/,\n-1 > "x"', "{getline x < y}"),
    *("if (a) / 2", "length / 2", "@load x", 'BEGIN {ARGV[1] = "x"}', "/[]/]/", '0xasystem("x")'),
    *('"a\\\nb"', "{print a > b ? c : d}", '{print (1)(2) > "x"}', "{print a \\\n> b}"),
    *("#\\\nsystem(x)", "{print a &&\n b > c}", "$/a/", "/a", '"a'),
    *('BEGIN{for(print "a" > "x"; 0;) y}', 'BEGIN{for(;i++<1;print (i) >> "x") y}'),
)


def test_awk_scripts_that_only_print_are_told_from_those_that_may_do_more():
    assert [text for text in AWK_PRINTS if not awk_only_prints(text)] == []
    assert [text for text in AWK_DOES_MORE if awk_only_prints(text)] == []


def test_the_language_of_ps_takes_work_in_proportion_to_its_length():
    words = ["-o", ",".join(["stime"] * 5000) + "!"]
    assert not ps_only_lists(words)
    assert not ps_only_lists(["-o", "stime" * 5000])


def is_reading(words, work):
    found = find_reading(read_invocation(words))
    return found is not None and all(
        oracle.is_inside(each.path, work)
        and (each.may_be_folder or not (work / each.path).is_dir())
        for each in found.files
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the help of BSD's programs lists no options")
def test_no_command_that_only_reads_writes_runs_or_leads_outside(tmp_path):
    work, draw = oracle.furnish(tmp_path), random.Random(SEED)
    programs = generated.list_installed()
    helped = {name: generated.read_help(name) for name in programs}
    made = [generated.generate(name, helped[name], draw) for name in programs * (TRIED // 90 + 1)]
    reading = [words for words in made if is_reading(words, work)]
    assert len(reading) > len(made) * 0.12
    traced = oracle.can_trace()
    control = [["sort", "-o", "out", "j"], ["cat", "link"], ["nice", "true"]][: 3 if traced else 2]
    found = [oracle.watch(words, work, traced=traced) for words in (*reading, *control)]
    assert [each for each in found if each] == found[-len(control) :]
