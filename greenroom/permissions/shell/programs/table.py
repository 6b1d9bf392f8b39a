"""What is known of programs: which of their options write files or run others, and which only read.

An option is careful if it names a file that is written, for programs that else only read and print;
or a program, a plug-in or a file of commands that is run, and that neither the program nor the
project would run by itself. So `gcc -o out`, `pytest -p plugin` and `make -C sub` are not: a compiler
writes, a test runner runs the code of the project, and so does make, in each of its folders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.wrappers import RUNNERS, SHELLS, WRAPPERS

__all__ = [
    "READ_ONLY",
    "Part",
    "Program",
    "abbreviates",
    "is_known",
    "parts",
    "program_of",
]

# Names, and behind the colon what is known of all of them:
#   !oF --output    careful options, short and long; other words as well
#   ?oD --output?   careful unless they write to `-` or to /dev/null
#   ~Lr ~--follow   not careful, but they lead beyond the files that are named
#   =kt +-date,-grep    options whose value is only text (long ones lack their first dash)
#   @f @-newer    options whose value is a file    %I    whose value is never apart
#   ^1    no options behind so many operands    plain    no word of it can turn out to be careful
#   &a &--all    the only options with which it reads    $-,list    the first operand, `-` for none, or an option
#   always    it is careful, whatever its words are    stores    it writes no file that it names
#   reads    it only reads its operands    prints    they are only text    pattern    the first is
_TEXT = """
    # print their words
    echo, true, false, :, basename, dirname: prints
    tr, seq: prints
    printf: prints !v ^1
    test, [: prints
    # read files
    ls: reads =ITw
    cat, tac, rev, pwd, cd, which, type, whoami, id, uname, cmp, comm, realpath, readlink: reads
    head, tail: reads =ncs
    wc, stat, df: reads =cBtx ~--files0-from
    cut: reads =bcdf +-delimiter,-output-delimiter
    nl: reads =bdfhilnsvw
    column: reads =cCEHilnNoOprRsTW
    fold: reads =w
    md5sum, sha1sum, sha256sum, sha512sum, cksum: reads =al ~c ~--check
    du: reads =Bdt @X ~L ~--dereference ~--files0-from
    diff: reads =CDFILSUWx @X ~lr ~--paginate ~--recursive
    grep, egrep, fgrep: reads pattern =ABCDdem @f ~R ~--dereference-recursive +-include,-exclude,-exclude-dir
    rg: reads pattern --pre --hostname-bin =ABCEMTdegjmrt @f ~zL ~--search-zip ~--follow +-glob,-iglob,-type
    jq: reads pattern @L +-arg,-indent
    sort: reads !o =kSt @T --output --compress-program ~T ~--temporary-directory ~--files0-from
    uniq: reads =fsw
    tree: reads !oR ~l ~--fromfile
    file: reads !Cm =FPe @f --compile --magic-file ~fszZ ~--files-from ~--uncompress ~--uncompress-noreport
    date: reads !s =d @fr %I --set +-date
    sed, gsed: reads pattern !i =efl --in-place +-expression,-file,-line-length
    find: reads -delete -fprint -fprint0 -fprintf -fls ~-L ~-follow ~-files0-from
    find: ~-exec ~-execdir ~-ok ~-okdir +name,iname,path,ipath,wholename,iwholename,regex,iregex,lname
    find: +ilname,type,xtype,size,atime,mtime,ctime,amin,mmin,cmin,user,group,uid,gid,perm,links,inum
    find: @-newer @-samefile +maxdepth,mindepth,regextype,printf,fstype,used
    # read or write, as their options say
    awk, gawk, mawk, nawk: !fiElodpDeW =Fv ^1 --file --include --exec --load --source --debug --profile
    awk: --dump-variables --pretty-print +-assign,-field-separator
    xxd: !r =clsogn
    base64: !o =biw --output
    shuf: !o =ein --output
    iconv: !o =ft --output
    tar: !IF =CTXbgKLNVf --to-command --checkpoint-action --use-compress-program --rsh-command
    tar: --info-script --new-volume-script --transform --xform ~T ~--files-from
    zip: !T =bnPtx --unzip-command -TT ~@
    rsync: !e =fBTM --rsh --rsync-path --daemon ~--files-from
    man: !PH =CELmMrRsSep --pager --html --preprocessor
    curl: !OKTJc ?oD =AbdeEFHmPQrtuUwXyYxz --output? --dump-header? --config --upload-file --cookie-jar
    curl: --trace --trace-ascii --stderr --libcurl --etag-save --hsts --alt-svc --output-dir
    curl: --remote-name --remote-name-all --engine
    wget: !Pea ?Oo =BTtwQARDIXUl --output-document? --output-file? --append-output --directory-prefix
    wget: --execute --use-askpass --config --save-cookies --warc-file --rejected-log --hsts-file
    split: --filter
    fd, fdfind: !xX =etdEc --exec --exec-batch
    # pagers and editors
    less: !oOk =bhjpPtTxyzD --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content
    vim, vi, nvim, view, ex, vimdiff, gvim: !cSsuUwW =TtVi --cmd --log --startuptime --remote-expr
    # what is built and checked
    make, gmake: !fE =CIjloW --file --makefile --eval
    cargo: --config
    go: -exec -toolexec -vettool -overlay --exec --toolexec
    npm, pnpm: --script-shell --git --node-options --globalconfig --userconfig
    node: !rep --require --import --eval --loader
    pytest: --basetemp --pastebin
    gcc, cc, c++, g++, clang, clang++, c99: !B =oDILl -wrapper -fplugin -specs --specs --config
    # the system, and what is elsewhere
    ssh: !FEI =BbcDeiJLlmOopQRSWw ^2
    scp: !FSD =cilPoXJ
    sftp: !FSDb =BcilPoRsXJ
    docker, podman: =vewuplhmca +-volume,-mount --privileged --cap-add --device --security-opt --pid
    docker: --userns --ipc --uts --cgroupns
    # the shell's own
    wait: !p
    jobs: !x
    ., source: always
    hash: !p
    enable: !f
    mapfile, readarray: !C
    # git, and its verbs
    git: --output --ext-diff --textconv --open-files-in-pager --upload-pack --receive-pack
    git: ~--pathspec-from-file --exec --template --config --no-index --upload-archive --show-signature
    git: +-message,-author,-date,-grep,-since,-until,-after,-before
    git clone: !cu =boj
    git commit: stores =mFtcC
    git merge: =mFsX
    git log: reads =nSGLl @O
    git show: reads =nSGLl @O
    git diff: reads =SGl @O
    git checkout: =bB
    git switch: =cC
    git rebase: !x =sXCS
    git grep: reads pattern !O =emABC @f
    git difftool: !x =t
    git archive: !o
    git format-patch: !o =v
    git bisect: run
    git submodule: foreach
    git cat-file: reads --filters ~--batch ~--batch-check ~--batch-command
    git filter-branch, git mergetool, git config: always
    git status, git rev-parse, git merge-base, git describe, git ls-files: reads plain
    git blame, git annotate, git shortlog, git ls-tree, git show-ref, git rev-list, git name-rev: reads
    git for-each-ref, git diff-tree, git diff-index, git diff-files, git count-objects: reads
    git check-ignore, git version: reads
    git remote: reads $-,get-url &v &--verbose
    git stash: reads $list,show
    git reflog: reads $-,show
    git worktree: reads $list
    git branch: reads stores $-,--list &arvi &--all &--remotes &--verbose &--list &--show-current &--sort
    git branch: &--contains &--no-contains &--merged &--no-merged &--points-at &--format &--color
    git branch: &--no-color &--column &--no-column &--ignore-case &--abbrev
    git branch: +-contains,-no-contains,-merged,-no-merged,-points-at,-sort,-format
    git tag: reads stores =mFu $-,--list,-l &lni &--list &--contains &--no-contains &--merged &--no-merged &--sort
    git tag: &--points-at &--format &--color &--no-color &--column &--no-column &--ignore-case %n
    git tag: +-contains,-no-contains,-merged,-no-merged,-points-at,-sort,-format
    git add, git fetch, git push: stores
    # known to run nothing that their words say
    alias, bat, batcat, black, builtin, bzip2, chmod, chown, cmake, command, continue, cp, dc, dd:
    declare, dig, ed, eslint, eval, exec, exit, export, expr, flake8, getopts, gh, gofmt, gradle:
    gunzip, gzip, host, install, isort, java, jest, kill, killall, kubectl, ld, let, ln:
    local, mkdir, mktemp, more, mount, mv, mypy, netstat, ninja, nox, nproc, pgrep, ping, pip:
    pip3, pkill, popd, prettier, ps, pushd, pylint, python, python3, rake, read, readonly, return:
    rm, rmdir, ruby, ruff, rustc, set, shift, shopt, sleep, ss, systemctl, tee, terraform:
    touch, tox, trap, tsc, typeset, ulimit, umask, unalias, unset, unzip, vitest, xz:
"""


class Part(NamedTuple):
    """An option or an operand of a command.

    Attributes:
        at: which word it stands in.
        option: the option, without a value in the same word; empty for an operand.
        value: its value, or None.
        value_at: which word that stands in.
        ended: whether no options are read any more where it stands.
    """

    at: int
    option: str = ""
    value: str | None = None
    value_at: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What the table says of a program, or of git and one of its verbs.

    Attributes:
        name: the first name in its row.
        marks: what stands behind each of the marks: letters and words.
    """

    name: str
    marks: dict[str, tuple[str, ...]]

    def has(self, mark: str, option: str) -> bool:
        """Tell whether an option has this mark; a long one may be abbreviated."""
        options = self.marks.get(mark, ())
        if option in options or not option.startswith("--") or option in _NO_ABBREVIATIONS:
            return option in options
        return any(abbreviates(option, each) for each in options)

    def is_(self, kind: str) -> bool:
        """Tell whether its row holds this word."""
        return kind in self.marks

    @property
    def is_careful(self) -> bool:
        """Whether some option is to be careful with."""
        return bool(self.marks.get("!") or self.marks.get("?"))

    @property
    def stop(self) -> int:
        """How many operands end the options; 0 if none do."""
        return int("".join(self.marks.get("^", ())) or 0)

    def is_caution(self, part: Part, word: str) -> bool:
        """Tell whether an option is to be careful with, or else the word as such."""
        if not part.option:
            return not part.ended and self.has("!", word)
        if part.option in self.marks.get("?", ()) and part.value in ("-", "/dev/null"):
            return False
        return self.has("!", part.option) or self.has("?", part.option)

    def takes_value(self, option: str) -> bool:
        """Tell whether an option has a value, in the next word if it is not attached."""
        return any(self.has(mark, option) for mark in "=@?")


def abbreviates(option: str, wanted: str) -> bool:
    """Tell whether an option is this one, or a beginning of it if it is long."""
    return option == wanted or (
        len(option) > 2 and option.startswith("--") and wanted.startswith(option)
    )


_NO_ABBREVIATIONS = frozenset({"--text"})  # of `--textconv`, but an option itself
_MARKS = "!?~=@%&"
_KINDS = frozenset({"always", "pattern", "plain", "prints", "reads", "stores"})
_RUN_WORDS = RUNNERS | {"make", "gmake"}
_RUN_OTHERS = SHELLS | WRAPPERS.keys()


def _read(text: str) -> dict[str, Program]:
    """Read the table; further rows of one name belong together."""
    programs: dict[str, Program] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        names, _, words = line.rpartition(":")
        first, *others = names.split(", ")
        if not words:
            programs.update((name, Program(name, {})) for name in (first, *others))
            continue
        program = programs.setdefault(first, Program(first, {}))
        programs.update(dict.fromkeys(others, program))
        for word in words.split():
            for mark, option in _marked(word):
                program.marks[mark] = (*program.marks.get(mark, ()), option)
    return programs


def _marked(word: str) -> Iterator[tuple[str, str]]:
    """Take an entry of a row apart: options, or what they are called, each with its mark."""
    if word[0] == "+":
        yield from (("=", f"-{each}") for each in word[1:].split(","))
    elif word[0] in "^$":
        yield from ((word[0], each) for each in word[1:].split(","))
    elif word[0] in _MARKS and word[1] != "-":
        yield from ((word[0], f"-{letter}") for letter in word[1:])
    elif word[0] in _MARKS:
        yield word[0], word[1:]
    elif word[0] == "-":
        yield ("?" if word[-1] == "?" else "!"), word.strip("?")
    else:
        yield (word if word in _KINDS else "!"), word


def _with_verbs(programs: dict[str, Program]) -> dict[str, Program]:
    """Give the verbs of git the marks of git itself as well."""
    verbs = {program.name: program for name, program in programs.items() if name.startswith("git ")}
    for program, (mark, options) in product(verbs.values(), programs["git"].marks.items()):
        program.marks[mark] = (*program.marks.get(mark, ()), *options)
    return programs


_PROGRAMS = _with_verbs(_read(_TEXT))
_UNKNOWN = Program("", {})
READ_ONLY = tuple(
    name for name, program in _PROGRAMS.items() if program.is_("reads") or program.is_("prints")
)
"""The names of the programs, and of the verbs of git, that only read or print."""

# Options of git before its verb with a value in the next word.
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})


def program_of(argv: Sequence[Word]) -> tuple[Program, int]:
    """Find what is known of a program, and which word its options follow: of git, its verb."""
    program = _PROGRAMS.get(basename(argv[0].text), _UNKNOWN)
    if program.name != "git":
        return program, 0
    for at in range(1, len(argv)):
        if argv[at].text[:1] != "-" and argv[at - 1].text not in _GIT_VALUED:
            return _PROGRAMS.get(f"git {argv[at].text}", program), at
    return program, len(argv)


def is_known(program: Word) -> bool:
    """Tell whether it is known what the program does with its words, so that they are only words."""
    name = basename(program.text)
    return name not in _RUN_WORDS and (name in _PROGRAMS or name in _RUN_OTHERS)


def parts(argv: Sequence[Word], program: Program, start: int = 0) -> Iterator[Part]:
    """Take the words behind the program, or its verb, apart as the program does.

    Example:
        >>> words = [Word(each) for each in "sort -nk 2 --reverse -- -o".split()]
        >>> for part in parts(words, *program_of(words)):
        ...     print(part.at, part.option, part.value)
        1 -n None
        1 -k 2
        3 --reverse None
        5  None
    """
    at, operands, ended, stop = start + 1, 0, False, program.stop
    while at < len(argv):
        text = argv[at].text
        if ended or len(text) < 2 or text[0] != "-":
            operands += 1
            yield Part(at, ended=ended)
            ended = ended or operands == stop
        elif text == "--" and program.name != "find":  # which takes actions behind it
            ended = True
        else:
            following = argv[at + 1].text if at + 1 < len(argv) else None
            found = tuple(_options(at, text, following, program))
            yield from found
            at += any(part.value_at > at for part in found)
        at += 1


def _options(at: int, text: str, following: str | None, program: Program) -> Iterator[Part]:
    """Find the options in a word: a long one, or a cluster of short ones."""
    name, attached, value = text.partition("=")
    is_word = any(name in program.marks.get(mark, ()) for mark in "!~=@")
    if text.startswith("--") or (is_word and len(name) > 2):
        if attached:
            yield Part(at, name, value, at)
        elif following is not None and program.takes_value(name):
            yield Part(at, name, following, at + 1)
        else:
            yield Part(at, name)
        return
    for place in range(1, len(text)):
        option, rest = f"-{text[place]}", text[place + 1 :]
        if program.takes_value(option):
            apart = not rest and following is not None
            yield Part(at, option, following if apart else rest, at + apart)
            return
        yield Part(at, option)
        if program.has("!", option) or program.has("%", option):
            return
