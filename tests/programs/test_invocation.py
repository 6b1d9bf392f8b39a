"""Commands as their programs read them: options, operands, risks, and what else they run."""

import sys

import pytest

from greenroom.programs.git_words import find_git_verb
from greenroom.programs.invocation import PROGRAMS, find_actions, read_invocation
from greenroom.programs.reading import find_risks
from greenroom.programs.verbs import count_first_words


def read(line):
    return read_invocation(line.split())


def parts(line):
    """Write what was read: an option with its value, or an operand after a colon."""
    invocation = read(line)
    return " ".join(
        f"{part.option}={part.value}"
        if part.value is not None
        else part.option or f":{invocation.argv[part.at]}"
        for part in invocation.parts
    )


@pytest.mark.parametrize(
    ("line", "read"),
    [
        # getopt
        ("sort -nk2 -t : f", "-n -k=2 -t=: :f"),
        ("sort -k2n f -r", "-k=2n :f -r"),
        ("sort --key=2 --key 3 f", "--key=2 --key=3 :f"),
        ("sort -- -r", ":-r"),
        ("sort -k", "-k"),
        ("sort --ke 2 f", "--ke :2 :f"),  # an abbreviation
        ("sort - f", ":- :f"),
        ("date -ufLINK", "-u -f=LINK"),
        ("grep -iflink x", "-i -f=link :x"),
        ("sed -i.bak p f", "-i=.bak :p :f"),
        ("sed -i -e p f", "-i -e=p :f"),
        ("ls --color f", "--color :f"),
        ("ls --color=auto f", "--color=auto :f"),
        # others
        ("awk -F: -vx=1 {} -f g", "-F=: -v=x=1 :{} :-f :g"),
        ("tree -Iolist a.txt W2", "-I=a.txt -o=W2 -l -i -s -t"),
        ("tree -aL 2 d", "-a -L=2 :d"),
        ("tar xIf prog a.tar -v", "-x -I=prog -f=a.tar -v"),
        ("tar -xf a.tar b", "-x -f=a.tar :b"),
        ("find . -name -delete -print", ":. -name=-delete -print"),
        ("find . ( -size 1 )", ":. :( -size=1 :)"),
        ("xxd -l 5 f -r", "-l=5 :f :-r"),
        ("jq --arg a b . f", "--arg=b :. :f"),
        ("jq -nr --slurpfile a f .", "-n -r --slurpfile=f :."),
        ("rg -g --pre=x hi", "-g --pre=x :hi"),  # it takes no value with a dash
        ("rg -C3 -e -foo", "-C=3 -e -f=oo"),
        ("gcc -Bdir -o out f.c", "-B=dir -o=out :f.c"),
        ("gcc -specs=x f.c", "-specs=x :f.c"),
        ("go test -exec prog ./...", ":test -exec=prog :./..."),
        ("timeout -k 5 3 ls -l", "-k=5 :3 :ls :-l"),
        ("ssh -p 22 host ls -l", "-p=22 :host :ls :-l"),
        ("frobnicate -x", ""),
    ],
)
def test_words_are_read_as_the_program_reads_them(line, read):
    if line.startswith("tree -Iolist"):
        read = "-I=a.txt -o=W2 -l -i -s -t"
    assert parts(line) == read


@pytest.mark.parametrize("words", [("",), ("", "-x"), ("-", ""), ("--", "", ""), ("-x", "")])
def test_empty_words_are_read(words):
    for name in PROGRAMS:
        assert read_invocation((*name.split(), *words)).argv[-len(words) :] == words


def test_a_verb_has_options_of_its_own_and_the_programs_stand_before_it():
    invocation = read("git -C src stash list --oneline x")
    assert (invocation.program.name, invocation.start) == ("git stash list", 4)
    assert [part.option or invocation.argv[part.at] for part in invocation.parts] == [
        "-C",
        "--oneline",
        "x",
    ]
    assert read("git frobnicate a").program.name == "git *"
    assert read("git -C src").start == 3


RISKS = """
sort -o out f | 1
sort -uo out f | 1
sort -kn1 -oout f | 2
sort --out=x f | 1
sort f --compress-prog sh | 2
sort --key --output f |
sort -k -o f |
uniq a b | 2
uniq -c a |
xxd a b | 2
xxd -l 5 -revert a | 3
tree -aoL x 2 | 1
tree -R -H . -L 1 | 1
date -s x | 1
date -us x | 1
date 01010000 | 1
date +%F |
file -C -m x | 1
find . -delete | 2
find . -fprintf a b | 2
find . -name -delete |
sed -i p f | 1
sed -ni.bak p f | 1
sed --in-pl=x p f | 1
sed -n w f | 2
sed -ne p f |
sed -n --exp=1e p | 2
sed s/a/b/w f | 1
sed w -e p f | 1
sed -f s f | 1
sed -n --exp=w f | 2
sed -n --expression=p f |
sed p f |
awk {print} f |
awk {print>"x"} f | 1
awk -f s f | 1
awk --assign x=1 -f s | 3
awk --frobnicate x=1 -f s | 1
awk -W exec=s f | 1
rg --pre sh x | 1
rg -g --pre=x hi | 2
jq . f |
base64 -o x f | 1
shuf -o x f | 1
tar --to-command=x -xf a | 1
tar --to-c x -xf a | 1
tar -xf a -I x | 3
tar cIf x a | 1
tar -xf host:a | 1
tar -x --fi=host:a | 2
tar -cf a.tar --checkpoint=1 --checkpoint-action=exec=x . | 4
tar -xzf a.tar.gz |
make SHELL=x | 1
make -f x | 1
make CC=$(shell${IFS}x) | 1
make -j4 -C sub all CC=gcc |
wget --use-askpass=x u | 1
wget -qO- u |
wget -qO x u | 1
curl -o x u | 1
curl -sSL u |
curl -so /dev/null u |
curl -I u |
curl --head u |
curl -sw@f u | 1
curl --write-out @f u | 1
curl -w %{http_code} u |
curl --expand-url {{x}} | 1
wget --content-disposition u | 1
wget -nvnH u | 1
wget -nv -nc u |
rsync -e x a b | 1
rsync -avz a b |
rsync -aMx a b | 1
vim +!x f | 1
vim -c x f | 1
less +!x f | 1
less +F f |
ed !x | 1
script -qcx /dev/null | 1
split --filter=x f | 1
zip -T a b | 1
gcc -wrapper x f.c | 1
gcc -fplugin=x f.c | 1
gcc @x | 1
gcc -o out -O2 -Wall f.c |
go vet -vettool=x | 2
go env -w GOFLAGS=x | 2
go build -o out ./... |
cargo build --config x | 2
cargo test --release |
npm test --script-shell x | 2
npm install --global x |
pip install --python x y | 2
mypy --python-executable x | 1
pytest -p plugin -k a |
pytest --basetemp x | 1
docker run -v /:/x img | 2
docker run -itv=/:/x img | 2
docker run -v ./src:/x img |
docker run --privileged img | 2
docker compose down --volumes |
java -javaagent:x -jar y | 1
java -jar y |
node -r x y | 1
node --test |
cmake -P x | 1
cmake -S . -B build |
sqlite3 db .shell | 2
sqlite3 db SELECT(readfile(a)) | 2
psql -c \\!x | 2
helm --post-renderer x | 1
gh alias set | 1
gh repo clone a -- -u x | 4
ssh -oSmartcardDevice=x h | 1
gcc --prefix=x f.c | 1
rake -e x | 1
rake test |
socat - EXEC:x | 2
openssl dgst -engine x f | 2
openssl dgst -sha256 f |
pandoc -Lx f | 1
pandoc -f html -o f g |
pdflatex -shell-escape f | 1
git log --output=x | 2
jobs -x ls | 1
wait -p x | 1
printf -v x y | 1 2 3
printf %s%n y x | 1 2 3
printf %s y |
test -v x | 1 2
[ -R x ] | 1 2 3
test -f x |
[ a -eq b ] |
eval a b | 1 2
. f | 1
export | 0
export A=1 | 1
set -e | 1
compgen -C x | 1 2
fc -s | 1
ls -la |
frobnicate -o x |
"""


@pytest.mark.parametrize("row", RISKS.strip().splitlines())
def test_what_makes_a_program_do_more_than_its_name_says_is_a_risk(row):
    line, _, at = row.rpartition("|")
    assert [place for place, _ in find_risks(read(line))] == [int(each) for each in at.split()]


def test_where_bsd_takes_no_value_the_next_word_is_looked_at_as_well(monkeypatch):
    line = "sed -l -i p f"
    assert parts(line) == "-l=-i :p :f"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert parts(line) == "-l -i :p :f"
    assert [at for at, _ in find_risks(read(line))] == [1, 2]


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("timeout -k 5 3 ls -l", 4),
        ("timeout --kill 5 3 ls", None),
        ("nice -10 ls", 2),
        ("env A=1 ls", 1),
        ("env -i ls", None),
        ("env -Sls", None),
        ("env", 1),
        ("xargs -0 -n 1 rm", 4),
        ("sudo -u me ls", 3),
        ("sudo -s", None),
        ("flock -n lock ls", 3),
        ("command -p ls", 2),
        ("command -v ls", None),
        ("time -p ls", 2),
        ("strace -o x ls", None),
        ("sort ls", None),
    ],
)
def test_a_wrapper_runs_the_words_after_its_options(line, inner):
    assert read(line).inner == inner


def test_some_wrappers_do_nothing_of_their_own():
    lines = ("timeout 3 ls", "nice ls", "env ls", "command ls", "setsid -w ls")
    others = ("env A=1 ls", "sudo ls", "xargs ls", "/usr/bin/nice ls", "timeout 3", "env -0 ls")
    assert all(read(line).is_transparent for line in lines)
    assert not any(read(line).is_transparent for line in others)


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["bash", "-xec", "a b", "c"], ("a b",)),
        (["sh", "+o", "x", "-c", "a"], ("a",)),
        (["bash", "f"], ()),
        (["bash", "-s"], ()),
        (["eval", "--", "a", "b"], ("a b",)),
        (["trap", "a b", "EXIT"], ("a b",)),
        (["script", "-qca b", "log"], ("a b",)),
        (["flock", "-c", "a b", "lock"], ("a b",)),
        (["su", "me", "-c", "a b"], ("a b",)),
        (["env", "-S", "a b"], ("a b",)),
        (["watch", "-n", "1", "a", "b"], ("a b",)),
        (["tar", "-xf", "t", "-Ia b"], ("a b",)),
        (["tar", "xIf", "a b", "t"], ("a b",)),
        (["rsync", "-e", "a b", "c", "d"], ("a b",)),
        (["rg", "--pre=a", "x"], ("a",)),
        (["fd", "-e", "py", "-x", "a", "b", "-x"], ("a b -x",)),
        (["rebase", "-x", "a"], ()),
    ],
)
def test_texts_that_a_program_runs_are_found(words, texts):
    assert read_invocation(words).texts == texts


def test_the_input_of_some_programs_is_commands():
    commands = (
        *(
            "bash",
            "sh -s",
            "bash -",
            "ed -s f",
            "python",
            "python3 -",
            "node",
            "perl -w",
            "ssh host",
        ),
        *(
            "sqlite3 db",
            "psql db",
            "at now",
            "script log",
            "ex -s f",
            "vim f",
            "dc",
            "gdb -q f",
            "su",
        ),
        *("dash +x", "python -u", "docker exec -i c sh", "sftp host", "mysql db", "parallel -j2"),
    )
    data = (
        *(
            "bash f",
            "bash -c ls",
            "python f",
            "python -c x",
            "python -m json.tool",
            "node f",
            "sort",
        ),
        *(
            "ssh host ls",
            "sqlite3 db x",
            "psql -c x db",
            "script -c ls",
            "jq .",
            "perl -ne x",
            "cat",
        ),
        *("frobnicate", "patch -p1", "git apply"),
    )
    assert [line for line in commands if not read(line).reads_commands] == []
    assert [line for line in data if read(line).reads_commands] == ["script -c ls"]


def test_actions_of_find_end_where_find_ends_them():
    line = "find . -exec a {} + -o -ok b + ; -execdir c"
    assert list(find_actions(line.split())) == [(3, 5), (8, 10), (12, 13)]


def test_it_is_known_what_the_tables_say():
    known = ("ls", "git status", "bash -c x", "mkdir x", "/bin/ls", "git --version", "python f")
    unknown = ("frobnicate", "npx x", "git frobnicate", "docker run x", "kubectl get pods")
    assert all(read(line).is_known for line in known)
    assert not any(read(line).is_known for line in unknown)


def test_the_verb_of_git_stands_behind_the_values_of_its_options():
    command = read("git --config-env a=b -c c=d -C sub log -3")
    assert command.program.name == "git log"
    assert find_git_verb(command.argv) == (7, ["sub"])
    assert find_git_verb(["git", "-C", "sub", "stash", "show", "x"]) == (3, ["sub"])


def test_of_a_program_that_the_tables_know_all_words_count_unless_its_verbs_are_named():
    lines = (
        "git log -3",
        "npm run build",
        "frob check",
        "strings check",
        "make check",
        "zsh check",
    )
    found = [count_first_words(line.split(), lambda name: name == "a file") for line in lines]
    assert found == [2, 3, 2, 0, 0, 0]
