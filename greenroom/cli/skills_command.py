"""`greenroom skills`: the skills of this folder and of the user."""

from dataclasses import dataclass

import trio

from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.options import Options
from greenroom.cli.run_setup import read_instructions
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core._internal import serde


@dataclass(frozen=True)
class ListedSkill:
    """A skill as it is listed: where it comes from, and whether its words count as the user's."""

    name: str
    description: str
    path: str
    is_trusted: bool


async def list_skills(options: Options) -> int:
    """Print the skills, where each comes from, and whether it is trusted.

    Raises:
        OSError: standard output can't be written.
    """
    found = await trio.to_thread.run_sync(read_instructions, working_folder())
    skills = [
        ListedSkill(each.name, each.description, str(each.path), each.text.is_trusted)
        for each in found.skills
    ]
    page = OutputWriter()
    if options.json:
        await page.line(serde.encode(skills))
    elif not skills:
        tell("there are no skills here")
    for each in () if options.json else skills:
        trust = "" if each.is_trusted else "  (not trusted: greenroom permissions trust shows it)"
        await page.text(f"{one_line(each.name)}: {one_line(each.description)}")
        await page.text(f"    {one_line(shorten_home(each.path))}{trust}")
    return 0
