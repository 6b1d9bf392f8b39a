"""What a shell command would do, found out before it runs.

`parse` finds every simple command in a text. `list_effects` lists what these would do: the programs
that run, with their words (`Command`), the files that redirections open (`PathUse`), the variables
that are set (`Change`), and whatever can't be determined beforehand (`Unknown`). `read_invocation`
tells options from operands as the program itself would. The package runs nothing, knows nothing of
agents or rules, and can be used on its own.

Example:
    >>> effects = list_effects("cd src && make CC=cc > ../out", Place("/work", "/work"))
    >>> [str(effect) for effect in effects]
    ['cd src', 'make CC=cc', 'write ../out']
"""

from greenroom.shell.analyser import (
    find_lookalikes as find_lookalikes,
    list_effects as list_effects,
    list_program_effects as list_program_effects,
)
from greenroom.shell.effects import (
    Change as Change,
    Command as Command,
    PathUse as PathUse,
    Place as Place,
    ShellEffect as ShellEffect,
    Stars as Stars,
    Unknown as Unknown,
)
from greenroom.shell.name_patterns import (
    Fits as Fits,
    NamePattern as NamePattern,
    expand_braces as expand_braces,
    fold as fold,
    fold_path as fold_path,
    match_names as match_names,
    read_names as read_names,
    read_pattern as read_pattern,
)
from greenroom.shell.parser import parse as parse
from greenroom.shell.programs import (
    RUNNERS as RUNNERS,
    SHELLS as SHELLS,
    WRAPPERS as WRAPPERS,
    abbreviates as abbreviates,
    find_extent as find_extent,
    read_invocation as read_invocation,
    read_only_commands as read_only_commands,
)
from greenroom.shell.risks import (
    changes_programs as changes_programs,
    is_display_setting as is_display_setting,
)
from greenroom.shell.words import (
    UNKNOWN as UNKNOWN,
    Part as Part,
    SimpleCommand as SimpleCommand,
    Word as Word,
    basename as basename,
    extract_words as extract_words,
)
