"""Move the fragments into CHANGELOG.md: python changelog.d/release.py 0.2.0.

A fragment is `changelog.d/<topic>.<kind>.md`; each of its lines is one change, as its line in the
changelog will be, without the dash.
"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
CHANGELOG = FOLDER.parent / "CHANGELOG.md"
KINDS = ("added", "changed", "fixed", "removed")


def fragments() -> dict[str, list[Path]]:
    """Return the fragments by kind; raise `ValueError` for a file that is none."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(FOLDER.glob("*.md")):
        name = re.fullmatch(r"[a-z0-9-]+\.(\w+)\.md", path.name)
        if name is None or name[1] not in KINDS:
            raise ValueError(f"{path}: call it <topic>.<kind>.md, with one of {', '.join(KINDS)}")
        found[name[1]].append(path)
    return found


def section(version: str) -> str:
    """Write the section of a release from the fragments."""
    parts = [f"## {version}\n"]
    for kind, paths in fragments().items():
        lines = [line for path in paths for line in path.read_text().splitlines() if line]
        if lines:
            parts.append(f"### {kind.capitalize()}\n\n" + "".join(f"- {line}\n" for line in lines))
    return "\n".join(parts)


def release(version: str) -> None:
    """Put the section above all others, and remove the fragments."""
    head, rule, older = CHANGELOG.read_text().partition("\n## ")
    CHANGELOG.write_text(f"{head}\n{section(version)}{rule}{older}")
    for paths in fragments().values():
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    release(sys.argv[1])
