"""What `greenroom sessions rewind --files` tells of files, before it asks and when it is done."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import counted, one_line
from greenroom.cli.run.folders import working_folder
from greenroom.cli.streams.output_writer import OutputWriter
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.agents import RestorePlan, RestoreReport

_WORDS = {
    "write": "write back   ",
    "delete": "delete       ",
    "leave": "leave        ",
    "lost": "can't restore",
}


def folder_of(session: AgentSession) -> Path:
    """Return the folder that the session was used in last; the working directory if it is unknown.

    Raises:
        ConfigurationError: it is unknown, and the working directory is gone.
    """
    told = session.get_metadata("workspace")
    return Path(told) if isinstance(told, str) else working_folder()


async def show_plan(plan: "RestorePlan", page: OutputWriter) -> None:
    """Print what would become of each file, and what is not known.

    Raises:
        OSError: it can't be written.
    """
    if not plan.files and not plan.gaps:
        await page.text("\nNo file differs from what it was.")
        return
    await page.text(f"\nFiles in {one_line(str(plan.root))}:")
    for file in plan.files:
        reason = f": {file.reason}" if file.reason else ""
        await page.text(f"  {_WORDS[file.action]}  {file.label}{reason}")
    for gap in plan.gaps:
        await page.text(f"  note: {gap}")


@dataclass(frozen=True)
class Restored:
    """What became of the files: the plan, and what was done of it."""

    plan: "RestorePlan"
    report: "RestoreReport"

    @property
    def not_restored(self) -> dict[str, str]:
        """Each file that tools changed and that is not as it was, and why."""
        kept = {file.path: file.reason for file in self.plan.files if file.reason}
        return kept | dict(self.report.failed)

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "restored": self.report.restored,
            "not_restored": self.not_restored,
            "notes": self.plan.gaps,
        }

    async def show(self, page: OutputWriter) -> None:
        """Print it.

        Raises:
            OSError: it can't be written.
        """
        await page.text(f"{counted(len(self.report.restored), 'file')} restored.")
        labels = {file.path: file.label for file in self.plan.files}
        for path, why in self.not_restored.items():
            await page.text(f"not restored: {labels[path]}: {why}")
        for gap in self.plan.gaps:
            await page.text(f"note: {gap}")
