"""Repositories to read with git: a usual one, and hostile ones made from it (`repositories.sh`)."""

import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
from pathlib import Path

from greenroom.git._internal import GIT_SETTINGS, GitAnswers, add_overrides
from greenroom.programs._internal import find_reading, read_invocation

CANARY = "c4n4ry-0f-a-secret"
_TEXT = (Path(__file__).parent / "repositories.sh").read_text(encoding="utf-8")
_FUNCTIONS, *_PARTS = re.split(r"^#: (.*?)(?:, (git .*))?\n", _TEXT, flags=re.MULTILINE)
SCRIPTS = dict(zip(_PARTS[::3], _PARTS[2::3], strict=True))
USUAL = SCRIPTS.pop("the usual one")
HARMFUL = {
    name: command for name, command in zip(_PARTS[::3], _PARTS[1::3], strict=True) if command
}
"""A command that does harm in each hostile repository."""

COMMANDS = """
status; status -s; status --porcelain=v2 --branch --show-stash; status --ignored -uall; status e
log; log -p; log -p -m --all; log -p -c; log --cc --stat; log --oneline --graph --all --decorate
log -S one -- f; log -G one; log -L1,2:f; log -g -2; log --format=%H%d; log --follow -- f
log --format=%(describe)%(trailers)%N; log --format=short; log -1 -p --word-diff; log o; show
show HEAD~1; show HEAD:f; show v2; show vs; show HEAD^{tree}; show -m --stat; show o; show o:f
diff; diff --stat; diff --cached; diff HEAD; diff HEAD~1 HEAD; diff HEAD~3; diff --name-status
diff --check; diff -S one; diff --word-diff -- e; diff f; diff d; diff f e/x; diff --color-words
diff --binary; diff-tree -p HEAD; diff-tree -r HEAD~1 HEAD; diff-index HEAD; diff-index -p HEAD
diff-index -p --cached HEAD; diff-files; diff-files -p; blame f; blame HEAD -- f; blame -C -L1,2 f
annotate f; shortlog HEAD; shortlog -sne HEAD; ls-files; ls-files -s; ls-files -m
ls-files -t --eol; ls-files -o --exclude-standard; ls-files -o -i --exclude-standard
ls-files -u -d; ls-tree -r HEAD; ls-tree -lr HEAD e; show-ref; show-ref --head -d; rev-parse HEAD
rev-parse --show-toplevel --git-dir; rev-parse --abbrev-ref HEAD; rev-list --all
rev-list --objects --all; rev-list --count HEAD; name-rev HEAD; describe --tags
describe --always --contains HEAD~1; merge-base HEAD v1; merge-base --fork-point main; for-each-ref
for-each-ref --format=%(refname)%(contents)%(upstream); count-objects -v
check-ignore -v u x.o c4n4ry-0f-a-secret; version; --version; cat-file -p HEAD; cat-file -p HEAD:f
cat-file -p vs; cat-file -t HEAD; cat-file blob HEAD:e/x
cat-file --batch-all-objects --batch-check; cat-file --batch-all-objects --batch; grep one
grep -n c4n4ry; grep -p hello HEAD; grep --cached c4n4ry; grep --untracked c4n4ry; grep c4n4ry o
branch; branch -avv; branch --contains HEAD~1; branch --merged HEAD; branch --format=%(contents)
tag; tag -n3; tag -l v*; tag --format=%(contents) -l; remote; remote -v; remote get-url origin
remote get-url x; remote get-url y; stash list; stash show; stash show -p; stash show --stat
reflog; reflog show main; worktree list; worktree list --porcelain; symbolic-ref HEAD
-C e status -s; -C e diff; -C e log -p -1; -C b status; --no-pager log -1; -P diff --stat
--literal-pathspecs diff f
"""


def list_commands(text: str) -> list[list[str]]:
    """Take a list of git commands apart."""
    return [["git", *each.split()] for each in re.split(r"[;\n]\s*", text.strip())]


READING = list_commands(COMMANDS)
"""Commands with every verb that only reads."""


class Ground:
    """A folder with a usual repository, of which hostile ones are made.

    Attributes:
        environment: the variables for git, which reads no file of the user or the system.
    """

    def __init__(self, folder: Path) -> None:
        """Make the usual repository, a secret file, and another repository beside it."""
        self.folder = folder
        (folder / "home").mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        for name in ("work", "outside", "other"):
            (folder / "base" / name).mkdir(parents=True)
        secret = f"{CANARY}\n{CANARY} 2\nNew {CANARY} <a@b.test>\n"
        (folder / "base/outside/secret").write_text(secret)
        self.shell(folder / "base/work", _FUNCTIONS + USUAL)
        script = f"git init -q -b main; echo {CANARY} > f; git add .; git commit -qm {CANARY}"
        self.shell(folder / "base/other", script)

    def shell(self, folder: Path, script: str, **variables: str) -> None:
        """Run commands of the shell, as the author of a repository."""
        author = {
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "a"),
            **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@b.test"),
            "GIT_ALLOW_PROTOCOL": "file",
            # Nothing is left running in the background.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "maintenance.auto",
            "GIT_CONFIG_VALUE_0": "false",
        }
        environment = {**self.environment, **author, **variables}
        subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, check=False
        )

    def make(self, name: str, script: str | None = None) -> "Repository":
        """Make a repository from the usual one, by the script of this name or another one."""
        at = self.folder / re.sub(r"\W+", "-", name, flags=re.ASCII)[:200]
        shutil.copytree(self.folder / "base", at, symlinks=True)
        made = Repository(at.resolve(), self)
        mark = at / "mark"
        mark.write_text(f"#!/bin/sh\necho $0 $* >> {shlex.quote(str(made.ran))}\nexec cat $*\n")
        mark.chmod(0o755)
        things = {"M": mark, "S": at / "outside/secret", "O": at / "other"}
        script = SCRIPTS[name] if script is None else script
        variables = {key: str(path.resolve()) for key, path in things.items()}
        self.shell(at / "work", _FUNCTIONS + script, **variables)
        made.ran.unlink(missing_ok=True)
        return made


class Repository:
    """A repository that was made, with its surroundings.

    Attributes:
        work: its work tree, which is the workspace.
        ran: the file in which programs of the repository leave their marks.
    """

    def __init__(self, folder: Path, ground: Ground) -> None:
        """Remember where it is."""
        self.folder, self.ground = folder, ground
        self.work, self.ran = folder / "work", folder / "ran"
        self.answers = GitAnswers(environment=ground.environment)

    def find_obstacle(self, argv: list[str]) -> str | None:
        """Say why a command is not run unasked, as the judge of permissions does."""
        reading = find_reading(read_invocation(argv))
        if reading is None:
            return "it may do more than read"
        folder = self.work / reading.folder
        for file in reading.files:
            if not (folder / file.path).resolve().is_relative_to(self.work):
                return f"{file.path} is outside"
        return self.answers.ask(str(folder)).find_obstacle(argv)

    def read(self, argv: list[str]) -> bytes:
        """Run a command as one that only reads."""
        return self.run(list(add_overrides(argv)), dict(GIT_SETTINGS))

    def run(self, argv: list[str], variables: dict[str, str] | None = None) -> bytes:
        """Run a command, for at most ten seconds."""
        process = subprocess.Popen(
            argv,
            cwd=self.work,
            env={**self.ground.environment, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0]

    def harm(self, output: bytes) -> str:
        """Say what harm a command did, and forget it."""
        if self.ran.exists():
            text = self.ran.read_text()
            self.ran.unlink()
            return f"ran {text}"
        return "shows a secret" if CANARY.encode() in output else ""

    def describe(self) -> dict[str, object]:
        """Describe every file; of the index only that it is there, since `git diff` renews it."""
        return {
            os.path.relpath(path, self.folder): _describe_file(path)
            for top, folders, files in os.walk(self.folder)
            for path in (os.path.join(top, name) for name in (*folders, *files))
            if not path.endswith(".git/index")
        }


def _describe_file(path: str) -> tuple[int, str]:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return mode, os.readlink(path)
    return mode, hashlib.sha1(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
