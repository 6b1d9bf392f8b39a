"""Reports: which parts of a policy a machine holds, by what means, and why it lacks the others."""

from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec
from msgspec.structs import replace

from greenroom.core import ToolError
from greenroom.core._internal import SandboxPart, SandboxReport, SandboxTier
from greenroom.sandbox.cgroup import CgroupPlaces
from greenroom.sandbox.policy import Sandbox
from greenroom.sandbox.resolved_policy import PolicyPaths, User, UserProbe, is_below

_LIMITS: dict[SandboxPart, str] = {
    "memory": "RLIMIT_AS, each process",
    "cpu": "RLIMIT_CPU, each process",
    "file_size": "RLIMIT_FSIZE, each file",
    "processes": "RLIMIT_NPROC, with all others of this user",
}
_TOGETHER: dict[str, tuple[SandboxPart, str]] = {
    "memory": ("memory", "control group, all processes together"),
    "pids": ("processes", "control group, all processes and threads together"),
}
_SECCOMP: dict[SandboxPart, str] = dict.fromkeys(("syscalls", "network", "services"), "seccomp")
_BY: dict[SandboxTier, dict[SandboxPart, str]] = {
    "bubblewrap": {
        **dict.fromkeys(("files", "attributes", "protected", "hidden"), "mount namespace"),
        **_SECCOMP,
        "network": "network namespace",
        "signals": "process namespace",
    },
    "landlock": {
        **dict.fromkeys(("files", "hidden"), "Landlock"),
        **_SECCOMP,
        "signals": "Landlock and seccomp",
    },
    "seatbelt": dict.fromkeys(
        ("files", "attributes", "protected", "hidden", "network", "services", "signals"), "Seatbelt"
    ),
    "limits": _SECCOMP,
}
_NAMED = 3  # files in a reason
_NOT_FOR_ROOT = "RLIMIT_NPROC does nothing for root, no control group can be made"
_WHY: dict[SandboxPart, str] = {
    "attributes": "Landlock knows no right for modes, owners and times",
    "protected": "Landlock allows a folder as a whole",
    "processes": f"{_NOT_FOR_ROOT}, and only in a workspace of another user can that one run it",
    "disk": "no limit on all files together",
}
_ANYWHERE = ("processes", "disk")
_REACHED = "with the network on, programs can be asked over Unix sockets"


class SandboxUnavailableError(ToolError):
    """A sandbox requires what nothing on this machine can enforce, so nothing was run."""

    remedy = "see what is missing with `greenroom doctor`"


class Mechanisms(msgspec.Struct, frozen=True):
    """One way to confine commands.

    Attributes:
        tier: its name.
        program: the path of bubblewrap or `sandbox-exec`.
        has_filter: whether there is a filter of system calls for this processor.
        scopes: whether Landlock keeps abstract Unix sockets and signals inside.
        cgroups: where control groups can be made.
        held_parts: the parts that it held when it was tried.
        why: why each better tier could not be used.
        user_probes: for users other than root, the parts that were held, or why the probe failed.
    """

    tier: SandboxTier
    program: str = ""
    has_filter: bool = False
    scopes: bool = False
    cgroups: CgroupPlaces = msgspec.field(default_factory=CgroupPlaces)
    held_parts: frozenset[SandboxPart] = frozenset()
    why: dict[str, str] = msgspec.field(default_factory=dict)
    user_probes: dict[UserProbe, frozenset[SandboxPart] | str] = msgspec.field(default_factory=dict)


def report_on(sandbox: Sandbox, mechanisms: Mechanisms) -> SandboxReport:
    """Report which parts of a policy these mechanisms hold, and why they lack the others.

    Example:
        >>> report = report_on(Sandbox(), Mechanisms("limits", held_parts=frozenset({"cpu"})))
        >>> report.enforced, report.missing[:3]
        ({'cpu': 'RLIMIT_CPU, each process'}, ('files', 'attributes', 'protected'))
    """
    enforced = _find_enforced(sandbox, mechanisms)
    why = {
        part: _explain_missing(part, sandbox, mechanisms)
        for part in get_args(SandboxPart)
        if part not in enforced
    }
    empty = SandboxReport(sandbox.mode, sandbox.network, mechanisms.tier, {}, (), (), {})
    return _restate(empty, sandbox, enforced, why)


def _restate(
    report: SandboxReport,
    sandbox: Sandbox,
    enforced: Mapping[SandboxPart, str],
    why: Mapping[SandboxPart, str],
) -> SandboxReport:
    """Return a report with the means that hold each part, or the reason why none does."""
    parts: tuple[SandboxPart, ...] = get_args(SandboxPart)
    missing = tuple(part for part in parts if part not in enforced)
    return replace(
        report,
        enforced={part: enforced[part] for part in parts if part in enforced},
        missing=missing,
        lacking=tuple(part for part in missing if part in sandbox.requested_parts),
        why={part: why[part] for part in missing},
    )


def report_as_user(report: SandboxReport, sandbox: Sandbox, user: User) -> SandboxReport:
    """Return the report for commands of a user, who is subject to the limit of processes."""
    by = f"RLIMIT_NPROC, with all others of user {user.uid}"
    report = replace(report, user=user.uid)
    return _restate(report, sandbox, {"processes": by, **report.enforced}, report.why)


def report_as_root(report: SandboxReport, user: User, why: str) -> SandboxReport:
    """Return the report for commands that root runs, because this user could not."""
    why = f"user {user.uid} could not run it: {why}"
    report = replace(report, as_root=why)
    if "processes" not in report.missing:
        return report
    return replace(report, why={**report.why, "processes": f"{_NOT_FOR_ROOT}, and {why}"})


def check_required(sandbox: Sandbox, report: SandboxReport) -> None:
    """Refuse a policy whose required parts are not all held.

    Raises:
        SandboxUnavailableError: it names the missing parts, and why they are missing.
    """
    missing = [part for part in report.missing if part in sandbox.require]
    if missing:
        reasons = "; ".join(f"{part}: {report.why[part]}" for part in missing)
        raise SandboxUnavailableError(
            f"the sandbox must hold {', '.join(missing)}, which nothing does here ({reasons})",
            hint="greenroom doctor says what would help; or leave it out of require",
        )


def report_in_place(report: SandboxReport, sandbox: Sandbox, paths: PolicyPaths) -> SandboxReport:
    """Return the report for a call in this workspace, which may not hold some of the parts."""
    if paths.unprotected:
        why = f"{', '.join(paths.unprotected)}: a symbolic link can be put elsewhere"
        report = _drop_part(report, sandbox, "protected", why)
    if not paths.is_searched and "protected" in report.enforced:
        by = f"{report.enforced['protected']}, but only those nested repositories found at first"
        report = replace(report, enforced={**report.enforced, "protected": by})
    # Landlock resolves names at its start, so one command may rename what the next can read.
    loose = [path for path in paths.hidden if is_below(path, paths.writable)]
    if loose and report.tier == "landlock":
        why = f"{', '.join(loose)}: it can be moved, and read by the next command"
        report = _drop_part(report, sandbox, "hidden", why)
    return _drop_linked(report, sandbox, paths)


def _drop_linked(report: SandboxReport, sandbox: Sandbox, paths: PolicyPaths) -> SandboxReport:
    """Drop the part "hidden" if a hidden file has another name, since only paths are hidden."""
    if "hidden" not in report.enforced:
        return report
    if paths.linked:
        more = len(paths.linked) - _NAMED
        named = f"{', '.join(paths.linked[:_NAMED])}{f' and {more} more' if more > 0 else ''}"
        why = f"{named}: it can be read by another name that it has (a hard link)"
        return _drop_part(report, sandbox, "hidden", why)
    if paths.is_traced:
        return report
    by = "but other names (hard links) were looked for among some of the files only"
    enforced = {**report.enforced, "hidden": f"{report.enforced['hidden']}, {by}"}
    return replace(report, enforced=enforced)


def _drop_part(
    report: SandboxReport, sandbox: Sandbox, part: SandboxPart, why: str
) -> SandboxReport:
    enforced = {each: by for each, by in report.enforced.items() if each != part}
    return _restate(report, sandbox, enforced, {**report.why, part: why})


def describe_sandbox(sandbox: Sandbox) -> str:
    """Describe a policy to the model.

    Example:
        >>> describe_sandbox(Sandbox("read-only"))
        'only $TMPDIR can be written, no network'
    """
    return ", ".join(_list_refusals(sandbox))


def _list_refusals(sandbox: Sandbox) -> Iterator[str]:
    workspace = "the workspace and " if sandbox.mode == "workspace-write" else ""
    yield f"only {workspace}$TMPDIR can be written"
    if sandbox.network == "none":
        yield "no network"
    limits = sandbox.limits
    for value, words in (
        (limits.cpu_seconds, "s of CPU time"),
        (limits.memory_megabytes, "MB of memory"),
        (limits.file_megabytes, "MB for one file"),
        (limits.processes, "processes"),
    ):
        if value is not None:
            yield f"{value} {words}"


def _find_enforced(sandbox: Sandbox, mechanisms: Mechanisms) -> dict[SandboxPart, str]:
    by = {**_LIMITS, **_BY[mechanisms.tier]}
    found = {
        part: by[part]
        for part in get_args(SandboxPart)
        if part in mechanisms.held_parts & by.keys()
    }
    for controller, _ in mechanisms.cgroups.folders:
        part, words = _TOGETHER[controller]
        found[part] = words
    if sandbox.mode == "read-only":
        if "files" in found:
            found["protected"] = found["files"]
        if mechanisms.tier == "bubblewrap":
            found["disk"] = "private folders of 1 GiB, in memory"
    if sandbox.network == "all":
        found.pop("network", None)
        found.pop("services", None)
    return found


def _explain_missing(part: SandboxPart, sandbox: Sandbox, mechanisms: Mechanisms) -> str:
    if sandbox.network == "all" and part in ("network", "services"):
        return "the policy leaves it open" if part == "network" else _REACHED
    known = _WHY.get(part) if mechanisms.tier == "landlock" or part in _ANYWHERE else None
    above = "; ".join(f"{name}: {reason}" for name, reason in mechanisms.why.items())
    return known or above or f"nothing in the tier {mechanisms.tier} holds it"
