"""The renderer: writes a plain command so that bash has nothing left to expand.

Each word is in single quotes, as it was judged, so it is the same whatever bash would make of the
original text. Programs are named by the files that were judged: `hash -p` makes bash run that file
under the usual name, without a further look at the search path.
"""

from collections.abc import Mapping

from greenroom.shell.script import Redirection, Script, SimpleCommand


def quote(word: str) -> str:
    r"""Quote a word for a shell.

    Example:
        >>> print(quote("it's"))
        'it'\''s'
    """
    return "'" + word.replace("'", r"'\''") + "'"


def render(script: Script, pins: Mapping[str, str] = {}) -> str:
    """Write a plain command; reading the result gives the same command again.

    Each simple command ends in the line where it ended, as far as possible, since bash names lines
    in its messages.

    Args:
        script: the command.
        pins: the files of programs, by the names that the command uses.

    Example:
        >>> from greenroom.shell.reader import read
        >>> print(render(read("ls -l $HOME |& head", home="/home/ada"), {"ls": "/usr/bin/ls"}))
        hash -p '/usr/bin/ls' 'ls'; 'ls' '-l' '/home/ada' 2>&1 | 'head'
    """
    parts = [f"hash -p {quote(path)} {quote(name)}; " for name, path in pins.items()]
    lines = 0
    for pipeline in script:
        clock, inverted = pipeline.clock and f"{pipeline.clock} ", "! " * pipeline.inverted
        prefix = f"{clock}{inverted}"
        operator: str = pipeline.operator
        for command in pipeline.commands:
            text = _write(command)
            breaks = max(command.line - text.count("\n") - lines, 0) if operator else 0
            lines += breaks + text.count("\n")
            parts += (
                " " * (operator not in ("", ";")),
                operator,
                "\n" * breaks or " " * (operator != ""),
            )
            parts += (prefix, text)
            operator, prefix = "|", ""
    return "".join(parts)


def _write(command: SimpleCommand) -> str:
    settings = [f"{name}={quote(value)}" for name, value in command.settings]
    words = map(quote, command.words)
    return " ".join([*settings, *words, *map(_write_redirection, command.redirections)])


def _write_redirection(redirection: Redirection) -> str:
    descriptor, operator, target = redirection
    number = "" if descriptor == (not operator.startswith("<")) else descriptor
    return (
        f"{number}{operator}{target}" if operator == ">&" else f"{number}{operator} {quote(target)}"
    )
