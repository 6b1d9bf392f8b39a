"""What may stand behind `greenroom completion`, and behind the command that its scripts run."""

from dataclasses import dataclass

from greenroom.cli.completion.script import SHELLS
from greenroom.cli.options import Options, Parsers


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """What a shell or its user asked for.

    Attributes:
        shell: "bash", "zsh" or "fish".
        line: the line up to the cursor.
        word: the part of its last word that the shell puts the completion in the place of.
    """

    shell: str = ""
    line: str = ""
    word: str | None = None


def add_completion(commands: Parsers) -> None:
    """Add the command that prints the script, and the one, not told of, that the script runs."""
    script = commands.add_parser(
        "completion",
        help="print a script that completes command lines at the press of Tab",
        description="Print a script that completes command lines at the press of Tab. "
        "For bash, put this into ~/.bashrc: source <(greenroom completion bash)",
    )
    script.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    script.set_defaults(command="completion", kind=CompletionOptions)
    complete = commands.add_parser("complete")
    complete.add_argument("shell", choices=SHELLS)
    complete.add_argument("line")
    complete.add_argument("--word")
    complete.set_defaults(command="complete", kind=CompletionOptions)
