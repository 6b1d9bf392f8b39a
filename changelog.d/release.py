"""Move the fragments into CHANGELOG.md, and set the version: python changelog.d/release.py 0.2.0.

The section gets the date of today, in UTC. If the changelog already has one of this version that is
"not released yet", that becomes the section, and the fragments come behind what stands there.
The first release has what was added alone: nobody had what was changed and mended before it.

A fragment is `changelog.d/<topic>.<kind>.md`; each of its lines is one change, as its line in the
changelog will be, without the dash.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent
CHANGELOG = FOLDER.parent / "CHANGELOG.md"
VERSION = FOLDER.parent / "greenroom" / "_version.py"
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


def list_changes(kinds: tuple[str, ...]) -> str:
    """Write what the fragments of these kinds say, by kind."""
    parts = []
    found = fragments()
    for kind in kinds:
        paths = found[kind]
        lines = [line for path in paths for line in path.read_text().splitlines() if line]
        if lines:
            parts.append(f"### {kind.capitalize()}\n\n" + "".join(f"- {line}\n" for line in lines))
    return "\n".join(parts)


def release(version: str) -> None:
    """Make the section of a version, set it, and remove the fragments."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is no version: write three numbers, as 0.2.0")
    heading = f"## {version} - {datetime.now(UTC).date()}"
    head, rule, older = CHANGELOG.read_text().partition("\n## ")
    is_first = not re.search(r"^## \d+\.\d+\.\d+( - |$)", f"## {older}", re.MULTILINE)
    changes = list_changes(("added",) if is_first else KINDS)
    if older.startswith(f"{version}, not released yet\n"):
        _, _, begun = older.partition("\n")
        begun, rule, older = begun.partition("\n## ")
        changes = f"{begun.strip()}\n\n{changes}".strip() + "\n"
    CHANGELOG.write_text(f"{head}\n{heading}\n\n{changes}{rule}{older}")
    VERSION.write_text(f'__version__ = "{version}"\n')
    for paths in fragments().values():
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    release(sys.argv[1])
