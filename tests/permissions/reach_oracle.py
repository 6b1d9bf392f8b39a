"""What a command reaches in real bash: a denied file, a denied program, or what is protected.

The commands run with the real programs in bubblewrap, without network and capabilities, in a
project that is furnished anew whenever one has changed it.
"""

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.permissions.bash_oracle import run, sandbox

MARK = "TOPSECRETMARKER"
OUTSIDE = (b"OUTSIDEMARKER", b"root:x:0:0")
NEEDLES = (
    MARK.encode(),
    MARK[::-1].encode(),
    base64.b64encode(MARK.encode()),
    MARK.encode().hex().encode(),
)
REPOSITORY = Path(__file__).parents[2]

FILES = {
    "README.md": "# Project\n\nfoo bar\n",
    "a": "3 b a\n1 a b\n2 c\n",
    "b": "hello\n",
    "names": "secrets/key\n",
    "names0": "secrets/key\0",
    "index": "a[$(evil)]\n",
    "option": "-va[$(evil)]\n",
    "big": "".join(f"{number}\n" for number in range(5000)),
    "src/app.py": "import os\n\n\ndef foo():\n    return 1\n",
    "src/canary": "alive\n",
    "docs/guide.md": "# Guide\n",
    "Makefile": "all:\n\t@echo made $(CC)\n\ntest:\n\t@echo tested\n",
    "package.json": '{"name": "project", "scripts": {"test": "echo ok"}}\n',
    "secrets/key": f"{MARK}\n",
    "secrets/sub/deep": f"{MARK}\n",
    "secrets/guide.md": f"{MARK}\n",
    "secrets/run.sh": f"echo {MARK}\n",
    ".env": f"TOKEN={MARK}\n",
    "conf/.env": f"TOKEN={MARK}\n",
    "hook": "#!/bin/sh\nevil\n",
    "p.diff": "--- .bashrc\n+++ .bashrc\n@@ -1 +1,2 @@\n # rc\n+evil\n",
    ".bashrc": "# rc\n",
    ".envrc": "# envrc\n",
    ".vscode/settings.json": "{}\n",
    ".greenroom/permissions.json": '{"version": 1, "rules": []}\n',
}
LINKS = {
    "vault": "secrets",
    "notes.txt": ".env",
    "tools": ".git/hooks",
    "away": "../outside",
    "up": "..",
}
# What git itself notes down when it only looks.
NOTES = ("project/.git", "project/.git/index")
DENIED = ("secrets", ".env", "conf/.env")
PROTECTED = (".git/hooks", ".git/config", ".git/info", ".bashrc", ".envrc", ".vscode", ".greenroom")
LONGEST = 10


@dataclass(frozen=True)
class Reached:
    """What one command reached.

    Attributes:
        read: where the contents of denied files turned up.
        written: the denied files and protected places that it changed.
        changed: all that it changed.
        ran: whether the denied program ran.
        left: whether it printed what lies outside the project.
        timed_out: whether it had to be stopped.
    """

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    ran: bool = False
    left: bool = False
    timed_out: bool = False

    @property
    def denied(self):
        """The denied files among those that were written."""
        return tuple(name for name in self.written if _within(name, DENIED))

    def __bool__(self):
        return bool(self.read or self.written or self.ran)


class Project:
    """A project with a home around it, below one folder, and what it was before a command."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.home = self.folder / "home"
        self.root = self.home / "project"
        self.pristine = self.folder / "pristine"
        self.environment = {
            "PATH": f"{self.folder}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "OLDPWD": str(self.root),
            "XDG_CONFIG_HOME": str(self.root),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def build(self):
        """Furnish it; git's history holds the denied files, and its work tree a small change."""
        (self.folder / "tmp").mkdir()
        _write_program(self.folder / "bin/evil", f'echo "$0 $*" >> {self.folder}/ran\n')
        _write_program(
            self.folder / "bin/pytest",
            'for w; do case $w in --junitxml=*) echo x > "${w#*=}";; esac; done\n',
        )
        for name, text in FILES.items():
            path = self.pristine / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        project = self.pristine / "project"
        for name, target in LINKS.items():
            (project / name).symlink_to(target)
        (self.pristine / ".bashrc").write_text("# rc\n")
        (self.pristine / "outside").write_bytes(OUTSIDE[0] + b"\n")
        (self.pristine / "outside0").write_bytes(b"../outside\0")
        _write_program(project / "bad/cat", "exec evil\n")
        _write_program(project / "secrets/prog", f"echo {MARK}\n")
        self._git("init", "-q", "--template=", "-b", "main")
        for folder in ("hooks", "info"):
            (project / ".git" / folder).mkdir(exist_ok=True)
        (project / ".git/hooks/pre-push").write_text("# kept\n")
        self._git("config", "user.email", "a@example.org")
        self._git("config", "user.name", "A")
        self._git("add", "-A", "-f")
        self._git("commit", "-qm", "First")
        (project / "docs/guide.md").write_text("# Guide\n\nmore\n")
        self._git("commit", "-qam", "Second")
        self._git("branch", "side", "HEAD~1")
        self._git("gc", "-q")
        (project / "src/app.py").write_text("import os\n\n\ndef foo():\n    return 2\n")
        subprocess.run(["tar", "cf", "a.tar", "a"], cwd=project, check=True)
        subprocess.run(
            ["tar", "cf", "hooks.tar", "--transform", "s/hook/pre-commit/", "hook"],
            cwd=project,
            check=True,
        )
        with zipfile.ZipFile(project / "hooks.zip", "w") as archive:
            archive.writestr("pre-commit", "evil\n")
        self.restore()
        return self

    def _git(self, *words):
        subprocess.run(
            ["git", *words],
            cwd=self.pristine / "project",
            env={**os.environ, **self.environment},
            check=True,
        )

    def restore(self):
        """Make everything what it was; afterwards, what a command has changed suffices."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.pristine, self.home, symlinks=True)
        self.before = _signatures(self.home)

    def _mend(self, changed):
        for name in reversed(changed):
            path = self.home / name
            if path.is_dir() and not path.is_symlink():
                if not (self.pristine / name).is_dir():
                    path.rmdir()
            else:
                path.unlink(missing_ok=True)
        for name in changed:
            old, path = self.pristine / name, self.home / name
            if old.is_symlink():
                path.symlink_to(old.readlink())
            elif old.is_dir():
                path.mkdir(exist_ok=True)
                path.chmod(old.stat().st_mode)
            elif old.exists():
                shutil.copy2(old, path)
        self.before = _signatures(self.home)

    def reached_by(self, commands):
        """Run commands in the sandbox, and say what each of them reached."""
        (self.folder / "commands.json").write_text(json.dumps(list(commands)))
        driver = [sys.executable, "-S", "-m", "tests.permissions.reach_oracle", str(self.folder)]
        subprocess.run(
            [*sandbox(self.folder), *driver], cwd=REPOSITORY, check=True, stdin=subprocess.DEVNULL
        )
        found = json.loads((self.folder / "reached.json").read_text())
        return [Reached(*map(tuple, names), *flags) for names, flags in found]

    def trace(self, command):
        """Run one command, and say what it reached; leave the project as it was."""
        ran = self.folder / "ran"
        ran.unlink(missing_ok=True)
        before = self.before
        started = os.times().elapsed
        printed = run(command, self.root, self.environment, LONGEST)
        late = os.times().elapsed - started > LONGEST
        after = _signatures(self.home)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        read = ["what it printed"] if _tells(printed) else []
        read += [name for name in changed if self._leaks(name)]
        written = [name for name in changed if self._is_guarded(name) and self._differs(name)]
        if changed:
            self._mend(changed)
        changed = [name for name in changed if name not in NOTES]
        return (read, written, changed), (
            ran.exists(),
            any(text in printed for text in OUTSIDE),
            late,
        )

    def _leaks(self, name):
        path = self.home / name
        if _within(name, DENIED) or name.startswith("project/.git/") or not path.is_file():
            return False
        return _tells(path.read_bytes())

    def _is_guarded(self, name):
        return name in (".bashrc", "project/src/canary") or _within(name, (*DENIED, *PROTECTED))

    def _differs(self, name):
        old, new = self.pristine / name, self.home / name
        if old.is_dir() and new.is_dir():
            return False
        if not (old.is_file() and new.is_file()):
            return True
        return old.read_bytes() != new.read_bytes() or old.stat().st_mode != new.stat().st_mode


def _within(name, places):
    return any(f"{name}/".startswith(f"project/{place}/") for place in places)


def _tells(data):
    if any(needle in data for needle in NEEDLES):
        return True
    try:
        return data[:2] == b"\x1f\x8b" and MARK.encode() in gzip.decompress(data)
    except (OSError, EOFError):
        return False


def _signatures(folder):
    """Note what each file below a folder is; whatever changes one changes what is noted."""
    found = {}
    pending = [str(folder)]
    start = len(pending[0]) + 1
    while pending:
        inner = pending.pop()
        if not os.access(inner, os.R_OK | os.W_OK | os.X_OK):
            os.chmod(inner, 0o700)
        with os.scandir(inner) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                name = entry.path[start:]
                found[name] = (status.st_mode, status.st_size, status.st_ctime_ns, status.st_ino)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and not status.st_mode & 0o400:
                    os.chmod(entry.path, status.st_mode | 0o600)
    return found


def _write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def main(folder):
    """Trace the commands of a file, and write down what they reached."""
    project = Project(folder)
    commands = json.loads((project.folder / "commands.json").read_text())
    project.restore()
    (project.folder / "reached.json").write_text(json.dumps(list(map(project.trace, commands))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
