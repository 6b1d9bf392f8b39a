"""Notes for agents: `AGENTS.md` of a project and of the user, and where the agent works."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from greenroom.agents.project_text import (
    MAX_TEXT,
    ProjectText,
    read_project_text,
    read_user_text,
    user_folder,
)
from greenroom.agents.surroundings import describe_surroundings
from greenroom.core import ConfigurationError, Workspace

_NAMES = ("AGENTS.md", "CLAUDE.md")
_MOST = 2 * MAX_TEXT  # characters that reach the model of all notes of a project
_USERS, _PROJECTS = "The user's own instructions", "Instructions of this project"
_FOREIGN = "What this project says about itself"

_log = logging.getLogger("greenroom.agents")


@dataclass(frozen=True)
class ProjectNotes:
    """The notes that were found, as they were at that moment; `str()` is what the model is given.

    Attributes:
        texts: the user's own first, then the project's, from the workspace's root down.
        surroundings: date, platform and git branch.
        faults: files that are there and were not read, and why, a line each.
    """

    texts: tuple[ProjectText, ...] = ()
    surroundings: str = ""
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        left, found = _MOST, list[str]()
        for each in reversed(self.texts):  # what is nearest counts most
            room = MAX_TEXT if each.is_users else min(left, MAX_TEXT)
            left -= 0 if each.is_users else min(room, len(each.text.strip()))
            title = _USERS if each.is_users else _PROJECTS if each.is_trusted else _FOREIGN
            found.append(each.describe(title, room))
        return "\n\n".join(filter(None, (*reversed(found), self.surroundings)))


def project_notes(workspace: Workspace | str | Path) -> str:
    """Return what an agent should know before it works in a folder, for its instructions.

    That is `AGENTS.md`, or `CLAUDE.md` in a folder that has only this one, from the workspace's root
    down to the working folder; before it the user's own `AGENTS.md`, from the configuration folder
    (`~/.config/greenroom`); after it the date, the platform and the git branch. What a project says
    is marked as such, line by line, unless the user has agreed to the file with
    `greenroom permissions trust`.

    Read it once and pass the same text with each request: so the provider's prompt cache holds. It
    reads files: in an event loop call it in a thread. Of one file 32,000 characters are kept, of a
    project's together 64,000; what is cut says so. What can't be read is left out and logged.

    Example:
        >>> print(project_notes("/nonexistent").splitlines()[0])
        # Surroundings at the start of this run
    """
    notes = read_notes(workspace)
    for fault in notes.faults:
        _log.warning("%s", fault)
    return str(notes)


def read_notes(workspace: Workspace | str | Path) -> ProjectNotes:
    """Read the notes of a workspace and of the user. It blocks: call it in a thread."""
    if not isinstance(workspace, Workspace):
        workspace = Workspace(workspace)
    texts, faults = list[ProjectText](), list[str]()
    for folder, root in ((user_folder(), None), *_folders(workspace)):
        try:
            found = _read(folder, root)
        except ConfigurationError as error:
            faults.append(error.message)
        else:
            texts += [found] if found is not None else []
    surroundings = describe_surroundings(workspace.cwd)
    return ProjectNotes(tuple(texts), surroundings, tuple(faults))


def _folders(workspace: Workspace) -> list[tuple[Path, Path]]:
    """Return the folders from the root to the working folder, each with the root."""
    root, cwd = workspace.root, workspace.cwd
    inside = cwd if cwd.is_relative_to(root) else root
    folders = [each for each in (inside, *inside.parents) if each.is_relative_to(root)]
    return [(each, root) for each in reversed(folders)]


def _read(folder: Path, root: Path | None) -> ProjectText | None:
    """Read the note of a folder: of the first name that is there, even if nothing is in it."""
    for name in _NAMES:
        path = folder / name
        if os.path.lexists(path):
            return read_user_text(path) if root is None else read_project_text(path, root)
    return None
