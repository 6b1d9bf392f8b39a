"""What a question's digest says of the files that a command names: bounded, and without a wait."""

import os
import socket

import pytest
import trio

from greenroom.core import AgentContext, ReadPath, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from tests.permissions.test_digest import Stated


def explain(folder, command, rules=()):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(folder))
    return PermissionManager(rules).explain("Bash", {"command": command}, context)


def digest(folder, command, rules=()):
    return explain(folder, command, rules).digest


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, make_socket, lambda path: path.symlink_to("/dev/tty")])
@pytest.mark.parametrize("command", ["frob x", "frob *", "frob < x", "./x", "frob link"])
async def test_what_is_no_regular_file_is_never_opened(tmp_path, make, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "x")
    (tmp_path / "link").symlink_to("x")
    with trio.fail_after(60):
        found = await trio.to_thread.run_sync(digest, tmp_path, command, abandon_on_cancel=True)
    os.remove(tmp_path / "x")
    (tmp_path / "x").write_text("a file")
    assert digest(tmp_path, command) != found


def test_what_the_system_makes_up_anew_does_not_count():
    command = "frob /proc/uptime /proc/self/stat /proc/kmsg"
    assert digest("/", command) == digest("/", command)


def test_a_folder_is_not_looked_into_deeply(tmp_path):
    (tmp_path / "sub/below").mkdir(parents=True)
    before = digest(tmp_path, "frob sub")
    (tmp_path / "sub/below/new").touch()
    assert digest(tmp_path, "frob sub") == before


def test_where_a_rule_decides_no_file_is_looked_at(tmp_path):
    (tmp_path / "run.sh").touch()
    for rule in (PermissionRule.allow_all(), PermissionRule.deny_command("bash")):
        before = digest(tmp_path, "bash run.sh", [rule])
        (tmp_path / "run.sh").write_text(rule.id)
        assert digest(tmp_path, "bash run.sh", [rule]) == before


def test_a_call_that_runs_nothing_is_told_by_its_paths_alone(tmp_path):
    (tmp_path / "a").touch()
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    tool = Stated(ReadPath("a"))
    before = PermissionManager().explain(tool, {}, context)
    (tmp_path / "a").write_text("changed")
    assert PermissionManager().explain(tool, {}, context).digest == before.digest


def test_a_file_that_can_not_be_read_is_told_by_its_size_and_time(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0)
    before = digest(tmp_path, "frob a")
    os.utime(tmp_path / "a", ns=(0, 0))
    assert digest(tmp_path, "frob a") != before


def test_what_lies_behind_the_first_megabyte_changes_it_by_time(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(bytes(2 << 20))
    before, status = digest(tmp_path, "frob long"), path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(tmp_path, "frob long") != before


@pytest.mark.parametrize(("count", "size"), [(99, 0), (15, 1 << 20), (1, 100 << 20)])
def test_what_can_be_compared_may_be_remembered(tmp_path, count, size):
    names = [f"{number}.c" for number in range(count)]
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    found = explain(tmp_path, f"frob {' '.join(names)}")
    assert (bool(found.remembers), found.unremembered) == (True, "")


def test_a_command_of_many_words_is_looked_at_as_far_as_that_is_bounded(tmp_path):
    found = explain(tmp_path, "frob " + " ".join(f"w{number}" for number in range(20_000)))
    assert "more than 10,000 names" in found.unremembered
