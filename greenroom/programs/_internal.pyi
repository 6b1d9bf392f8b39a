from greenroom.programs.invocation import (
    PROGRAMS as PROGRAMS,
    RUNNERS as RUNNERS,
    SHELLS as SHELLS,
    WRAPPERS as WRAPPERS,
    Invocation as Invocation,
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
