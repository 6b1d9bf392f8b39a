"""The commands and keys of the input line: tables for the menu, the help, near misses and the docs.

`read_command` tells a command from text for the model. The functions that carry commands out are
named here and loaded when they are needed; each takes a `CommandContext` and the words behind the
command.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, TypeAlias

import msgspec

CandidateKind: TypeAlias = Literal[
    "command", "model", "effort", "mode", "session", "turn", "scope", "agent", "theme", "file"
]
"""What a word of the input line can be one of."""


class Command(msgspec.Struct, frozen=True):
    """A command of the input line.

    Attributes:
        name: its name, without the slash.
        summary: what it does, in one line.
        function: what carries it out, as `module.function`.
        argument: what follows it, as the help shows that.
        takes: what each of its words is one of, where a menu can offer them.
        is_picker: whether it lets the person choose where no word follows it.
        needs_run: whether it is about a run of the `greenroom` command, not about any agent.
        needs_idle: whether it has to wait for the end of the turn.
        is_sent: whether the line goes to the agent, which knows what the command means.
    """

    name: str
    summary: str
    function: str
    argument: str = ""
    takes: tuple[CandidateKind, ...] = ()
    is_picker: bool = False
    needs_run: bool = True
    needs_idle: bool = False
    is_sent: bool = False

    @property
    def usage(self) -> str:
        """The command and its argument, as the help shows them."""
        return f"/{self.name} {self.argument}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command("help", "list the commands and the keys", "command_help.show_help", needs_run=False),
    Command(
        "model",
        "talk to another model from the next request on; the conversation stays",
        "run_commands.change_model",
        "[NAME]",
        ("model",),
        is_picker=True,
    ),
    Command(
        "effort",
        "have the model think more or less, from the next request on",
        "run_commands.change_effort",
        "[EFFORT]",
        ("effort",),
        is_picker=True,
    ),
    Command(
        "mode",
        "switch the permission mode, for the calls to come",
        "run_commands.change_mode",
        "[NAME]",
        ("mode",),
        is_picker=True,
    ),
    Command(
        "permissions",
        "show the rules and what was decided; allow, deny, ask [SCOPE] RULE or remove NAME",
        "run_commands.show_permissions",
        "[VERB RULE]",
    ),
    Command("sessions", "list the sessions of this folder", "run_commands.show_sessions", "[all]"),
    Command(
        "resume",
        "go on with another session",
        "session_commands.resume",
        "[ID or WORDS]",
        ("session",),
        is_picker=True,
        needs_idle=True,
    ),
    Command(
        "fork",
        "go on in a second session that begins as this one",
        "session_commands.fork",
        needs_idle=True,
    ),
    Command(
        "rewind",
        "go back to before one of your turns: conversation, files or both",
        "session_commands.rewind",
        "[N] [SCOPE]",
        ("turn", "scope"),
        is_picker=True,
        needs_idle=True,
    ),
    Command(
        "undo", "take the last turn back, with its files", "session_commands.undo", needs_idle=True
    ),
    Command(
        "compact",
        "shorten the conversation now, with regard to these words",
        "agent_commands.compact",
        "[WORDS]",
        needs_run=False,
        needs_idle=True,
    ),
    Command(
        "clear",
        "begin a new session; this one stays in the list",
        "session_commands.clear",
        needs_idle=True,
    ),
    Command(
        "agents",
        "list subagents and commands in the background; NAME follow, NAME say TEXT, NAME stop",
        "agent_commands.show_agents",
        "[NAME VERB]",
        ("agent",),
    ),
    Command("cost", "show the tokens of this session, and their cost", "run_commands.show_cost"),
    Command("context", "show what fills the model's window", "agent_commands.show_context"),
    Command(
        "memory", "show the instructions that are read, and the memory", "run_commands.show_memory"
    ),
    Command("mcp", "list the servers of tools, and what they have", "run_commands.show_servers"),
    Command("skills", "list the skills, and where they come from", "run_commands.show_skills"),
    Command(
        "export",
        "write the session to a file: .md, .html or .json",
        "run_commands.export",
        "[FILE]",
    ),
    Command(
        "theme",
        "draw in other colours from now on: greenroom config set theme",
        "run_commands.change_theme",
        "[NAME]",
        ("theme",),
        is_picker=True,
    ),
    Command("doctor", "say what is set up, and what is missing", "run_commands.check_setup"),
    Command("quit", "leave; the session stays", "agent_commands.leave", needs_run=False),
    Command("exit", "leave; the session stays", "agent_commands.leave", needs_run=False),
)
"""Every command, in the order of the help."""


class CommandLine(msgspec.Struct, frozen=True):
    """A command that was entered, and the words behind it."""

    command: Command
    words: str


def read_command(line: str, commands: Iterable[Command]) -> CommandLine | str | None:
    """Read an entered line.

    Returns:
        The command; a message for the person where the first word looks like one and is none; or
        None for text, such as `/usr/bin/env`, which has a second slash in its first word.

    Example:
        >>> read_command("/compact the parser", COMMANDS).words
        'the parser'
        >>> read_command("/exti", COMMANDS)
        'there is no command /exti; did you mean /exit?'
        >>> read_command("/usr/bin/env python", COMMANDS) is None
        True
    """
    first, _, words = line.strip().partition(" ")
    first, newline, more = first.partition("\n")
    if not _is_command(first):
        return None
    known = {each.name: each for each in commands}
    name = first[1:].casefold()
    if name in known:
        return CommandLine(known[name], f"{more} {words}".strip() if newline else words.strip())
    return f"there is no command {first}; {_suggest(name, known) or '/help lists them'}"


def find_unknown_command(text: str, known: Iterable[str]) -> str:
    """Say that a text begins with a command that is not among these names; else return "".

    Example:
        >>> find_unknown_command("/grete Ann", ["greet"])
        'there is no command /grete; did you mean /greet?'
    """
    first = (text.split(maxsplit=1) or [""])[0]
    known = tuple(known)
    if not _is_command(first) or first == "/" or first[1:].casefold() in known:
        return ""
    return "; ".join(filter(None, (f"there is no command {first}", _suggest(first[1:], known))))


def _is_command(first: str) -> bool:
    """Whether the first word of a line is a command's, and not that of a path or of other text."""
    return first.startswith("/") and "/" not in first[1:]


def _suggest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.casefold(), tuple(known), n=1, cutoff=0.5)
    return f"did you mean /{near[0]}?" if near else ""


class KeyHelp(msgspec.Struct, frozen=True):
    """What a key does.

    Attributes:
        keys: the keys.
        at_line: what they do at the input line.
        in_turn: what they do while a turn runs, if that is something else.
        at_question: what they do while a question is open, if anything.
    """

    keys: str
    at_line: str
    in_turn: str = ""
    at_question: str = ""


KEYS: tuple[KeyHelp, ...] = (
    KeyHelp(
        "Enter",
        "send; run or take what is marked in a menu",
        "queue; on an empty line, the first queued input joins the turn",
        "take what was typed, or the marked choice",
    ),
    KeyHelp("\\ Enter, Alt-Enter, Ctrl-J", "a new line"),
    KeyHelp(
        "Esc",
        "close a menu; twice on an empty line: /rewind",
        "interrupt; queued input comes back into the line",
        "back from *why not?* and *edit*; else interrupt",
    ),
    KeyHelp(
        "Ctrl-C",
        "clear the line; twice within a second on an empty one: leave",
        "interrupt",
        "interrupt",
    ),
    KeyHelp("Ctrl-D", "leave, on an empty line", at_question="no"),
    KeyHelp("Ctrl-Z", "stop; `fg` goes on, even with a turn", at_question="the same"),
    KeyHelp("Ctrl-L", "draw the screen again", at_question="the same"),
    KeyHelp(
        "Up, Down",
        "earlier inputs of this folder, or move in a menu",
        "Up on an empty line: take the last queued input back",
        "mark a choice",
    ),
    KeyHelp("Ctrl-R", "search in earlier inputs"),
    KeyHelp("Tab", "take what is marked in a menu", at_question="exact words or a prefix"),
    KeyHelp("Shift-Tab", "the next permission mode"),
    KeyHelp("Ctrl-G", "edit the draft in $VISUAL or $EDITOR"),
    KeyHelp(
        "Ctrl-O",
        "all that was printed, with nothing folded; again: back",
        at_question="the long form, or the short one again",
    ),
    KeyHelp("Ctrl-T", "hide the to-do list, or show it again"),
    KeyHelp("Space, PgDn, PgUp", "", at_question="all of a file's content; pages"),
)
"""Every key that does more than to edit the line."""
