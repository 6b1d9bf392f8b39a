"""A command as its program understands it: its options, its operands, and the command inside it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from greenroom.shell.facts import Extent
from greenroom.shell.words import Part, Word, basename

# What is known of programs: which of their options write files or run others, and which only read.
#
# An option is careful if it names a file that is written, for programs that else only read and print;
# or a program, a plug-in or a file of commands that is run, and that neither the program nor the
# project would run by itself. So `gcc -o out`, `pytest -p plugin` and `make -C sub` are not: a compiler
# writes, a test runner runs the code of the project, and so does make, in each of its folders.

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash")
)

# Names, and behind the colon what is known of all of them:
#   !oF --output    careful options, short and long; other words as well
#   ?oD --output?   careful unless they write to `-` or to /dev/null
#   ~Lr ~--follow   not careful, but they lead beyond the files that are named
#   =kt +-date,-grep    options whose value is only text (long ones lack their first dash)
#   @f @-newer    options whose value is a file    %I    whose value is never apart
#   ^1    no options behind so many operands    plain    no word of it can turn out to be careful
#   &a &--all    the only options with which it reads    $-,list    the first operand, `-` for none, or an option
#   wraps    it runs the command that begins with the first operand (wraps2: the second), behind options
#   with = and &    transparent    that command is all that matters    joins    the words are one text
#   fills    it adds words from its input    runs    it runs what its words say somewhere else, or later
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
    paste: reads =d
    nproc: reads
    cat, tac, rev, pwd, cd, which, type, whoami, id, uname, cmp, comm, realpath, readlink: reads
    head, tail: reads =ncs
    wc: reads ~--files0-from
    stat: reads =c
    df: reads =Btx
    cut: reads =bcdf +-delimiter,-output-delimiter
    nl: reads =bdfhilnsvw
    column: reads =cCEHilnNoOprRsTW
    fold: reads =w
    md5sum, sha1sum, sha256sum, sha512sum: reads ~c ~--check
    cksum: reads =al ~c ~--check
    du: reads =Bdt @X ~L ~--dereference ~--files0-from
    diff: reads =CDFILSUWx @X ~lr ~--paginate ~--recursive
    grep, egrep, fgrep: reads pattern =ABCDdem @f ~R ~--dereference-recursive +-include,-exclude,-exclude-dir
    rg: reads pattern --pre --hostname-bin =ABCEMTdegjmrt @f ~zL ~--search-zip ~--follow +-glob,-iglob,-type
    jq: reads pattern plain @L +-arg,-indent
    sort: reads !o =kSt @T --output --compress-program ~T ~--temporary-directory ~--files0-from
    uniq: reads =fsw
    tree: reads !oR ~l ~--fromfile
    file: reads !Cm =FPe @f --compile --magic-file ~fszZ ~--files-from ~--uncompress ~--uncompress-noreport
    date: reads !s =d @fr %I --set +-date
    sed, gsed: reads pattern !if =el --in-place --file +-expression,-line-length
    find: reads =D -delete -fprint -fprint0 -fprintf -fls ~-L ~-follow ~-files0-from
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
    fd, fdfind: runs !xX =etdEc --exec --exec-batch
    # pagers and editors
    less: !oOk =bhjpPtTxyzD --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content
    vim, vi, nvim, view, ex, vimdiff, gvim: !cSsuUwW =TtVi --cmd --log --startuptime --remote-expr
    # what is built and checked
    make, gmake: !fE =CIjloW --file --makefile --eval
    cargo: --config
    go: -exec -toolexec -vettool -overlay --exec --toolexec
    npm, pnpm: runs --script-shell --git --node-options --globalconfig --userconfig
    node: !rep --require --import --eval --loader
    pytest: --basetemp --pastebin
    gcc, cc, c++, g++, clang, clang++, c99: !B =oDILl -wrapper -fplugin -specs --specs --config
    # the system, and what is elsewhere
    ssh: runs !FEI =BbcDeiJLlmOopQRSWw ^2
    scp: !FSD =cilPoXJ
    sftp: !FSDb =BcilPoRsXJ
    docker, podman: runs =vewuplhmca +-volume,-mount --privileged --cap-add --device --security-opt --pid
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
    git difftool: !x =t --extcmd
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
    git stash: reads =m $list,show
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
    git am, git apply, git bundle, git cherry, git cherry-pick, git clean, git fsck, git gc, git init, git mv:
    git notes, git prune, git pull, git range-diff, git reset, git restore, git revert, git rm, git whatchanged:
    # run the command in their words; not env -i, -u and -C, which change what `$HOME` and paths mean
    timeout: wraps2 transparent ^1 &v =ks &--foreground &--preserve-status &--verbose
    timeout: +-kill-after,-signal
    nice: wraps transparent ^1 &0123456789 =n +-adjustment
    nohup: wraps transparent ^1
    stdbuf: wraps transparent ^1 =ioe +-input,-output,-error
    command: wraps transparent ^1 &p
    ionice: wraps transparent ^1 &t =cn &--ignore +-class,-classdata
    setsid: wraps transparent ^1 &cfw &--ctty &--fork &--wait
    env: wraps ^1 &0v &--null
    time: wraps ^1 &apqvV =fo &--portability &--append &--verbose +-format,-output
    sudo: wraps ^1 &AbEHKknPSVv =ugpCrtThDRUa &--non-interactive +-user,-group,-prompt,-chdir
    doas: wraps ^1 &Ln =uC
    xargs: wraps fills ^1 &0rtxpo =IEnPLsda &--null &--no-run-if-empty &--verbose &--exit
    xargs: &--interactive &--open-tty &--replace &--max-lines
    xargs: +-max-args,-max-procs,-delimiter,-arg-file,-max-chars
    exec: wraps ^1 &cl =a
    builtin, busybox: wraps ^1
    watch: wraps joins ^1 &bcdegptx =n &--beep &--color &--differences +-interval
    flock: wraps2 ^1 &sxneuoF =wE &--shared &--exclusive +-timeout,-conflict-exit-code
    parallel: wraps joins fills ^1 &0kmXv =jnNIaSP &--keep-order +-jobs,-max-args
    strace: wraps ^1 !o &cCdDfhiknqrtTvVwxyzZ =epPsSuaIOEXbU
    npx, bunx, uvx, pipx, uv, poetry, pipenv, pdm, rye, hatch, conda, mamba, yarn, bun, bundle: runs
    nix, nix-shell, kubectl, direnv, mise, asdf, mosh, vagrant, perf, gdb, screen, tmux, chpst: runs
    softlimit, cgexec, lxc, machinectl, toolbox, distrobox, flatpak, chroot, unshare, nsenter: runs
    setpriv, taskset, chrt, toybox, ltrace, runuser, pkexec, systemd-run, entr, unbuffer: runs
    hyperfine, sem, gosu, su, sg, newgrp, script, at, batch, crontab: runs
    # run something by a word or an option
    bat, batcat: --pager
    cmake: !E =DSBGUATCP
    gh: alias extension
    install: --strip-program
    java: -agentpath -agentlib -javaagent
    pip, pip3: --editor
    pylint: --init-hook
    tox: exec
    # known to run nothing that their words say
    alias, black, bzip2, chmod, chown, continue, cp, dc, dd:
    declare, dig, ed, eslint, eval, exit, export, expr, flake8, getopts, gofmt, gradle:
    gunzip, gzip, host, isort, jest, kill, killall, ld, let, ln:
    local, mkdir, mktemp, more, mount, mv, mypy, netstat, ninja, nox, pgrep, ping:
    pkill, popd, prettier, ps, pushd, python, python3, rake, read, readonly, return:
    rm, rmdir, ruby, ruff, rustc, set, shift, shopt, sleep, ss, systemctl, tee, terraform:
    touch, trap, tsc, typeset, ulimit, umask, unalias, unset, unzip, vitest, xz:
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What the table says of a program, or of git and one of its verbs.

    Attributes:
        name: the first name in its row.
        options: the marks of each option, and of each word that is marked as one.
        kinds: every mark in its row, and words such as "reads".
    """

    name: str
    options: dict[str, str] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def marks(self, option: str) -> str:
        """Return the marks of an option, or of a word; a long option may be abbreviated."""
        known = self.options.get(option)
        if known is None and option.startswith("--") and option not in _NO_ABBREVIATIONS:
            known = "".join(m for each, m in self.options.items() if abbreviates(option, each))
        return known or ""

    def is_(self, kind: str) -> bool:
        """Tell whether its row holds this mark or word."""
        return kind in self.kinds

    def add(self, entry: str) -> None:
        """Take in an entry of a row: options, or what they are called, each with its mark."""
        mark, rest = entry[0], entry[1:]
        if entry in _KINDS:
            self.kinds.add(entry)
        elif mark == "+":
            self._mark("=", *(f"-{each}" for each in rest.split(",")))
        elif mark == "^":
            self.options["^"] = rest
        elif mark == "$":
            self._mark("$", *rest.split(","))
        elif mark in "!?~=@%&":
            self._mark(mark, *([rest] if rest[0] == "-" else (f"-{each}" for each in rest)))
        elif mark == "-" and entry[-1] == "?":
            self._mark("?", entry[:-1])
        else:
            self._mark("!", entry)

    def _mark(self, mark: str, *options: str) -> None:
        self.kinds.update(mark)
        self.options.update((each, self.options.get(each, "") + mark) for each in options)

    def include(self, other: "Program") -> None:
        """Add what the table says of another program."""
        for option, marks in other.options.items():
            self._mark(marks, option)


def abbreviates(option: str, wanted: str) -> bool:
    """Tell whether an option is this one, or a beginning of it if it is long."""
    return option == wanted or (
        len(option) > 2 and option.startswith("--") and wanted.startswith(option)
    )


_NO_ABBREVIATIONS = frozenset({"--text"})  # of `--textconv`, but an option itself
_KINDS = frozenset(
    [
        "always",
        "pattern",
        "plain",
        "prints",
        "reads",
        "stores",
        "wraps",
        "wraps2",
        "transparent",
        "joins",
        "fills",
        "runs",
    ]
)


def _read(text: str) -> dict[str, Program]:
    """Read the table; further rows of one name belong together, and git's to its verbs."""
    programs: dict[str, Program] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        names, _, entries = line.rpartition(":")
        first, *others = names.split(", ")
        program = programs.setdefault(first, Program(first))
        programs.update((each, program if entries else Program(each)) for each in others)
        for entry in entries.split():
            program.add(entry)
    for verb in {id(each): each for each in programs.values() if " " in each.name}.values():
        verb.include(programs["git"])
    return programs


PROGRAMS = _read(_TEXT)
"""Each program, and each verb of git as `git log`, by its names."""


def _list(*kinds: str) -> tuple[str, ...]:
    return tuple(name for name, each in PROGRAMS.items() if not each.kinds.isdisjoint(kinds))


READ_ONLY = _list("reads", "prints")
"""What only reads or prints."""

WRAPPERS = frozenset(_list("wraps", "wraps2"))
"""What runs the command that its own words name."""

RUNNERS = frozenset(_list("runs"))
"""What runs what its words say too, somewhere else or later: its own rule has to speak for it."""

_UNKNOWN = Program("")
_TAKES_VALUE = re.compile("[=@?]")
_UNDERSTOOD = re.compile("[=&]")
# Options of git before its verb with a value in the next word.
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})

# Developers' programs, and the options with which they print their version and nothing else. Those
# are missing that a file of the project may replace by another version of themselves.
_VERSIONS = {
    **dict.fromkeys(("python", "python3", "pip", "pip3"), ("--version", "-V")),
    **dict.fromkeys(("node", "npm"), ("--version", "-v")),
    **dict.fromkeys(
        ("bash", "clang", "cmake", "docker", "gcc", "git", "java", "make", "perl", "rg", "ruby"),
        ("--version",),
    ),
}

_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_VALUED = frozenset({"--rcfile", "--init-file", "--command-fd"})


class Usage(NamedTuple):
    """A command as its program understands it.

    Attributes:
        argv: its words.
        program: what is known of the program.
        start: the word that its options follow: the program, or the verb of git.
        parts: its options and operands; none where nothing is known of the program.
    """

    argv: Sequence[Word]
    program: Program
    start: int
    parts: tuple[Part, ...]

    @property
    def inner(self) -> int | None:
        """The word that begins the command which a wrapper runs; None if it can't be told."""
        kinds = self.program.kinds
        before = 0 if "wraps" in kinds else 1 if "wraps2" in kinds else None
        options = [part for part in self.parts if part.option]
        if before is None or not all(_UNDERSTOOD.search(part.marks) for part in options):
            return None
        operands = [part.at for part in self.parts if not part.option]
        start = operands[before] if len(operands) > before else len(self.argv)
        return start if all(word.static for word in self.argv[:start]) else None


def usage_of(argv: Sequence[Word]) -> Usage:
    """Take a command apart as its program does.

    Example:
        >>> words = [Word(each) for each in "sort -nk 2 --reverse -- -o".split()]
        >>> for part in usage_of(words).parts:
        ...     print(part.at, part.option, part.value)
        1 -n None
        1 -k 2
        3 --reverse None
        5  None
    """
    program, start = _program_of(argv)
    parts = tuple(_parts(argv, program, start)) if program.kinds else ()
    return Usage(argv, program, start, parts)


def _program_of(argv: Sequence[Word]) -> tuple[Program, int]:
    program = PROGRAMS.get(basename(argv[0].text), _UNKNOWN)
    if program.name != "git":
        return program, 0
    for at in range(1, len(argv)):
        if argv[at].text[:1] != "-" and argv[at - 1].text not in _GIT_VALUED:
            return PROGRAMS.get(f"git {argv[at].text}", program), at
    return program, len(argv)


def is_known(usage: Usage) -> bool:
    """Tell whether it is known what the program does with its words, so that they are only words."""
    known, has_verb = usage.program, usage.start < len(usage.argv)
    is_listed = known.name not in ("", "git") or (known.name == "git" and not has_verb)
    return basename(usage.argv[0].text) in SHELLS or (is_listed and not known.is_("runs"))


def _parts(argv: Sequence[Word], program: Program, start: int) -> Iterator[Part]:
    at, operands, ended = start + 1, 0, False
    stop = int(program.options.get("^", 0))  # so many operands end the options
    while at < len(argv):
        text = argv[at].text
        if ended or len(text) < 2 or text[0] != "-":
            operands += 1
            yield Part(at, ended=ended, marks="" if ended else program.options.get(text, ""))
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
    if text.startswith("--") or (len(name) > 2 and name in program.options):
        marks = program.marks(name)
        if attached:
            yield Part(at, name, value, at, marks=marks)
        elif following is not None and _TAKES_VALUE.search(marks):
            yield Part(at, name, following, at + 1, marks=marks)
        else:
            yield Part(at, name, marks=marks)
        return
    for place in range(1, len(text)):
        option, rest = f"-{text[place]}", text[place + 1 :]
        marks = program.marks(option)
        if _TAKES_VALUE.search(marks):
            apart = not rest and following is not None
            yield Part(at, option, following if apart else rest, at + apart, marks=marks)
            return
        yield Part(at, option, marks=marks)
        if "!" in marks or "%" in marks:
            return


def read_only_commands() -> tuple[str, ...]:
    """List the commands that need no rule while they only read, inside the workspace.

    Example:
        >>> {"ls", "git status", "python --version"} <= set(read_only_commands())
        True
    """
    versions = (f"{name} {options[0]}" for name, options in _VERSIONS.items())
    return (*READ_ONLY, "command -v", *versions)


def extent(usage: Usage) -> Extent:
    """Say what a command without cautions does with what its words name.

    Example:
        >>> [extent(usage_of([Word(each) for each in line.split()])) for line in (
        ...     "echo a", "git log a", "git branch --list", "git branch a", "git add a", "touch a")]
        ['prints', 'reads', 'reads', 'stores', 'stores', 'any']
    """
    argv, program = usage.argv, usage.program
    name, first = argv[0].text, argv[1].text if len(argv) > 1 else ""
    if program.is_("prints") or (len(argv) == 2 and first in _VERSIONS.get(name, ())):
        return "prints"
    if name == "command" and first in ("-v", "-V"):
        return "reads"
    if program.is_("reads") and _is_listing(usage):
        return "reads"
    return "stores" if program.is_("stores") else "any"


def _is_listing(usage: Usage) -> bool:
    """Tell whether a program that can do more than list is told to list, if it is one."""
    if not usage.program.is_("$"):
        return True
    options = [part for part in usage.parts if part.option]
    if usage.program.is_("&") and not all("&" in part.marks for part in options):
        return False
    operand = next((part for part in usage.parts if not part.option), None)
    marks = usage.program.marks("-") if operand is None else operand.marks
    if operand is not None and operand.at != usage.start + 1:
        marks = ""
    return any("$" in each for each in (marks, *(part.marks for part in options)))


def evaluated(argv: Sequence[Word]) -> tuple[Word, ...] | None:
    """Find the words of the text that a command runs as commands; None if it runs none.

    There are no words where it comes from the standard input.
    """
    name = basename(argv[0].text)
    if name == "eval":
        return tuple(argv[1 + (len(argv) > 1 and argv[1].text == "--") :])
    if name in SHELLS:
        return _shell(argv)
    if name in (".", "source") and len(argv) > 1:
        return _file(argv, 1)
    if name == "trap" and len(argv) > 2:
        return (argv[1 + (argv[1].text == "--")],)
    return None


def _shell(argv: Sequence[Word]) -> tuple[Word, ...] | None:
    """Find the text of a shell: behind -c, else a script file, else the standard input.

    A plus begins options as well: `+c` is -c, and `+` alone is an option, too.
    """
    at, letters = 1, ""
    while at < len(argv) and argv[at].text[:1] in ("-", "+") and argv[at].text:
        option = argv[at].text
        at += 1
        if argv[at - 1].dynamic:
            return ()
        if option in ("-", "--"):
            break
        if option in _VALUED:
            at += 1
        elif not option.startswith("--"):
            letters += option[1:]
            at += sum(map(option.count, "oO"))
    if "O" in letters:  # which changes what patterns stand for
        return ()
    if "c" in letters:
        return tuple(argv[at : at + 1])
    return () if "s" in letters else _file(argv, at)


def _file(argv: Sequence[Word], at: int) -> tuple[Word, ...] | None:
    """Look at the word that names a file of commands; without one it is the standard input.

    A file that is only known at run time may be the standard input as well.
    """
    is_stdin = at >= len(argv) or argv[at].text in _STDIN or argv[at].dynamic
    return () if is_stdin else None
