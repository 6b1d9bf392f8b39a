"""The folders that generated commands are about, and what lies around them.

Below one base stand `bin`, with the stubs `pwn`, which nothing may run, and `good`; and `home`,
with a file outside of every workspace, and the workspaces.
"""

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

SECRET, OUTSIDE = "TOPSECRETMARKER", "OUTSIDEMARKER"
TWISTED = (SECRET[::-1], SECRET.encode().hex(), "VE9QU0VDUkVUTUFSS0VS")  # the last is base64
PROJECT = "project"

FILES = {
    "README.md": "# Project\n\nfoo bar\n",
    "a": "3 b a\n1 a b\n2 c\n",
    "b": "hello\n",
    "j.json": '{"a": [1, {"b": "c"}], "f": "../outside"}\n',
    "x.csv": "a,1\nb,2\n",
    "hook": "#!/bin/sh\npwn\n",
    "names": "secrets/key\n../outside\n",
    "names0": "secrets/key\0../outside\0",
    "index": "a[$(pwn)]\n",
    "f": "3 b a\n1 a b\n2 c\n",
    "f2": "good f2\n",
    "path": "./bad\n",
    "sub/f": "x\n",
    "big": "".join(f"{number}\n" for number in range(3000)),
    "src/app.py": "import os\n\n\ndef foo():\n    return 1\n",
    "src/canary": "alive\n",
    "docs/guide.md": "# Guide\n",
    "one/same": "1\n",
    "two/same": "2\n",
    "two/link": "2\n",
    "Makefile": "all:\n\t@echo made $(CC)\n\ntest:\n\t@echo tested\n",
    "package.json": '{"name": "project", "scripts": {"test": "echo ok"}}\n',
    "c.c": "int main(void) { return 0; }\n",
    "secrets/key": f"{SECRET}\n",
    "secrets/sub/deep": f"{SECRET}\n",
    "secrets/guide.md": f"{SECRET}\n",
    ".env": f"TOKEN={SECRET}\n",
    "conf/.env": f"TOKEN={SECRET}\n",
    "p.diff": "--- .bashrc\n+++ .bashrc\n@@ -1 +1,2 @@\n # rc\n+pwn\n",
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
    "one/link": "../../outside",
}
DENIED = ("secrets", ".env", "conf/.env")
PROTECTED = (".git/hooks", ".git/config", ".git/info", ".bashrc", ".envrc", ".vscode", ".greenroom")
LONG_AGO = 1_600_000_000

# Each is a folder full of names that mean something to a program or to the shell.
HOSTILE = {
    "minus": ("-delete", "-o", "-i", "-f", "-n", "-exec", "--", "--output=x", "-R", "-l"),
    "plus": (
        "+x",
        "+",
        "--pre=pwn",
        "--hostname-bin=pwn",
        "--to-command=pwn",
        "--rsh=pwn",
        "-Ipwn",
    ),
    "tar": ("--checkpoint=1", "--checkpoint-action=exec=pwn", "-T", "--use-compress-program=pwn"),
    "files": (
        "-flink",
        "--file=link",
        "--files0-from=link",
        "-Xlink",
        "-Llink",
        "--reference=link",
    ),
    "shell": ("$(pwn)", "`pwn`", ";pwn;", "|pwn", "&pwn", ">x", "a\npwn\n", "x y", "$'pwn'"),
    "quotes": ("'", '"', "\\", "a'b", '"$(pwn)"', "\\$(pwn)", "#c", "!pwn", "{a,pwn}", "~"),
    "patterns": ("*", "?", "[a]", "[", "a]", "[!a]", "{a,b}", "**", "@(pwn)", "a*"),
    "unicode": ("é", "ñ", "\u00a0", "a\u2028b", "\u202ea", "ＡＢ", "e\u0301", "\u200b", "\r", "\t"),
    "at": ("@a", "@names", "=x", ":/a", "a=b", "1e pwn", "w x", "a[$(pwn)]", "%s", ":(top)a"),
}
PLAIN = ("a", "b.txt", "z.py", "sub/a", "sub/-delete", "+x.d/a")


def build(base: Path) -> dict[str, Path]:
    """Furnish the base, an empty folder; return the workspaces by their names."""
    for name in ("home", "bin"):
        (base / name).mkdir()
    home = base / "home"
    _write_program(base / "bin" / "pwn", "exit 0\n")
    _write_program(base / "bin" / "good", "exit 0\n")
    (home / "outside").write_text(f"{OUTSIDE}\n")
    (home / "outside0").write_bytes(b"../outside\0")
    (home / ".bashrc").write_text("# rc\n")
    builders = {PROJECT: _build_project} | dict.fromkeys(HOSTILE, _build_hostile)
    for name, builder in builders.items():
        (home / name).mkdir()
        builder(home / name)
    return {name: home / name for name in builders}


def environment(base: Path) -> dict[str, str]:
    """Return the variables that commands are judged and run with."""
    return {
        "PATH": f"{base}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": f"{base}/home",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def _build_project(folder):
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    for name in ("bad/cat", "bad/good", "run"):
        _write_program(folder / name, "exit 0\n")
    _start_repository(folder)
    (folder / ".git/hooks/pre-push").write_text("# kept\n")
    (folder / "docs/guide.md").write_text("# Guide\n\nmore\n")
    _git(folder, "commit", "-qam", "Second")
    _git(folder, "branch", "side", "HEAD~1")
    (folder / "src/app.py").write_text("import os\n\n\ndef foo():\n    return 2\n")
    for name, member in (("a", "a"), ("hook", "pre-commit")):
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            archive.add(folder / name, member)
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.write(folder / name, member)


def _build_hostile(folder):
    for name in (*PLAIN, *HOSTILE[folder.name]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_program(path, "exit 0\n")
    (folder / "link").symlink_to("../outside")
    (folder / "secrets").mkdir()
    (folder / "secrets/key").write_text(f"{SECRET}\n")
    (folder / "lock").symlink_to("secrets")
    _start_repository(folder)


def _start_repository(folder):
    """Make a first commit; git sees no difference between the files and their copies."""
    _git(folder, "init", "-q", "--template=", "-b", "main")
    for name in ("hooks", "info"):
        (folder / ".git" / name).mkdir()
    settings = {"user.name": "A", "user.email": "a@example.org"}
    settings |= {"core.checkStat": "minimal", "core.trustctime": "false"}
    for name, value in settings.items():
        _git(folder, "config", name, value)
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    _git(folder, "add", "-A", "-f")
    _git(folder, "commit", "-qm", "First")


def _git(folder, *words):
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **settings}, check=True)


def _write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
