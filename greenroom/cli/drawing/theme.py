"""Colours."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ColorScheme:
    """What each kind of text looks like; every field is a style of rich, such as "bold red".

    Attributes:
        user: what the user typed.
        thinking: the model's reasoning.
        tool: the name of a tool that ran.
        output: what a tool printed.
        error: errors, and calls that failed.
        note: remarks of the program.
        added: added lines of a diff.
        removed: removed lines of a diff.
        hunk: the places that a diff is about.
        question: the head of a permission prompt.
        effect: what a call would do beyond the workspace.
        subagent: the names of subagents.
        todo: the step in progress.
        code: the theme of code blocks, one of pygments'.

    Example:
        >>> ColorScheme(user="bold green").user
        'bold green'
    """

    user: str = "bold cyan"
    thinking: str = "dim italic"
    tool: str = "bold"
    output: str = "dim"
    error: str = "red"
    note: str = "dim"
    added: str = "green"
    removed: str = "red"
    hunk: str = "cyan"
    question: str = "bold yellow"
    effect: str = "yellow"
    subagent: str = "magenta"
    todo: str = "bold"
    code: str = "ansi_dark"
