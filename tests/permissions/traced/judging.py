"""What generated commands are held against: the rules that judge them, and what these forbid."""

import os
import re
import shutil
import signal
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.git._internal import GitAnswers
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions._internal import Judgement
from greenroom.programs._internal import read_only_commands
from greenroom.sandbox._internal import clean_environment
from tests.git.repositories import CANARY
from tests.permissions.traced import container, workspaces
from tests.permissions.traced.container import Trace

SECONDS = 2  # of the processor, for a judgement
# What git notes down when it only looks: which files are as they were, and what it still needs.
_NOTE = re.compile(r"/\.git/index(?:\.lock)?$|^utimensat \S*/\.git/(?:objects/|sharedindex\.)")
_ENVIRONMENT = re.compile(r"/proc/\d+/environ$")
# Programs that run the command in their words, and what git itself starts.
WRAPPERS = {"env", "timeout", "nice", "nohup", "stdbuf", "setsid", "ionice", "xargs", "bash", "sh"}
SYSTEM_FOLDERS = ("/usr/bin/", "/usr/local/bin/", "/bin/", "/usr/lib/git-core/")


class Case(NamedTuple):
    """A generated command: who made it, the rules that judge it, its text, and its workspace."""

    generator: str
    rules: "Rules"
    text: str
    workspace: str = workspaces.PROJECT

    def __str__(self):
        return f"{self.generator} {self.rules.name} in {self.workspace}: {self.text!r}"


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules, and what a command that they allow must not do.

    Attributes:
        name: what it is called in reports.
        rules: the rules; whatever only reads is allowed besides.
        allowed: the programs that may run besides those that only read; None if any but `pwn`, with
            whatever effects it has on other processes and on the network.
        writes: what may be changed: nothing, anything, or anything that is not protected.
        leaves: whether files outside the workspace may be read.
    """

    name: str
    rules: tuple[PermissionRule, ...] = ()
    allowed: tuple[str, ...] | None = ()
    writes: Literal["nothing", "unprotected", "anything"] = "nothing"
    leaves: bool = False

    def violations(self, trace: Trace, workspace: Path, base: Path) -> list[str]:
        """Say what of what a command did these rules do not allow."""
        found = [f"ran {each}" for each in trace.ran if not self._may_run(each, base)]
        read = (each for each in trace.read if not self._may_read(each, workspace, base))
        found += [f"read {each}" for each in read]
        found += [f"told {each}" for each in trace.told if not self._may_tell(each)]
        if self.allowed is not None:
            found += [*trace.odd, *(["left a process"] if trace.left else [])]
        if self.writes == "nothing":
            found += [each for each in trace.changed if not _NOTE.search(each)]
        found += [f"changed {name}" for name in trace.guarded if not self._may_change(name)]
        return [each.replace(f"{base}/home/", "~/") for each in found]

    def _may_run(self, started, base):
        path, _, words = started.partition(" ")
        name = os.path.basename(path)
        if name == "pwn" or self.allowed is None:
            return name != "pwn"
        if not path.startswith((*SYSTEM_FOLDERS, f"{base}/bin/")):
            return False
        return name in self.allowed or any(each in words for each in _reading().get(name, ()))

    def _may_read(self, path, workspace, base):
        # The stubs, what a program puts aside, and what `ps` opens, but does not tell.
        if path.startswith((f"{base}/bin/", "/tmp/")) or _ENVIRONMENT.match(path):
            return True
        inside = f"{path}/".startswith(f"{workspace}/")
        is_file = inside and not path.endswith("/")
        if is_file and DENY_SECRETS in self.rules and _is_denied(os.path.relpath(path, workspace)):
            return False
        return inside or self.leaves

    def _may_tell(self, canary):
        if canary in (workspaces.SECRET, *workspaces.TWISTED):
            return DENY_SECRETS not in self.rules
        return self.leaves and canary in (workspaces.OUTSIDE, CANARY)

    def _may_change(self, name):
        if _is_denied(os.path.relpath(name, workspaces.PROJECT)):
            return self.writes == "anything" and DENY_SECRETS not in self.rules
        return self.writes == "anything"


def _is_denied(name):
    return any(f"{name}/".startswith(f"{each}/") for each in workspaces.DENIED)


@cache
def _reading():
    """List the programs that only read, each with options of which it must have one, or none."""
    found = {name: {""} for name in (*WRAPPERS, "git")}
    for each in read_only_commands():
        name, option = [*each.split(), ""][:2]
        found.setdefault(name, set()).add(option if option.startswith("-") else "")
    return found


DENY_PWN = PermissionRule.deny_command("pwn", final=True)
DENY_SECRETS = PermissionRule.deny_path("secrets/**", "**/.env", final=True)
READ_ONLY = Rules("read-only")


class Violation(NamedTuple):
    """A command that did what it must not, and what that was."""

    case: Case
    what: list[str]

    def __str__(self):
        return f"{self.case}: {'; '.join(self.what[:3])}"


class Run(NamedTuple):
    """A command that is allowed, or is run regardless, and what the Bash tool runs for it."""

    case: Case
    words: list[str]
    environment: dict[str, str]


def judge(cases: Iterable[Case], places: dict[str, Path]) -> tuple[list[Run], list[Violation]]:
    """Judge commands; return what runs for those that are allowed, and where judging failed."""
    managers: dict[Rules, PermissionManager] = {}
    contexts = {
        name: AgentContext(session_id="s", agent_type="a", workspace=Workspace(place))
        for name, place in places.items()
    }
    git, runs, failed = GitAnswers(), [], []
    for case in cases:
        if case.rules not in managers:
            managers[case.rules] = PermissionManager(case.rules.rules, read_only=True)
        try:
            with _at_most(SECONDS):
                found = _judge(managers[case.rules], case.text, contexts[case.workspace], git)
        except _TooLongError:
            failed.append(Violation(case, [f"is not judged after {SECONDS} s"]))
            continue
        if "could not be judged" in found.reason:
            failed.append(Violation(case, [found.reason]))
        if found.decision is RuleDecision.ALLOW:
            runs.append(run_of(case, found))
    return runs, failed


def _judge(manager, command, context, git):
    """Judge a command as the runtime does: after git was asked what repositories make it do."""
    found = manager.judge("Bash", {"command": command}, context)
    if not found.missing_answers:
        return found
    answers = {folder: git.ask(folder) for folder in found.missing_answers}
    return manager.judge("Bash", {"command": command}, context, git=answers)


class _TooLongError(BaseException):
    """A judgement takes too long, as one that never ends does."""


@contextmanager
def _at_most(seconds):
    """Interrupt what takes longer."""

    def stop(*_):
        raise _TooLongError

    old = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def run_of(case: Case, judgement: Judgement | None = None) -> Run:
    """Say what the Bash tool runs for an allowed command; without a judgement, its text."""
    text = judgement.runs_as if judgement else ""
    words = ["bash", "--noprofile", "--norc", "-p", "-c", text or case.text]
    return Run(case, words, clean_environment(os.environ))


def trace(runs: Sequence[Run], places: dict[str, Path], base: Path) -> list[Violation]:
    """Run commands, and return those that did what they must not."""
    names = (*workspaces.DENIED, *workspaces.PROTECTED)
    traces = container.run(
        [(run.words, run.environment, str(places[run.case.workspace])) for run in runs],
        base,
        canaries=(workspaces.SECRET, workspaces.OUTSIDE, *workspaces.TWISTED, CANARY),
        guarded=[".bashrc", *(f"{workspaces.PROJECT}/{name}" for name in names)],
    )
    found = []
    for (case, *_), done in zip(runs, traces, strict=True):
        if what := case.rules.violations(done, places[case.workspace], base):
            found.append(Violation(case, what))
    return found


def is_there(program: str) -> bool:
    """Return whether the machine has a program, in a folder of the system."""
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is not None
