"""What commands that are said to read only do to a folder, tried in bubblewrap.

Beside the files to read lies `g`, which leaves a mark if it is run; programs are looked for there
as well. So a command that writes `g`, or runs it, changes the folder.
"""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FILES = {"f": "b 2\na 1\n", "j": '{"a": [1]}\n', "d/e": "x\n"}
LONGEST = 2
GROUP = 50  # commands after which the folder is looked at


def furnish(folder):
    """Make a repository with the files in it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "g").write_text("#!/bin/sh\necho > ran\n")
    (folder / "g").chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
        subprocess.run([*git, *words], cwd=folder, check=True)


def changing(commands, base, sandbox):
    """Run commands in `base/work`, and return those that changed it, with what they changed."""
    (base / "commands.json").write_text(json.dumps(commands))
    driver = [sys.executable, "-I", "-S", __file__, str(base)]
    subprocess.run([*sandbox, *driver], check=True, stdin=subprocess.DEVNULL)
    return json.loads((base / "changes.json").read_text())


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if path.name != "index"  # which `git status` refreshes
    }


def _run(command, work):
    environment = {"PATH": f"/usr/bin:/bin:{work}", "HOME": str(work), "TMPDIR": str(work)}
    try:
        subprocess.run(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return


def main(base):
    """Run the commands of a file, many at a time; one by one where something has changed."""
    work, fresh = base / "work", base / "fresh"
    shutil.copytree(work, fresh)
    before, found = _contents(work), []
    commands = json.loads((base / "commands.json").read_text())
    for start in range(0, len(commands), GROUP):
        group = commands[start : start + GROUP]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda command: _run(command, work), group))
        for command in group if _contents(work) != before else ():
            shutil.rmtree(work)
            shutil.copytree(fresh, work)
            _run(command, work)
            after = _contents(work)
            changed = sorted(
                name for name in {*before, *after} if before.get(name) != after.get(name)
            )
            found += [(command, changed)] if changed else []
        if _contents(work) != before:
            shutil.rmtree(work)
            shutil.copytree(fresh, work)
    (base / "changes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
