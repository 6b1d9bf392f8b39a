import errno
import os
import stat
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolError, WritePath
from greenroom.fs import real_file
from greenroom.tools import Read, Write
from greenroom.tools.builtin import edit as write, file_access as file_stamps
from greenroom.tools.builtin.file_access import FileStamps, Stamp


def test_a_new_file_is_made_with_its_folders(call, root: Path) -> None:
    result = call(Write(), file_path="a/b/c.txt", content="grün\n")
    assert (root / "a/b/c.txt").read_bytes() == "grün\n".encode()
    assert result.text == "created a/b/c.txt (6 bytes)"
    assert result.metadata["created"] is True
    assert "+grün" in result.metadata["diff"]


def test_a_new_file_gets_the_mode_of_the_umask(call, root: Path) -> None:
    before = os.umask(0o027)
    try:
        call(Write(), file_path="a.txt", content="")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640


def test_a_file_that_was_not_read_is_not_overwritten(call, root: Path) -> None:
    (root / "a.txt").write_text("old")
    with pytest.raises(ToolError, match=r"was not read yet .*Read it first"):
        call(Write(), file_path="a.txt", content="new")
    assert (root / "a.txt").read_text() == "old"


def test_a_file_that_was_read_is_replaced_and_keeps_its_mode(call, root: Path) -> None:
    (root / "run.sh").write_text("old\n")
    (root / "run.sh").chmod(0o751)
    call(Read(), file_path="run.sh")
    result = call(Write(), file_path="run.sh", content="new\n")
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o751
    assert result.metadata["created"] is False
    assert "-old\n+new" in result.metadata["diff"]
    call(Write(), file_path="run.sh", content="newer\n")
    assert (root / "run.sh").read_text() == "newer\n"


def test_a_file_that_changed_since_is_not_overwritten(call, root: Path) -> None:
    (root / "a.txt").write_text("old")
    call(Read(), file_path="a.txt")
    status = (root / "a.txt").stat()
    (root / "a.txt").write_text("new")
    # The same size and the same time: only the content tells.
    os.utime(root / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ToolError, match="has changed since it was read"):
        call(Write(), file_path="a.txt", content="mine")


def test_a_file_that_was_only_touched_has_not_changed(call, root: Path) -> None:
    (root / "a.txt").write_text("old")
    call(Read(), file_path="a.txt")
    os.utime(root / "a.txt", (1, 1))
    call(Write(), file_path="a.txt", content="new")
    assert (root / "a.txt").read_text() == "new"


def test_a_link_in_the_workspace_stays_a_link(call, root: Path) -> None:
    (root / "real.txt").write_text("old")
    (root / "link.txt").symlink_to("real.txt")
    call(Read(), file_path="link.txt")
    call(Write(), file_path="link.txt", content="new")
    assert (root / "link.txt").is_symlink()
    assert (root / "real.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("folder", "x", "is a folder"),
        ("new/", "x", "new/ names a folder"),
        ("file/below.txt", "x", "can't write file/below.txt: (Not a directory|File exists)"),
        ("x" * 300, "x", "File name too long"),
        ("a.txt", "\ud800", "not valid Unicode"),
    ],
)
def test_what_can_not_be_written_is_told(
    call, root: Path, path: str, content: str, message: str
) -> None:
    (root / "folder").mkdir()
    (root / "file").touch()
    with pytest.raises(ToolError, match=message):
        call(Write(), file_path=path, content=content)
    assert sorted(os.listdir(root)) == ["file", "folder"]


def test_a_link_to_itself_is_not_called_read_only(root: Path, context) -> None:
    (root / "one").symlink_to("other")
    (root / "other").symlink_to("one")
    with pytest.raises(ToolError, match="one: it is a link that leads back to itself"):
        trio.run(Write().precheck, {"file_path": "one", "content": "x"}, context)


def test_a_read_only_file_is_left_alone(call, root: Path, monkeypatch) -> None:
    (root / "a.txt").write_text("old")
    call(Read(), file_path="a.txt")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(ToolError, match="read-only"):
        call(Write(), file_path="a.txt", content="new")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_no_other(
    call, root: Path, monkeypatch, step: str
) -> None:
    (root / "a.txt").write_text("old")
    call(Read(), file_path="a.txt")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(real_file.os, step, fail)
    with pytest.raises(ToolError, match="No space left"):
        call(Write(), file_path="a.txt", content="new")
    monkeypatch.undo()
    assert os.listdir(root) == ["a.txt"]
    assert (root / "a.txt").read_text() == "old"


@pytest.mark.parametrize("permitted", [True, False])
def test_the_owner_is_kept_where_that_is_permitted(
    root: Path, monkeypatch, permitted: bool
) -> None:
    given: list[tuple[int, int]] = []

    def give(_: int, owner: int, group: int) -> None:
        if not permitted:
            raise PermissionError
        given.append((owner, group))

    monkeypatch.setattr(os, "fchown", give)
    status = list(root.stat())
    status[stat.ST_MODE], status[stat.ST_UID], status[stat.ST_GID] = 0o104755, 12345, 12345
    with (root / "a.txt").open("w") as file:
        real_file._copy_attributes(file.fileno(), os.stat_result(status))
    # Without the owner, the set-user-id bit would give away our own rights.
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == (0o4755 if permitted else 0o755)
    assert given == ([(12345, 12345)] if permitted else [])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_root_makes_in_the_folder_of_another_user_belongs_to_that_user(
    call, root: Path
) -> None:
    os.chown(root, 12345, 54321)
    call(Write(), file_path="a/b.txt", content="")
    owners = [
        ((each := path.stat()).st_uid, each.st_gid) for path in (root / "a", root / "a/b.txt")
    ]
    assert owners == [(12345, 54321)] * 2


def test_only_a_new_folder_that_is_empty_is_given_away(root: Path, monkeypatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(real_file, "_give_to_owner", lambda _, new: given.append(new))
    for name in ("empty", "full/below"):
        (root / name).mkdir(parents=True)
    (root / "link").symlink_to("empty")
    with real_file.open_parent(root / "x") as folder:
        for name in ("full", "link", "gone"):
            real_file._give_new_folder(folder, name)
        assert not given
        real_file._give_new_folder(folder, "empty")
    assert len(given) == (os.getuid() == 0)


def test_a_root_that_may_give_nothing_away_writes_all_the_same(
    call, root: Path, monkeypatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    if os.getuid() == 0:
        os.chown(root, 12345, 54321)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", refuse)
    call(Write(), file_path="a/b.txt", content="x")
    assert (root / "a/b.txt").read_text() == "x"


def test_a_prompt_shows_the_content_and_nothing_of_the_disk(
    root: Path, context: AgentContext
) -> None:
    (root / "secret").write_text("old\n")
    info = Write().info({"file_path": str(root / "secret"), "content": "new\n"})
    assert info.details == str(root / "secret")
    assert "+new" in info.diff
    assert "old" not in info.diff
    effects = Write().effects({"file_path": "a.txt", "content": ""}, context)
    assert effects == (WritePath("a.txt"),)


@pytest.mark.parametrize("name", ["漢" * 80, "x" * 255])
def test_the_longest_names_can_be_written(call, root: Path, name: str) -> None:
    call(Write(), file_path=name, content="x")
    assert os.listdir(root) == [name]


def test_a_file_that_somebody_makes_meanwhile_is_spared(call, root: Path, monkeypatch) -> None:
    def interfere(*_: object) -> None:
        (root / "a.txt").write_text("theirs")

    monkeypatch.setattr(real_file.os, "fsync", interfere)
    with pytest.raises(ToolError, match="not read yet"):
        call(Write(), file_path="a.txt", content="mine")
    assert (root / "a.txt").read_text() == "theirs"


@pytest.mark.parametrize("depth", ["folder", "folder/below"])
def test_a_link_that_takes_a_folders_place_leads_nowhere(
    call, root: Path, monkeypatch, depth: str
) -> None:
    (root / "folder/below").mkdir(parents=True)
    outside = root.parent / "outside"
    (outside / "below").mkdir(parents=True)
    resolve = write.resolve_and_show

    def swap(*arguments: object, **options: object) -> tuple[Path, str]:
        found = resolve(*arguments, **options)
        (root / "folder").rename(root / "moved")
        (root / "folder").symlink_to(outside)
        return found

    monkeypatch.setattr(write, "resolve_and_show", swap)
    with pytest.raises(ToolError, match="can't write"):
        call(Write(), file_path=f"{depth}/a.txt", content="x")
    assert list(outside.rglob("*.txt")) == []


def test_a_stamp_of_a_large_file_compares_time_and_size() -> None:
    assert Stamp(1, 2).same_content(Stamp(1, 2))
    assert not Stamp(1, 2).same_content(Stamp(2, 2))
    assert not Stamp(1, 2, b"x").same_content(Stamp(1, 3))
    assert Stamp.of(os.stat("/"), bytes(10_000_000)).digest
    assert not Stamp.of(os.stat("/"), bytes(10_000_001)).digest


def test_the_oldest_stamps_make_room(context: AgentContext, monkeypatch) -> None:
    monkeypatch.setattr(file_stamps, "_MAX_STAMPS", 2)
    stamps = FileStamps.of(context)
    for name in ("a", "b", "a", "c"):
        stamps.note(Path(name), Stamp(1, 1))
    stamps.check(Path("a"), Stamp(1, 1), "a")
    with pytest.raises(ToolError, match="not read yet"):
        stamps.check(Path("b"), Stamp(1, 1), "b")
