"""What is known about programs: how each reads its words, and what it does with them.

The tables `programs.txt` and `git.txt` say which options a program has, which of them take a value,
run something or write a file, and what its operands are. `invocation` reads a command by them, as
its program would, and finds the commands inside it; `risks` finds the words that make it do more
than its name says, and `reading` says what a command reads that does nothing else. `languages`
looks into small scripts, as those of sed. The package runs nothing and looks at no disk.

Example:
    >>> read_invocation(["sort", "-ro", "out", "names"]).parts[1].value
    'out'
    >>> find_reading(read_invocation(["sort", "-r", "names"])).files[0].path
    'names'
"""

from greenroom.programs.invocation import (
    PROGRAMS as PROGRAMS,
    RUNNERS as RUNNERS,
    SHELLS as SHELLS,
    WRAPPERS as WRAPPERS,
    Invocation as Invocation,
    Part as Part,
    Program as Program,
    find_actions as find_actions,
    find_inner_texts as find_inner_texts,
    find_lead as find_lead,
    is_known as is_known,
    is_transparent as is_transparent,
    read_invocation as read_invocation,
    reads_commands as reads_commands,
    takes_commands as takes_commands,
)
from greenroom.programs.reading import (
    Reading as Reading,
    find_reading as find_reading,
    read_only_commands as read_only_commands,
)
from greenroom.programs.risks import (
    changes_programs as changes_programs,
    find_risks as find_risks,
    is_display_setting as is_display_setting,
    names_program as names_program,
)
from greenroom.programs.tables import read_rows as read_rows
from greenroom.programs.words import basename as basename, extract_words as extract_words
