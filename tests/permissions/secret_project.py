"""A project with a secret, and what rules that deny it and a host would say about commands."""

import os
import subprocess

from greenroom.permissions.operands import HostUse, list_operands
from greenroom.permissions.patterns import Care, HostPattern, PathPattern
from greenroom.permissions.searches import Search
from greenroom.shell._internal import PathUse, Place, Unknown, analyse

PATHS = tuple(map(PathPattern.parse, ("**/.env", "secrets/**")))
SECRET = "5ecre7"


def hosts(*texts):
    return Care(hosts=tuple(map(HostPattern.parse, texts)))


USUAL = Care(PATHS, hosts("evil.test").hosts)


def judge(facts, place, care):
    """List what a rule that denies would say: "denied" or "asked", and about what."""
    search = Search.of(place, care)
    for fact in facts:
        for operand in list_operands(fact, place, care):
            match operand:
                case Unknown():
                    yield f"asked: {operand}"
                case HostUse():
                    yield f"denied: {operand}"
                case PathUse() if search.touches(*operand.lexical, *operand.real):
                    yield f"denied: {operand}"
                case PathUse() if operand.searches and any(
                    pattern.may_be_found_by(path, anchors)
                    for pattern in care.paths
                    for path in operand.lexical
                    for anchors in search.anchors
                ):
                    yield f"denied: {operand}"


def alarms(command, folder="/w", root=None, care=USUAL):
    place = Place(str(root or folder), str(folder))
    return list(dict.fromkeys(judge(analyse(command, place).effects, place, care)))


def answer(command, folder="/w", root=None, care=USUAL):
    """The strictest of what is said about a command."""
    found = [each.partition(":")[0] for each in alarms(command, folder, root, care)]
    return "denied" if "denied" in found else "asked" if found else ""


def build_project(root):
    """A repository with a tracked secret, one that is not tracked, and odd links."""
    for name in (
        "secrets/key",
        ".env",
        "sub/deep/.env",
        "src/a.py",
        "sub/b.py",
        "keyfile",
        "src/v.py",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n" if "key" in path.name or ".env" in name else "plain\n")
    for name, target in (("process", "/proc/self"), ("here", "."), ("linked", "secrets")):
        (root / name).symlink_to(target)
    (root / ".gitignore").write_text(".env\nprocess\n")
    run_git(root, "init", "-q", "-b", "main")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Start")
    (root / "secrets/key").write_text(f"{SECRET} changed\n")
    run_git(root, "stash", "-q")
    (root / "secrets/key").write_text(f"{SECRET} again\n")
    return root


def run_git(root, *words):
    names = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}
    user = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *user, *words],
        cwd=root,
        env={**os.environ, **names},
        capture_output=True,
        timeout=60,
        check=False,
    )
