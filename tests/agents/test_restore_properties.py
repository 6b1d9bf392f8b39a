"""Whatever tools and others do, a restore undoes or lists what tools did, and nothing else."""

import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import trio
from hypothesis import given, settings, strategies as st

from greenroom.agents import FileCheckpoints
from greenroom.core import (
    AgentContext,
    Message,
    Opaque,
    ToolResult,
    ToolUseBlock,
    Workspace,
    WritePath,
)
from greenroom.session import AgentSession, FileStore
from greenroom.tools import ToolRegistry, tool
from tests.conftest import few

NAMES = ("a", "b", "d/a", "d/e/a", "new\nline", "ignored/a", ".gitignore")


@tool
async def anything() -> None:
    """Stand for any tool."""


ANYTHING = ToolRegistry([anything]).get("anything")


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write(root, name, text):
    path = root / name
    for above in reversed(path.relative_to(root).parents[:-1]):
        if (root / above).is_symlink() or (root / above).is_file():
            (root / above).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    if path.is_symlink():
        path.unlink()
    path.write_text(text)


def change(root, kind, name, other, text):
    """Change one thing in the workspace, as far as that is possible there."""
    path, elsewhere = root / name, root / other
    if kind == "write":
        write(root, name, text)
    elif kind == "append" and path.is_file() and not path.is_symlink():
        with path.open("a") as file:
            file.write(text)
    elif kind == "remove":
        remove(path)
    elif kind == "mode" and path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o100)
    elif kind == "link" and path.parent.is_dir() and not path.exists():
        remove(path)
        path.symlink_to(text)
    elif kind == "move" and path.is_file() and elsewhere.parent.is_dir():
        if not elsewhere.is_dir():
            path.rename(elsewhere)
    elif kind == "folder" and path.parent.is_dir():
        remove(path)
        path.mkdir()


def look(root):
    """Return every file and link: what it holds, and its mode."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = "link", str(path.readlink()), 0
        elif path.is_file():
            found[name] = "file", path.read_bytes(), path.stat().st_mode & 0o7777
    return found


def find_differences(before, after):
    return {path for path in before | after if before.get(path) != after.get(path)}


class Story:
    """A session whose calls are played by hand, and the workspace at each of its messages."""

    def __init__(self, folder):
        self.root = folder / "workspace"
        self.root.mkdir()
        (self.root / ".gitignore").write_text("ignored/\n")
        write(self.root, "a", "at first")
        write(self.root, "ignored/a", "at first")
        self.session = AgentSession.new("story", store=FileStore(folder / "sessions"))
        context = AgentContext(session_id="s", agent_type="story", workspace=Workspace(self.root))
        agent = SimpleNamespace(
            session=self.session, context=context, cleanup=lambda _: nullcontext()
        )
        self.checkpoints = FileCheckpoints(agent)
        self.places = []  # for each message: how many calls came before it
        self.left = {}  # what calls have left of each path that they changed
        self.touched = []  # for each call: the paths that it changed, and what they were before

    def add(self, message):
        self.session.add_message(message)
        self.places.append(len(self.touched))

    async def calls(self, changes, *, named):
        """Run a call that makes these changes, having named what it writes or not."""
        self.add(Message.user("go"))
        self.add(Message.assistant([ToolUseBlock("t", "anything", {})]))
        effects = [WritePath(name) for _, name, _, _ in changes] if named else [Opaque("")]
        before = look(self.root)
        async with self.checkpoints.around([("t", ANYTHING, effects)]):
            await self.session.save()
            for kind, name, other, text in changes:
                change(self.root, kind, name, other, text)
            after = look(self.root)
            self.note(before, after)
            self.add(Message.user([ToolResult.ok("done").block("t")]))
        await self.session.save(flush=False)

    async def rewind(self, to, *, files):
        to = min(to, len(self.places))
        calls = self.touched[self.places[to - 1] if to else 0 :]
        plan = await FileCheckpoints.plan_restore(self.session, to, self.root)
        await self.session.rewind(to)
        del self.places[to:]
        if len(self.session.history) > to:  # a call was parted from its result, and answered anew
            self.places.append(len(self.touched))
        if files:
            await self.check(plan, calls)

    async def check(self, plan, calls):
        wanted = {path: state for call in reversed(calls) for path, state in call.items()}
        before = look(self.root)
        report = await plan.apply()
        after = look(self.root)
        assert find_differences(before, after) <= set(wanted), "tools had never touched it"
        for path in find_differences(before, after):
            assert before.get(path) == self.left[path], "someone else had changed it since"
        listed = {each.path for each in plan.files if each.action in ("leave", "lost")}
        listed |= set(report.failed)
        if not plan.gaps:
            wrong = {path for path in wanted if after.get(path) != wanted[path]}
            assert {path for path in wrong if not path.startswith("ignored")} <= listed
        assert find_differences(before, after) <= set(report.restored)
        # What was done is a change like any other, for whoever goes back further.
        self.note(before, after)

    def note(self, before, after):
        paths = find_differences(before, after)
        self.touched.append({path: before.get(path) for path in paths})
        self.left.update((path, after.get(path)) for path in paths)


changes = st.tuples(
    st.sampled_from(("write", "append", "remove", "mode", "link", "move", "folder")),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(("one", "two", "three")),
)
writes = st.tuples(
    st.just("write"),
    st.sampled_from(("a", "b", "c", "ignored/a")),
    st.just(""),
    st.text("xy", min_size=1, max_size=3),
)
steps = st.one_of(
    st.tuples(st.just("command"), st.lists(changes, min_size=1, max_size=4)),
    st.tuples(st.just("named"), st.lists(writes, min_size=1, max_size=2)),
    st.tuples(st.just("other"), st.lists(changes, min_size=1, max_size=2)),
    st.tuples(st.just("restore"), st.integers(0, 12)),
    st.tuples(st.just("rewind"), st.integers(0, 12)),
)


async def play(story, script):
    for kind, what in script:
        if kind in ("command", "named"):
            await story.calls(what, named=kind == "named")
        elif kind == "other":
            for each in what:
                change(story.root, *each)
        else:
            await story.rewind(what, files=kind == "restore")
    await story.rewind(0, files=True)


@settings(max_examples=few(60))
@given(st.lists(steps, min_size=1, max_size=7))
def test_what_tools_did_is_undone_or_listed_and_nothing_else_is_touched(script):
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        trio.run(play, story, script)
