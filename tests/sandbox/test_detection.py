"""Detection: tried for real, kept, bounded, and honest about what failed."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from greenroom.core import AgentContext, ToolError, Workspace
from greenroom.sandbox import detection, enforce
from greenroom.sandbox._internal import SandboxUnavailableError
from greenroom.sandbox.cgroup import CgroupPlaces
from greenroom.sandbox.detection import list_candidates
from greenroom.sandbox.process import Exit
from greenroom.sandbox.report import Mechanisms
from greenroom.sandbox.seccomp import seccomp_filter
from greenroom.tools import Bash, ProcessLimits, Sandbox, examine_sandbox
from tests.sandbox.held import Held


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examine anew."""
    monkeypatch.setattr(detection, "_mechanisms", [])


def offering(monkeypatch: pytest.MonkeyPatch, *ways: Mechanisms) -> None:
    monkeypatch.setattr(detection, "list_candidates", lambda: iter(ways))


def program(folder: Path, text: str) -> str:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.usefixtures("bubblewrap")
async def test_what_bubblewrap_holds_where_it_works() -> None:
    held = await detection._try_way(next(list_candidates()))
    assert isinstance(held, frozenset), held
    assert held >= {
        "files",
        "attributes",
        "protected",
        "hidden",
        "network",
        "services",
        "signals",
        "syscalls",
        "cpu",
        "file_size",
        "memory",
    }


@pytest.mark.usefixtures("landlock")
async def test_what_landlock_holds_where_it_works() -> None:
    (way,) = (way for way in list_candidates() if way.tier == "landlock")
    held = await detection._try_way(way)
    assert isinstance(held, frozenset), held
    assert held >= {"files", "hidden", "network", "services", "syscalls", "file_size"}
    assert not held & {"attributes", "protected"}
    assert ("signals" in held) == (enforce.landlock_version() >= 6)


async def test_what_limits_alone_do_not_hold_is_said() -> None:
    held = await detection._try_way(Mechanisms("limits"))
    assert isinstance(held, frozenset)
    assert not held & {"files", "attributes", "protected", "hidden", "network", "signals"}
    assert held >= {"cpu", "file_size"}


async def test_what_killed_processes_left_is_removed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[bool] = []
    monkeypatch.setattr(detection, "remove_stale", lambda: removed.append(True))
    offering(monkeypatch, Mechanisms("limits"))
    for _ in range(2):
        await examine_sandbox(Sandbox())
    assert removed == [True]


async def test_the_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = await examine_sandbox(Sandbox())
    offering(monkeypatch)
    assert await examine_sandbox(Sandbox()) == first


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("echo bwrap: setting up uid map: Operation not permitted; exit 1", "setting up uid map"),
        ("kill -9 $$", "the probe ended with code -9"),
        ("exit 3", "the probe ended with code 3"),
        ("echo nonsense", "the probe gave no answer: nonsense"),
        ("exit 0", "the probe gave no answer"),
    ],
)
async def test_a_tier_that_does_not_work_is_passed_over_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, says: str
) -> None:
    broken = Mechanisms("bubblewrap", program(tmp_path, does))
    offering(monkeypatch, broken, Mechanisms("limits"))
    report = await examine_sandbox(Sandbox())
    assert report.tier == "limits"
    assert "files" in report.lacking
    assert says in report.why["files"]


async def test_one_that_leaves_something_behind_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def leaving(*_: object, **__: object) -> Exit:
        return Exit(0, has_survivors=True)

    monkeypatch.setattr(detection, "run_contained", leaving)
    told = await detection._try_way(Mechanisms("limits"))
    assert told == "what the probe started could not be ended"


async def test_the_probe_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def look(*_: object, environment: dict[str, str], **__: object) -> Exit:
        seen.extend(environment)
        return Exit(0)

    monkeypatch.setattr(detection, "run_contained", look)
    monkeypatch.setenv("A_API_KEY", "planted")
    await detection._try_way(Mechanisms("limits"))
    assert "PATH" in seen
    assert "A_API_KEY" not in seen


async def test_one_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(detection, "_PROBE_SECONDS", 0.2)
    broken = Mechanisms("bubblewrap", program(tmp_path, "sleep 600"))
    offering(monkeypatch, broken, Mechanisms("limits"))
    with trio.fail_after(60):
        report = await examine_sandbox(Sandbox())
    assert "the probe took longer than 0.2 s" in report.why["files"]


async def test_one_that_holds_nothing_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where a wrapper only passes the command on."""
    passing = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    offering(monkeypatch, Mechanisms("bubblewrap", program(tmp_path, passing)))
    report = await examine_sandbox(Sandbox())
    assert set(report.missing) >= {"files", "attributes", "hidden", "network", "signals"}


async def test_a_full_disk_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(detection, "_prepare_probe", fail)
    offering(monkeypatch, Mechanisms("limits"))
    assert "No space left" in (await examine_sandbox(Sandbox())).why["files"]


async def test_where_nothing_works_all_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_try_way", lambda _: failing())

    async def failing() -> str:
        return "it broke"

    offering(monkeypatch, Mechanisms("limits"))
    report = await examine_sandbox(Sandbox())
    assert report.enforced == {}
    assert report.why["cpu"] == "limits: it broke"


async def test_what_can_not_be_prepared_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = CgroupPlaces(2, (("memory", tmp_path / "gone"),))
    broken = Mechanisms("landlock", cgroups=gone)
    probe = detection.probe_policy
    limits = ProcessLimits(memory_megabytes=100)
    monkeypatch.setattr(
        detection, "probe_policy", lambda hidden: replace_limits(probe(hidden), limits)
    )
    offering(monkeypatch, broken, Mechanisms("limits"))
    report = await examine_sandbox(Sandbox())
    assert "could not be set up" in report.why["files"]


def replace_limits(sandbox: Sandbox, limits: ProcessLimits) -> Sandbox:
    return Sandbox(sandbox.mode, sandbox.network, (), sandbox.deny_read, limits)


async def test_what_is_required_and_missing_runs_nothing(held: Held) -> None:
    sandbox = Sandbox(require=frozenset({"files", "disk"}))
    with pytest.raises(SandboxUnavailableError, match=r"must hold .*disk, which nothing does here"):
        await held.run("echo x > made", sandbox)
    assert not list(held.root.iterdir())


async def test_what_is_required_and_held_runs(held: Held) -> None:
    report = await held.report()
    sandbox = Sandbox(require=frozenset(report.enforced))
    assert not (await held.run("true", sandbox)).is_error


async def test_a_link_in_a_protected_place_breaks_the_requirement(held: Held) -> None:
    (held.root / ".git").symlink_to(".")
    sandbox = Sandbox(require=frozenset({"protected"}))
    with pytest.raises(SandboxUnavailableError, match="protected"):
        await held.run("echo x > made", sandbox)
    assert not (held.root / "made").exists()


async def test_something_writable_that_does_not_exist_is_refused(held: Held) -> None:
    with pytest.raises(ToolError, match="can't make nowhere writable: it does not exist"):
        await held.run("true", Sandbox(writable=("nowhere",)))


async def test_without_a_filter_for_this_processor_its_parts_are_missing(
    monkeypatch: pytest.MonkeyPatch, only: Callable[[str], None]
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert seccomp_filter(()) is None
    for tier in ("bubblewrap", "landlock"):
        ways = [replace(way, has_filter=False) for way in list_candidates() if way.tier == tier]
        for way in ways:
            held = await detection._try_way(way)
            assert "syscalls" not in held
            if tier == "landlock":
                assert not {"network", "signals"} & held


async def test_where_no_group_can_be_made_each_process_is_limited(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    ways = [replace(way, cgroups=CgroupPlaces()) for way in list_candidates()]
    offering(monkeypatch, *ways)
    report = await examine_sandbox(Sandbox())
    assert report.enforced["memory"] == "RLIMIT_AS, each process"
    if os.getuid() == 0:
        assert "root" in report.why["processes"]
    else:
        assert report.enforced["processes"].startswith("RLIMIT_NPROC")
    sandbox = Sandbox(limits=ProcessLimits(memory_megabytes=200, processes=50))
    context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(root))
    result = await Bash(sandbox=sandbox).execute({"command": "ulimit -v"}, context)
    assert result.text.splitlines()[0] == str(200 * 1024)


def test_macos_is_offered_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "freebsd14")
    assert [way.tier for way in list_candidates()] == ["limits"]
    monkeypatch.setattr("sys.platform", "darwin")
    assert [way.tier for way in list_candidates()] == ["limits"]
    monkeypatch.setattr("greenroom.sandbox.detection.SANDBOX_EXEC", str(tmp_path))
    assert [way.tier for way in list_candidates()] == ["seatbelt", "limits"]


def test_a_machine_without_anything_is_offered_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(enforce, "landlock_version", lambda: 0)
    (way,) = list_candidates()
    assert way.tier == "limits"
    assert way.why == {
        "bubblewrap": "the program bwrap is not installed",
        "landlock": "this kernel does not offer it",
    }
