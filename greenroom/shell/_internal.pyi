from greenroom.shell.analyser import (
    analyse as analyse,
    find_disguises as find_disguises,
    list_program_effects as list_program_effects,
)
from greenroom.shell.effects import (
    Change as Change,
    Command as Command,
    PathUse as PathUse,
    Place as Place,
    ShellEffect as ShellEffect,
    Unknown as Unknown,
)
from greenroom.shell.reader import read as read
from greenroom.shell.script import (
    NotPlainError as NotPlainError,
    Pipeline as Pipeline,
    Script as Script,
    SimpleCommand as SimpleCommand,
    render as render,
)
