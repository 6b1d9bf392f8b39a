"""What a shell command would do, found out before it runs.

A command is plain if every word of it is known beforehand. `analyse` reads a text and lists its
effects: the programs that run, with their words (`Command`), the files that redirections open
(`PathUse`), the variables that are set (`Change`), and whatever can't be determined beforehand
(`Unknown`). `render` writes a plain command so that bash runs just what was read.
`read_invocation` tells options from operands as the program itself would. The package runs nothing,
knows nothing of agents or rules, and can be used on its own.

Example:
    >>> found = analyse("cd src && make CC=cc > ../out", Place("/work", "/work"))
    >>> [str(effect) for effect in found.effects]
    ['cd src', 'make CC=cc', 'write ../out']
    >>> print(render(found.script))
    'cd' 'src' && 'make' 'CC=cc' > '../out'
"""

from greenroom.shell.analyser import (
    Analysis as Analysis,
    analyse as analyse,
    find_disguises as find_disguises,
    find_lead as find_lead,
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
from greenroom.shell.file_lookup import PROCESS_LINK as PROCESS_LINK
from greenroom.shell.pieces import extract_words as extract_words
from greenroom.shell.programs import (
    PROGRAMS as PROGRAMS,
    RUNNERS as RUNNERS,
    SHELLS as SHELLS,
    WRAPPERS as WRAPPERS,
    Part as Part,
    read_invocation as read_invocation,
)
from greenroom.shell.reader import read as read
from greenroom.shell.reading import (
    Reading as Reading,
    find_reading as find_reading,
    read_only_commands as read_only_commands,
)
from greenroom.shell.renderer import render as render
from greenroom.shell.risks import (
    changes_programs as changes_programs,
    is_display_setting as is_display_setting,
)
from greenroom.shell.script import (
    NotPlainError as NotPlainError,
    Pipeline as Pipeline,
    Script as Script,
    SimpleCommand as SimpleCommand,
    basename as basename,
)
from greenroom.shell.tables import read_rows as read_rows
