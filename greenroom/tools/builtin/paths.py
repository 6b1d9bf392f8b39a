"""Where file tools may go: the workspace, on resolved paths, and what was allowed beyond it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from greenroom.core import AgentContext, ToolError
from greenroom.tools.spill import SpillFolder


def resolve(path: str, context: AgentContext, *, writes: bool = False) -> Path:
    """Return the real path that `path` means for this agent. Reads the disk: call it in a thread.

    Where long results lie may be read, not written.

    Raises:
        ToolError: it leads out of the workspace (through `..`, a symbolic link, or as it stands)
            and is not allowed; or it is no path.
    """
    try:
        real = Path(os.path.realpath(context.workspace.absolute(path)))
    except (OSError, ValueError, RuntimeError) as error:
        raise ToolError(f"{path!r} is not usable as a path: {error}") from error
    if is_inside(real, context) or (not writes and _is_spilled(real, context)):
        return real
    raise ToolError(
        f"{path} is outside the workspace {context.workspace.root}",
        hint="work inside the workspace, or ask the user to allow this path",
    )


def resolve_and_show(path: str, context: AgentContext, *, writes: bool = False) -> tuple[Path, str]:
    """Return the real path as `resolve` does, and as `shown` writes it. Call it in a thread.

    Raises:
        ToolError: as `resolve`.
    """
    real = resolve(path, context, writes=writes)
    return real, shown(real, real_cwd(context))


def is_inside(real: Path, context: AgentContext) -> bool:
    """Whether a real path is in the workspace, or allowed beyond it."""
    root = Path(os.path.realpath(context.workspace.root))
    return any(real.is_relative_to(path) for path in (root, *context.allowed_paths))


def _is_spilled(real: Path, context: AgentContext) -> bool:
    spill = context.resources.get(SpillFolder)
    folders = (context.spill_folder, spill.path if spill else "")
    # A link in the place of the folder would open up wherever it leads.
    ours = [os.path.realpath(each) for each in folders if each and not os.path.islink(each)]
    return any(real.is_relative_to(folder) for folder in ours)


def real_cwd(context: AgentContext) -> Path:
    """Return the agent's working directory, symbolic links resolved. Call it in a thread."""
    return Path(os.path.realpath(context.workspace.cwd))


def shown(path: Path, cwd: Path) -> str:
    """Write a real path as one would from the real working directory, where it lies below it."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Turn what the system refuses into a `ToolError` that says what was tried, where, and why."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"can't {action} {path}: {error.strerror or error}") from error
