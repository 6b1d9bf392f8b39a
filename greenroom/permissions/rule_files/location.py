"""Where remembered rules are kept."""

import os
import sys
from pathlib import Path

from greenroom.core import AgentContext, Remember

__all__ = ["remembered_path", "user_rules_path"]

_FILE = "permissions.json"


def user_rules_path() -> Path:
    """Return the user's own rule file, which holds in every project."""
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/greenroom").expanduser() / _FILE
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()
    return folder / "greenroom" / _FILE


def remembered_path(lifetime: Remember, context: AgentContext) -> Path | None:
    """Return the file for rules of this lifetime, or None for those that live in memory only."""
    project = context.workspace.root / ".greenroom" / _FILE
    return {"session": None, "project": project, "always": user_rules_path()}[lifetime]
