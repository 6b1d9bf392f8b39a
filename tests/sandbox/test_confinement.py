"""A confinement: what stands around a command, tier by tier, and what is left of it at the end."""

import stat
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolError, Workspace
from greenroom.sandbox import confinement, detection
from greenroom.sandbox.confinement import open_confinement
from greenroom.sandbox.report import Mechanisms, report_on
from greenroom.sandbox.resolved_policy import PolicyPaths
from greenroom.sandbox.wrappers import bubblewrap_command, seatbelt_profile
from greenroom.tools import Bash, Sandbox
from tests.sandbox.held import Held

GROUND = PolicyPaths("/ws", ("/ws",), ("/ws/.git",), ("/home/secret",), ("/opt/python",))


async def test_macos_runs_the_command_under_its_profile(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in the place of `sandbox-exec` that keeps the profile and runs the command."""
    stand_in = tmp_path / "sandbox-exec"
    stand_in.write_text(
        f'#!/bin/sh\n[ "$1" = -p ] && echo "$2" > {tmp_path}/profile\nshift 2\nexec "$@"\n'
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(detection, "_mechanisms", [Mechanisms("seatbelt", str(stand_in))])
    context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(root))
    tool = Bash(sandbox=Sandbox("workspace-write", "all"))
    result = await tool.execute({"command": "cd /; echo $TMPDIR; cd $OLDPWD; pwd"}, context)
    temporary, cwd = result.text.splitlines()[:2]
    assert cwd == str(root)
    ground = PolicyPaths.of(tool.sandbox, context.workspace, ())
    profile = (tmp_path / "profile").read_text()
    assert profile == seatbelt_profile(ground, temporary, network=True) + "\n"
    assert result.metadata["sandbox"]["tier"] == "seatbelt"  # type: ignore[index]


def test_in_a_profile_the_most_specific_line_is_the_last() -> None:
    ground = PolicyPaths(
        cwd="/home/me/ws",
        writable=("/home/me/ws",),
        protected=("/home/me/ws/.git",),
        hidden=("/home/me", "/home/me/ws/secret"),
        readable=("/home/me/python",),
    )
    lines = seatbelt_profile(ground, "/private/t", network=True).splitlines()
    order = [
        '(deny file-read* file-write* (subpath "/home/me"))',
        '(allow file-read* file-write* (subpath "/home/me/ws"))',
        '(allow file-read* (subpath "/home/me/python"))',
        '(deny file-write* (subpath "/home/me/ws/.git"))',
        '(deny file-read* file-write* (subpath "/home/me/ws/secret"))',
    ]
    assert [line for line in lines if line in order] == order
    assert "(deny network*)" not in lines


def test_a_path_can_not_break_out_of_its_line() -> None:
    ground = PolicyPaths("/ws", ('/ws/"))(allow file-write* (subpath "/',), (), ("/a\\",), ())
    lines = seatbelt_profile(ground, "/t", network=False).splitlines()
    assert (
        '(allow file-read* file-write* (subpath "/ws/\\"))(allow file-write* (subpath \\"/"))'
        in lines
    )
    assert '(deny file-read* file-write* (subpath "/a\\\\"))' in lines


def position(words: list[str], *sought: str) -> int:
    return next(i for i in range(len(words)) if tuple(words[i : i + len(sought)]) == sought)


def test_bubblewrap_mounts_what_is_more_specific_later() -> None:
    words = bubblewrap_command("bwrap", GROUND, unreadable="/none")
    base = position(words, "--ro-bind", "/", "/")
    temporary = position(words, "--tmpfs", "/tmp")
    workspace = position(words, "--bind", "/ws", "/ws")
    protected = position(words, "--ro-bind", "/ws/.git", "/ws/.git")
    assert base < temporary < protected
    assert base < workspace < protected
    assert position(words, "--ro-bind", "/none", "/home/secret") > base
    assert position(words, "--cap-drop", "ALL") < base
    for sealed in ("/dev", "/proc", "/run"):
        assert position(words, "--remount-ro", sealed) > workspace
    assert words[-3:] == ["--seccomp", "18", "--"]
    assert "--share-net" not in words
    assert position(words, "--unshare-all", "--die-with-parent") < base


def test_where_the_command_becomes_another_user_all_is_apart_but_users() -> None:
    words = bubblewrap_command("bwrap", GROUND, unreadable="/none", becomes_user=True)
    kinds = [word.removeprefix("--unshare-") for word in words if word.startswith("--unshare-")]
    assert kinds == ["ipc", "pid", "uts", "cgroup-try", "net"]
    assert [words[i + 1] for i, word in enumerate(words) if word == "--cap-add"] == [
        "CAP_SETGID",
        "CAP_SETUID",
    ]
    assert "--die-with-parent" in words
    with_network = bubblewrap_command(
        "bwrap", GROUND, unreadable="/none", network=True, becomes_user=True
    )
    assert "--unshare-net" not in with_network
    assert "--share-net" not in with_network


def test_bubblewrap_shows_what_a_command_needs_of_hidden_folders(tmp_path: Path) -> None:
    needed = tmp_path / "needed"
    needed.touch()
    ground = PolicyPaths(
        "/ws", ("/ws",), (), (str(tmp_path),), (str(needed), str(tmp_path / "gone"))
    )
    words = bubblewrap_command("bwrap", ground, unreadable="/none", network=True, has_filter=False)
    hidden = position(words, "--tmpfs", str(tmp_path))
    assert position(words, "--ro-bind", str(needed), str(needed)) > hidden
    assert str(tmp_path / "gone") not in words
    assert position(words, "--remount-ro", str(tmp_path)) > hidden
    assert "--share-net" in words
    assert "--seccomp" not in words


async def test_what_can_not_be_made_is_told_and_what_was_made_goes(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def refuse(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(confinement.Cgroup, "make", refuse)
    sandbox, way = Sandbox(), Mechanisms("limits")
    held = open_confinement(sandbox, way, report_on(sandbox, way), Workspace(root))
    with pytest.raises(ToolError, match=r"could not be set up.*No space left"):
        await held.__aenter__()
    assert [path.name for path in tmp_path.iterdir()] == ["workspace"]


async def test_folders_that_were_closed_are_removed_as_well(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o500)
    place = tmp_path / "places"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    command = f"cd $TMPDIR; mkdir -p a/b; touch a/b/c; ln -s {kept} a/way; chmod 0 a/b a"
    await held.run(command)
    assert not list(place.iterdir())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o500


def test_the_model_is_told_beforehand() -> None:
    told = Bash(sandbox=Sandbox("read-only")).description.splitlines()[-1]
    assert told == "- Commands run in a sandbox: only $TMPDIR can be written, no network."
    assert "sandbox" not in Bash().description


async def test_a_cancel_before_it_runs_leaves_nothing(held: Held) -> None:
    with trio.move_on_after(0):
        await held.run("echo x > made")
    assert not list(held.root.iterdir())


async def test_the_place_of_the_shell_is_handed_over(held: Held) -> None:
    await held.run("mkdir -p a/b; cd a/b")
    assert held.context.workspace.cwd == held.root / "a" / "b"
    assert (await held.run("pwd")).text.splitlines()[0] == str(held.root / "a" / "b")


async def test_output_comes_as_it_is_written(held: Held) -> None:
    result = await held.run("echo one; echo two >&2; exit 3")
    assert result.text.startswith("one\ntwo\n[exit code 3]")
    assert (
        "it ran in a sandbox: only the workspace and $TMPDIR can be written, no network"
        in result.text
    )


async def test_two_commands_at_once_protect_the_same_names(held: Held) -> None:
    async def attack(number: int) -> None:
        await held.run(f"sleep 0.{number}; mkdir -p .git/hooks && echo x > .git/hooks/{number}")

    async with trio.open_nursery() as nursery:
        for number in (1, 3):
            nursery.start_soon(attack, number)
    assert (held.root / ".git").exists() == await held.is_missing("protected")
