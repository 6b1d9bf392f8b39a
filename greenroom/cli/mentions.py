"""Files that an input names: `@path`, `@path#L2-4`, `@folder`, `@"a b.png"`.

What is named is sent with the input: a file's text, the names in a folder, a picture as it is. A
word that names nothing stays text. What a rule denies to Read is not sent, and that is said.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import trio

from greenroom.core import (
    AgentContext,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    RuleDecision,
    TextBlock,
    Workspace,
)
from greenroom.core._internal import clip, compile_later
from greenroom.permissions import PermissionManager
from greenroom.tools import ToolRegistry

MAX_FILES = 50
"""Files of one input that are sent."""
_MAX_TEXT = 200_000  # letters of a file
_MAX_NAMES = 500  # of a folder
# Completion leaves a blank behind a path, so its lines may stand behind one.
_MENTION = compile_later(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"]+))(?: ?(#L\d+(?:-L?\d+)?)\b)?')
_LINES = compile_later(r"#L(\d+)(?:-L?(\d+))?$")


class Mention(msgspec.Struct, frozen=True):
    """A place in the file system that an input names.

    Attributes:
        label: as the input names it.
        path: where that is.
        first: the first line to send, from 1; 0 for all.
        last: the last line to send.
    """

    label: str
    path: Path
    first: int = 0
    last: int = 0


def find_mentions(text: str, root: Path) -> Iterator[Mention]:
    """Find what a text names that exists, each place once; it blocks.

    Example:
        >>> [mention.label for mention in find_mentions("see @/ and @nothing", Path("/"))]
        ['/']
    """
    seen = set[str]()
    for found in _MENTION.finditer(text):
        for label in _readings(found[1], found[2], found[3] or ""):
            lines = _LINES.search(label)
            name = label[: lines.start()] if lines else label
            path = root / os.path.expanduser(name)
            if label not in seen and os.path.lexists(path):
                seen.add(label)
                first = int(lines[1]) if lines else 0
                last = int(lines[2] or lines[1]) if lines else 0
                yield Mention(label, path, first, last)
                break


def _readings(quoted: str | None, word: str | None, lines: str) -> Sequence[str]:
    """Return what a name may mean: itself, and without the stop of a sentence behind it."""
    if quoted:
        return (f"{quoted}{lines}",)
    bare = word.rstrip(".,;:!?)") if word else ""
    return tuple(dict.fromkeys(f"{each}{lines}" for each in (word, bare) if each))


class MentionReader:
    """Reads what an input names, as far as the rules let the model read it."""

    def __init__(
        self, permissions: PermissionManager, tools: ToolRegistry, context: AgentContext
    ) -> None:
        self._permissions = permissions
        self._tools = tools
        self._context = context

    async def read(self, text: str) -> tuple[list[ContentBlock], list[str]]:
        """Return what to send with a text, and what to tell the person."""
        if "@" not in text:
            return [], []
        root = self._context.workspace.root
        find = partial(_find_all, text, root)
        mentions = await trio.to_thread.run_sync(find)
        blocks, notes = list[ContentBlock](), list[str]()
        for each in mentions[:MAX_FILES]:
            if await trio.to_thread.run_sync(self._is_denied, each.path):
                notes.append(f"not sent: {each.label}: a rule denies reading it")
                continue
            found = await self._read_one(each)
            if isinstance(found, str):
                notes.append(f"not sent: {each.label}: {found}")
            else:
                blocks += found
        if len(mentions) > MAX_FILES:
            notes.append(f"only the first {MAX_FILES} files were sent")
        return blocks, notes

    def _is_denied(self, path: Path) -> bool:
        tool = self._tools.get("Read") or "Read"
        verdict = self._permissions.judge(tool, {"file_path": str(path)}, self._context)
        rule = verdict.rule
        is_by_rule = rule is not None and rule.decision is RuleDecision.DENY
        return verdict.decision is RuleDecision.DENY and is_by_rule

    async def _read_one(self, mention: Mention) -> list[ContentBlock] | str:
        """Return the content of a place, or why there is none."""
        if await trio.to_thread.run_sync(os.path.isdir, mention.path):
            names = await trio.to_thread.run_sync(self._list_names, mention.path)
            return [TextBlock(_wrap("folder", mention.label, names))]
        from greenroom.tools._internal import look_at  # most inputs name no file

        look = await trio.to_thread.run_sync(lambda: look_at(Path(os.path.realpath(mention.path))))
        if look.content is None:
            return look.state.problem or "it is not a file"
        try:
            text = look.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return await self._read_other(mention)
        if "\0" in text:
            return await self._read_other(mention)
        return [TextBlock(_wrap("file", mention.label, _cut(text, mention)))]

    async def _read_other(self, mention: Mention) -> list[ContentBlock] | str:
        """Read a picture, a PDF or a text in another encoding, as the tool does."""
        path = str(await trio.Path(mention.path).resolve())
        # The person has named it, wherever it is.
        context = replace(self._context, allowed_paths=(path,))
        result = await self._tools.execute("Read", {"file_path": path}, context)
        if result.is_error:
            return result.text.partition("\n")[0]
        found = [
            each
            for each in result.content
            if isinstance(each, TextBlock | ImageBlock | DocumentBlock)
        ]
        return [TextBlock(f"The file {mention.label}:"), *found]

    def _list_names(self, folder: Path) -> str:
        names = [
            f"{entry.name}/" if entry.is_dir() else entry.name
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)[:_MAX_NAMES]
            if not self._is_denied(Path(entry.path))
        ]
        return "\n".join(names)


def _find_all(text: str, root: Path) -> list[Mention]:
    return list(find_mentions(text, root))


def _cut(text: str, mention: Mention) -> str:
    if mention.first:
        text = "".join(text.splitlines(keepends=True)[mention.first - 1 : mention.last])
    return clip(text, _MAX_TEXT)


def _wrap(kind: str, label: str, text: str) -> str:
    end = "" if text.endswith("\n") or not text else "\n"
    return f'<{kind} path="{label}">\n{text}{end}</{kind}>'


def agent_context(session_id: str, workspace: Path) -> AgentContext:
    """Return the context in which a run's agent would act, for what the person does instead."""
    return AgentContext(session_id=session_id, agent_type="coder", workspace=Workspace(workspace))
