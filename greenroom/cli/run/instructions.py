"""What the coding agent of a run is told besides its prompt, by the user and by the project."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.agents import ProjectText, Skills, read_notes
from greenroom.permissions import user_rules_path
from greenroom.tools import Tool

if TYPE_CHECKING:
    from greenroom.memory import Memory

_MEMORY = (
    "What was learned in earlier sessions is remembered: ask Recall before you work on something that"
    " may have come up before. When you learn what will help in later sessions, such as a preference of"
    " the user's or how this project is built, keep it with Remember."
)
_FOREIGN = (
    "{path}: the model is told that this is not your word; "
    "greenroom permissions trust shows it, and lets it count"
)


@dataclass(frozen=True)
class Instructions:
    """What stands behind the prompt, and what the user should know about it.

    Attributes:
        text: for the model.
        tools: what the text speaks of.
        from_project: texts of the project, whether the user has agreed to them or not.
        faults: files that can't be used, and why, a line each.
    """

    text: str
    tools: tuple[Tool, ...] = ()
    from_project: tuple[ProjectText, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, a line each."""
        foreign = (each.path for each in self.from_project if not each.is_trusted)
        return (*(_FOREIGN.format(path=path) for path in foreign), *self.faults)


def instructions_of_run(workspace: Path) -> Instructions:
    """Put together what the agent of a run in this folder is told; it reads files."""
    notes = read_notes(workspace)
    users = user_rules_path().with_name("skills")
    skills = Skills(*([users] if users.is_dir() else []), workspace=workspace)
    texts = (*notes.texts, *(each.text for each in skills))
    return Instructions(
        "\n\n".join(filter(None, (skills.instructions, str(notes)))),
        skills.tools,
        tuple(each for each in texts if not each.is_users),
        (*notes.faults, *skills.faults),
    )


def with_memory(instructions: Instructions, memory: "Memory") -> Instructions:
    """Add the tools of a memory, and when to use them."""
    from greenroom.memory import memory_tools

    text = "\n\n".join(filter(None, (instructions.text, _MEMORY)))
    return replace(instructions, text=text, tools=(*instructions.tools, *memory_tools(memory)))
