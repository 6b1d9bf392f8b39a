"""Commands that another user runs, where we are root and could not be limited."""

import os
import pwd
import tempfile
from functools import cache
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from greenroom.core import AgentContext, ToolError, Workspace
from greenroom.core._internal import SandboxReport
from greenroom.sandbox import detection, resolved_policy as user
from greenroom.sandbox._internal import SandboxUnavailableError
from greenroom.sandbox.cgroup import CgroupPlaces
from greenroom.sandbox.detection import list_candidates
from greenroom.sandbox.report import Mechanisms
from greenroom.sandbox.resolved_policy import User
from greenroom.tools import ProcessLimits, Sandbox, ToolRegistry, examine_sandbox
from greenroom.tools.builtin.bash import run_command
from tests.absent_programs import needs
from tests.sandbox import tools
from tests.sandbox.held import Held, in_turns, marked, skip_where_refused

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
PERL = needs("perl")
# Of no other test that runs at the same time, since all processes of a user are counted together.
OWNER, NOBODY = 1_000_000 + os.getpid(), 9_000_000 + os.getpid()
BOUND = Sandbox(limits=ProcessLimits(processes=20))
READING = Sandbox("read-only", limits=ProcessLimits(processes=20))

# Not in Python: what root has installed for itself may be closed to others.
BOMB = """perl -e '
    while ($n < 200) { $p = fork; last unless defined $p; if (!$p) { sleep 60; exit } $n++ }
    print "started $n\n"
'"""


@cache
def examined_without_groups(tier: str) -> Mechanisms:
    """Try a tier of this machine without control groups."""
    skip_where_refused(tier)
    tiers = (tier, "limits")
    ways = [replace(way, cgroups=CgroupPlaces()) for way in list_candidates() if way.tier in tiers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detection, "_mechanisms", [])
        patch.setattr(detection, "list_candidates", lambda: iter(ways))
        trio.run(examine_sandbox, Sandbox())
        return detection._mechanisms[0]


@pytest.fixture(params=in_turns("owned", "bubblewrap", "landlock", "limits"))
def owned(request: pytest.FixtureRequest, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A workspace that belongs to another user, in one tier, without control groups."""
    way = replace(examined_without_groups(request.param), user_probes={})
    monkeypatch.setattr(detection, "_mechanisms", [way])
    root = outside / "workspace"
    root.mkdir()
    outside.chmod(0o755)
    monkeypatch.setattr(user, "_NOBODY", NOBODY)
    if os.getuid() == 0:
        os.chown(root, OWNER, OWNER)
    context = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(root))
    return Held(request.param, context, outside)


async def report(held: Held, sandbox: Sandbox) -> SandboxReport:
    return await examine_sandbox(sandbox, held.context.workspace)


def ids(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, path.stat().st_gid


@ROOT
@PERL
async def test_a_bomb_of_the_owner_is_held_at_the_limit(owned: Held) -> None:
    result = await owned.run(BOMB, BOUND)
    assert 10 <= int(result.text.split()[1]) <= 20
    told = await report(owned, BOUND)
    assert told.enforced["processes"] == f"RLIMIT_NPROC, with all others of user {OWNER}"
    assert "processes" not in told.missing
    assert "processes" not in told.why
    assert f"({told.tier}, as user {OWNER})" in str(told)
    assert result.metadata["sandbox"]["user"] == OWNER  # type: ignore[index]


@ROOT
@PERL
async def test_with_control_groups_the_owner_runs_it_as_well(
    owned: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [way for way in list_candidates() if way.tier in (owned.tier, "limits")]
    monkeypatch.setattr(detection, "_mechanisms", [])
    monkeypatch.setattr(detection, "list_candidates", lambda: iter(ways))
    result = await owned.run(f"{BOMB}; id -u", BOUND)
    assert 10 <= int(result.text.split()[1]) <= 20
    assert result.text.splitlines()[1] == str(OWNER)


@ROOT
@PERL
async def test_where_nothing_is_written_nobody_runs_it(owned: Held) -> None:
    os.chown(owned.root, 0, 0)
    result = await owned.run(f"{BOMB}; id -u; echo x > made", READING)
    assert 10 <= int(result.text.split()[1]) <= 20
    assert result.text.splitlines()[1] == str(NOBODY)
    assert not list(owned.root.iterdir())
    assert (await report(owned, READING)).user == NOBODY
    assert result.text.endswith(f"20 processes, as user {NOBODY}]")


@ROOT
async def test_a_workspace_of_root_is_written_by_root_and_that_is_said(owned: Held) -> None:
    os.chown(owned.root, 0, 0)
    result = await owned.run("id -u; echo x > made", BOUND)
    assert result.text.startswith("0\n")
    assert ids(owned.root / "made") == (0, 0)
    assert "processes" in result.text.partition("NOT HELD")[2]
    told = await report(owned, BOUND)
    assert told.user is None
    assert told.why["processes"] == (
        "RLIMIT_NPROC does nothing for root, no control group can be made, and only in a workspace "
        "of another user can that one run it"
    )
    required = Sandbox(limits=BOUND.limits, require=frozenset({"processes"}))
    with pytest.raises(SandboxUnavailableError, match="RLIMIT_NPROC does nothing for root"):
        await owned.run("touch more", required)
    assert not (owned.root / "more").exists()


@ROOT
async def test_what_a_command_makes_belongs_to_the_owner(owned: Held) -> None:
    (owned.root / "theirs").write_text("theirs")
    (owned.root / "theirs").chmod(0o600)
    os.chown(owned.root / "theirs", OWNER, OWNER)
    result = await owned.run("mkdir -p a/b; cat theirs > a/b/made; rm theirs; cd a; id -u; id -G")
    assert result.text.splitlines()[:2] == [str(OWNER)] * 2
    assert (owned.root / "a/b/made").read_text() == "theirs"
    assert ids(owned.root / "a") == ids(owned.root / "a/b/made") == (OWNER, OWNER)
    assert owned.context.workspace.cwd == owned.root / "a"


@ROOT
async def test_a_workspace_that_only_its_owner_may_enter_can_be_used(owned: Held) -> None:
    owned.root.chmod(0o700)
    assert (await owned.run("pwd -P; touch made", BOUND)).text.splitlines()[0] == str(owned.root)
    assert ids(owned.root / "made") == (OWNER, OWNER)


@ROOT
async def test_a_workspace_in_a_folder_that_is_private_inside_can_be_used(owned: Held) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        root = Path(folder) / "on the way" / "workspace"
        root.mkdir(parents=True)
        os.chown(root, OWNER, OWNER)
        owned.context.workspace = Workspace(root)
        await owned.run(f"touch made '{root}/named'", BOUND)
        assert ids(root / "made") == ids(root / "named") == (OWNER, OWNER)


@ROOT
async def test_a_tool_that_is_installed_in_a_folder_that_is_private_inside_runs(
    owned: Held,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        installed = Path(folder) / "on the way" / "file"
        installed.parent.mkdir()
        installed.write_text("seen")
        with trio.fail_after(60):
            ended = await run_command(
                ["sh", "-c", f"id -u; cat '{installed}'"],
                owned.context,
                cwd=owned.root,
                seconds=60,
                environment={},
                sandbox=BOUND,
                readable=[str(installed)],
            )
        assert ended.result().text.splitlines()[:2] == [str(OWNER), "seen"]


@ROOT
async def test_no_right_of_root_is_left_and_none_can_be_won_again(owned: Held) -> None:
    look = "grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Groups' /proc/self/status; cat /etc/shadow"
    result = await owned.run(f"{look}; echo x > {owned.outside}/made", BOUND)
    told = dict(line.split(":", 1) for line in result.text.splitlines() if ":\t" in line)
    assert {int(told[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")} == {0}
    assert told["NoNewPrivs"].strip() == "1"
    assert told["Groups"].strip() == ""
    assert "root:" not in result.text
    assert not (owned.outside / "made").exists()


@ROOT
async def test_its_own_streams_home_and_temporary_folder_are_open_to_it(owned: Held) -> None:
    command = """
echo to a stream > /dev/stderr; echo x > "$TMPDIR/file"; cat "$TMPDIR/file"
touch "$HOME/file" && echo $((HOME == TMPDIR)) $USER $LOGNAME; mktemp > /dev/null && echo made
""".replace("$((HOME == TMPDIR))", '$([ "$HOME" = "$TMPDIR" ] && echo at home)')
    result = await owned.run(command, BOUND)
    assert result.text.splitlines()[:4] == ["to a stream", "x", f"at home {OWNER} {OWNER}", "made"]


@ROOT
async def test_what_only_root_may_enter_is_hidden_without_an_error(owned: Held) -> None:
    closed = owned.outside / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("sesame")
    hiding = Sandbox(deny_read=(str(closed / "secret"),), limits=BOUND.limits)
    result = await owned.run(f"echo in; cat {closed}/secret", hiding)
    assert result.text.startswith("in\n")
    assert "sesame" not in result.text
    assert result.metadata["sandbox"]["user"] == OWNER  # type: ignore[index]


UNUSABLE = {
    "a folder above that is closed": ("", (), "it may not read {root}"),
    "a folder of root's that is to be written": ("755", ("{outside}/of-root",), "write"),
}


@ROOT
@pytest.mark.parametrize("what", UNUSABLE)
async def test_where_the_owner_can_not_work_root_does_and_that_is_said(
    owned: Held, what: str
) -> None:
    mode, writable, says = UNUSABLE[what]
    (owned.outside / "of-root").mkdir()
    owned.outside.chmod(int(mode or "700", 8))
    sandbox = Sandbox(
        writable=tuple(each.format(outside=owned.outside) for each in writable), limits=BOUND.limits
    )
    assert (await owned.run("id -u", sandbox)).text.startswith("0\n")
    told = await report(owned, sandbox)
    assert "processes" in told.lacking
    assert f"and user {OWNER} could not run it: it may not" in told.why["processes"]
    assert says.format(root=owned.root) in told.why["processes"]
    assert f"({told.tier}, as root: user {OWNER} could not run it: it may not" in str(told)


@ROOT
async def test_that_root_runs_it_after_all_is_said_where_nothing_is_missing(
    owned: Held,
) -> None:
    owned.outside.chmod(0o700)
    told = await examine_sandbox(Sandbox(), owned.context.workspace)
    assert "processes" not in told.lacking
    assert told.as_root.startswith(f"user {OWNER} could not run it: it may not")


@ROOT
@pytest.mark.parametrize("network", ["none", "all"])
async def test_all_that_root_is_held_to_holds_for_the_owner(owned: Held, network: str) -> None:
    """What the probe found for root it must have found for this user, or root runs it."""
    sandbox = Sandbox(network=network)  # type: ignore[arg-type]
    told = await report(owned, sandbox)
    assert told.user == OWNER
    machine = await examine_sandbox(sandbox)
    assert {*machine.enforced, "processes"} == {*told.enforced}
    result = await owned.run("(exec 9<> /dev/tcp/127.0.0.1/9) 2>&1", sandbox)
    refused = "refused" in result.text and "Operation" not in result.text
    assert refused == (network == "all" or told.enforced["network"] == "network namespace")


@ROOT
async def test_bubblewrap_keeps_it_apart_as_it_does_root(owned: Held) -> None:
    kinds = ["ipc", "mnt", "net", "pid", "uts"]
    result = await owned.run(
        f"for kind in {' '.join(kinds)}; do readlink /proc/self/ns/$kind; done"
    )
    shared = [kind for kind in kinds if os.readlink(f"/proc/self/ns/{kind}") in result.text]
    assert shared == ([] if (await report(owned, Sandbox())).tier == "bubblewrap" else kinds)


@ROOT
async def test_all_that_it_started_ends_with_it(owned: Held) -> None:
    mark = f"600.{int.from_bytes(os.urandom(6), 'big')}"
    await owned.run(f"(setsid sleep {mark} &); nohup sleep {mark} > /dev/null 2>&1 & sleep 0.1")
    assert not marked(mark)
    with trio.move_on_after(1):
        await owned.run(f"trap '' TERM; (setsid sleep {mark} &); sleep {mark}")
    assert not marked(mark)


@ROOT
async def test_it_can_not_reach_what_waits_for_it(owned: Held) -> None:
    result = await owned.run("kill -9 $PPID; kill -STOP -1; echo alive", BOUND)
    assert "alive" in result.text or result.metadata["exit_code"] is None


@ROOT
async def test_a_function_runs_as_the_user_its_report_names(owned: Held) -> None:
    path = owned.root / "written"
    with trio.fail_after(60):
        registry = ToolRegistry([tools.write_text])
        result = await registry.execute("write_text", {"path": str(path)}, owned.context)
    ran_as = result.metadata["sandbox"].get("user")  # type: ignore[union-attr]
    asked_about = await registry.get("write_text").examine_sandbox(owned.context.workspace)
    assert asked_about is not None
    assert asked_about.user == ran_as
    if not result.is_error:
        assert ids(path)[0] == (ran_as or 0)
    else:
        # A root without its rights may not write there, and Python is closed to its owner.
        assert ran_as is None
        assert "Permission denied" in result.text


@ROOT
async def test_one_that_holds_less_for_the_owner_is_not_taken(
    owned: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    await report(owned, BOUND)
    (way,) = detection._mechanisms
    monkeypatch.setattr(
        detection,
        "_mechanisms",
        [replace(way, held_parts=way.held_parts | {"disk"}, user_probes={})],
    )
    told = await report(owned, BOUND)
    assert told.user is None
    assert told.why["processes"].endswith(f"user {OWNER} could not run it: disk not held")


@ROOT
async def test_what_was_tried_is_kept_for_so_many_places(
    owned: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "_MAX_KEPT", 1)
    first = await report(owned, BOUND)
    kept = detection._mechanisms[0].user_probes
    assert len(kept) == 1
    monkeypatch.setattr(detection, "_try_way", None)
    assert await report(owned, BOUND) == first
    monkeypatch.undo()


@ROOT
@pytest.mark.parametrize("lacking", ["processes", "time"])
async def test_what_load_may_have_spoiled_is_tried_again(
    owned: Held, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    first = await report(owned, BOUND)
    (way,) = detection._mechanisms
    way.user_probes.clear()

    async def spoiled(*_: object) -> frozenset[str] | str:
        return (
            way.held_parts - {"processes"}
            if lacking == "processes"
            else f"{detection._TOO_LONG} 1 s"
        )

    with monkeypatch.context() as patch:
        patch.setattr(detection, "_try_way", spoiled)
        assert (await report(owned, BOUND)).user is None
    assert not way.user_probes
    assert await report(owned, BOUND) == first


@ROOT
async def test_trials_do_not_run_at_the_same_time(
    owned: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    await report(owned, BOUND)
    (way,) = detection._mechanisms
    ((asked, held),) = way.user_probes.items()
    way.user_probes.clear()
    running, most, number = 0, 0, 0

    async def slow(*_: object) -> object:
        nonlocal running, most, number
        running, number = running + 1, number + 1
        most = max(most, running)
        await trio.testing.wait_all_tasks_blocked()
        running -= 1
        return held

    monkeypatch.setattr(detection, "_try_way", slow)
    async with trio.open_nursery() as nursery:
        for each in (asked, asked, replace(asked, write=())):
            nursery.start_soon(detection._try_as, way, each)
    assert (most, number) == (1, 2)


def test_what_is_given_for_a_trial_is_closed_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("/")
    given: list[Path] = []

    def give(path: Path, *_: int, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given.append(path)

    monkeypatch.setattr(os, "chown", give)
    detection._give(tmp_path, User(7, 7))
    assert len(given) == 4
    assert given[2:] == [tmp_path / "a", tmp_path]


class TestTheChoice:
    """Who runs a command, as told by the owner of the workspace."""

    @pytest.fixture(autouse=True)
    def root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr("sys.platform", "linux")

    def choose(
        self, monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, mode: str, *, limits: bool
    ) -> User | None:
        owner = os.stat_result((0o40755, 1, 1, 1, uid, gid, 0, 0, 0, 0))
        sandbox = Sandbox(mode)  # type: ignore[arg-type]
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", lambda _: owner)
            patch.setattr(pwd, "getpwuid", self.known)
            return User.of(sandbox, Workspace("/"), limits_processes=limits)

    def known(self, uid: int) -> pwd.struct_passwd:
        if uid != 9:
            raise KeyError(uid)
        return pwd.struct_passwd(("nine", "x", 9, 99, "", "/", "/bin/sh"))

    def test_is_the_owner_whatever_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for mode, limits in (("workspace-write", False), ("read-only", True)):
            assert self.choose(monkeypatch, 7, 8, mode, limits=limits) == User(7, 8)

    def test_is_never_in_the_group_of_root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.choose(monkeypatch, 7, 0, "read-only", limits=False) == User(7, 65534)

    def test_is_in_his_own_group_whoever_the_workspace_is_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for gid in (0, 8):
            assert self.choose(monkeypatch, 9, gid, "read-only", limits=False) == User(9, 99)

    def test_is_nobody_only_where_that_limits_and_nothing_is_written(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = [
            self.choose(monkeypatch, 0, 0, mode, limits=limits)
            for mode in ("read-only", "workspace-write")
            for limits in (True, False)
        ]
        assert chosen == [User(65534, 65534), None, None, None]

    def test_is_not_asked_of_others_or_elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.platform", "darwin")
        assert self.choose(monkeypatch, 7, 7, "read-only", limits=True) is None
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.setattr(os, "geteuid", lambda: 7)
        assert self.choose(monkeypatch, 7, 7, "read-only", limits=True) is None


def test_a_user_who_is_known_has_a_home(tmp_path: Path) -> None:
    ours = pwd.getpwuid(0)
    assert User(0, 0).environment("/t") == {"HOME": ours.pw_dir, "USER": "root", "LOGNAME": "root"}
    unknown = next(uid for uid in range(40_000, 50_000) if not is_known(uid))
    assert User(unknown, 1).environment("/t")["HOME"] == "/t"


def is_known(uid: int) -> bool:
    return any(entry.pw_uid == uid for entry in pwd.getpwall())


@ROOT
async def test_a_workspace_that_is_gone_is_told(owned: Held) -> None:
    await report(owned, BOUND)
    owned.root.rmdir()
    with pytest.raises(ToolError, match=r"could not be set up.*No such file"):
        await report(owned, BOUND)
    with pytest.raises(ToolError, match=r"could not be set up.*No such file"):
        await detection.confine(BOUND, owned.context.workspace).__aenter__()
