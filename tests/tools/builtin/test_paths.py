import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolError, ToolResult, Workspace
from greenroom.tools import Edit, Glob, Grep, Read, Write
from greenroom.tools.builtin.file_access import os_errors, resolve, resolve_and_show, show_path
from greenroom.tools.execution import SpillFolder

CALLS = {
    "Read": lambda path: (Read(), {"file_path": path}),
    "Write": lambda path: (Write(), {"file_path": path, "content": "x"}),
    "Glob": lambda path: (Glob(), {"pattern": "*", "path": path}),
    "Grep": lambda path: (Grep(), {"pattern": "x", "path": path}),
}


@pytest.fixture
def outside(root: Path) -> Path:
    folder = root.parent / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret\n")
    (root / "link").symlink_to(folder)
    (root / "file-link.txt").symlink_to(folder / "secret.txt")
    (root / "dangling").symlink_to(folder / "new.txt")
    return folder


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    "path", ["../outside", "link", "file-link.txt", "dangling", "/", "~", "{outside}"]
)
def test_no_way_leads_out_of_the_workspace(call, outside: Path, tool: str, path: str) -> None:
    instance, data = CALLS[tool](path.format(outside=outside))
    with pytest.raises(ToolError, match="outside the workspace"):
        call(instance, **data)
    assert sorted(os.listdir(outside)) == ["secret.txt"]


@pytest.mark.parametrize("path", ["a\0b", "~nobody-of-this-name/x"])
def test_what_is_no_path_is_refused(context: AgentContext, path: str) -> None:
    with pytest.raises(ToolError, match="not usable as a path"):
        resolve(path, context)


def test_an_allowed_file_or_folder_is_reached_even_by_a_link(
    call, context: AgentContext, outside: Path
) -> None:
    context.allowed_paths = (outside / "secret.txt",)
    result: ToolResult = call(Read(), file_path="file-link.txt")
    assert "secret" in result.text
    with pytest.raises(ToolError, match="outside"):
        call(Write(), file_path="dangling", content="x")
    context.allowed_paths = (str(outside),)
    call(Write(), file_path="dangling", content="x")
    assert (outside / "new.txt").read_text() == "x"


def test_long_results_of_the_agent_can_be_read(call, context: AgentContext, tmp_path: Path) -> None:
    (tmp_path / "spilled").mkdir()
    (tmp_path / "spilled" / "one.txt").write_text("one")
    context.spill_folder = str(tmp_path / "spilled")
    temporary = SpillFolder()
    context.resources.insert(temporary)
    (temporary.path / "two.txt").write_text("two")
    assert "one" in call(Read(), file_path=str(tmp_path / "spilled" / "one.txt")).text
    assert "two" in call(Read(), file_path=str(temporary.path / "two.txt")).text
    temporary.close()


def test_a_link_in_the_place_of_long_results_opens_nothing_up(
    call, context: AgentContext, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (tmp_path / "output").symlink_to("private")
    context.spill_folder = str(tmp_path / "output")
    for way in ("private", "output"):
        with pytest.raises(ToolError, match="outside"):
            call(Read(), file_path=str(tmp_path / way / "key"))


def test_a_workspace_behind_a_link_is_the_workspace(context: AgentContext, root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    context.workspace.root = context.workspace.cwd = alias
    assert resolve_and_show("a.txt", context) == (root / "a.txt", "a.txt")


def test_a_path_is_shown_from_the_working_directory(root: Path) -> None:
    assert show_path(root / "sub" / "x", root / "sub") == "x"
    assert show_path(root / "y", root / "sub") == str(root / "y")


def test_what_the_system_refuses_is_told_in_words() -> None:
    with pytest.raises(ToolError, match=r"can't read a\.txt: No space left"):
        with os_errors("read", "a.txt"):
            raise OSError(28, "No space left on device")


def test_two_event_loops_read_side_by_side(root: Path) -> None:
    (root / "a.txt").write_text("x\n" * 1_000)

    read = []

    async def read_once(context: AgentContext) -> None:
        read.append((await Read().execute({"file_path": "a.txt"}, context)).text)

    async def read_much() -> None:
        context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(root))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(read_once, context)

    with ThreadPoolExecutor(2) as threads:
        for loop in [threads.submit(trio.run, read_much) for _ in range(2)]:
            loop.result()
    assert len(read) == 200
    assert len(set(read)) == 1


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("me", "me is a link that leads back to itself"),
        ("one", "one is a link that leads back to itself"),
        ("gone", "gone is a link to nowhere, which does not exist"),
        ("gone/below", "gone is a link to nowhere, which does not exist"),
    ],
)
def test_a_link_that_leads_nowhere_is_called_one(call, root: Path, path: str, why: str) -> None:
    for name, target in {"me": "me", "one": "two", "two": "one", "gone": "nowhere"}.items():
        (root / name).symlink_to(target)
    calls = [
        (Read(), {"file_path": path}),
        (Edit(), {"file_path": path, "old_string": "a", "new_string": "b"}),
        (Grep(), {"pattern": "x", "path": path}),
        (Glob(), {"pattern": "*", "path": path}),
    ]
    for tool, data in calls:
        with pytest.raises(ToolError, match=why):
            call(tool, **data)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x1b[2Kb", "a\u2028b", "a\x9bb", "a\tb"])
def test_no_name_breaks_or_moves_the_line(call, root: Path, name: str) -> None:
    (root / name).write_text("needle\n")
    shown = name.encode("unicode_escape").decode()
    for use_ripgrep in (True, False):
        assert call(Glob(use_ripgrep=use_ripgrep), pattern="a*").text == shown
        assert call(Grep(use_ripgrep=use_ripgrep), pattern="needle").text == shown
    call(Read(), file_path=name)
    edited = call(Edit(), file_path=name, old_string="needle", new_string="x").text
    assert edited.startswith(f"edited {shown}: 1 replaced\n--- {shown}\n+++ {shown}\n")
