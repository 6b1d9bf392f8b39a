from greenroom.programs.git_words import (
    GitWords as GitWords,
    find_git_verb as find_git_verb,
    locate as locate,
)
from greenroom.programs.hosts import (
    HOST_NAME as HOST_NAME,
    Host as Host,
    shorten_host as shorten_host,
    simplify_host as simplify_host,
)
from greenroom.programs.invocation import (
    BUILTINS as BUILTINS,
    PROGRAMS as PROGRAMS,
    RUNNERS as RUNNERS,
    SHELLS as SHELLS,
    Invocation as Invocation,
    find_actions as find_actions,
    find_lead as find_lead,
    read_invocation as read_invocation,
)
from greenroom.programs.reach import (
    REACH as REACH,
    FileChoice as FileChoice,
    list_default_names as list_default_names,
    list_folders as list_folders,
    list_sought as list_sought,
    uses_option as uses_option,
)
from greenroom.programs.reading import (
    Reading as Reading,
    chooses_programs as chooses_programs,
    find_reading as find_reading,
    find_risks as find_risks,
    is_display_setting as is_display_setting,
    names_program as names_program,
    only_writes as only_writes,
    read_only_commands as read_only_commands,
)
from greenroom.programs.verbs import (
    FIRST_WORDS as FIRST_WORDS,
    VERBS as VERBS,
    count_first_words as count_first_words,
    count_verb_words as count_verb_words,
    may_run_input as may_run_input,
    name_program as name_program,
)
from greenroom.programs.words import (
    basename as basename,
    extract_words as extract_words,
    fold_program as fold_program,
    occurs_in as occurs_in,
    resembles as resembles,
    split_names as split_names,
)
