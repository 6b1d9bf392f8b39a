"""Git, kept from running and reading what a repository names, and what a repository names.

A repository comes from its author, and its files may make git run programs even where it only
reads. `overrides` has the words that switch this off, `questions` asks git itself what no word
switches off, and `answers` remembers what it said. `index` lists what is tracked. All but
`overrides` blocks: call it in a thread. The package can be used on its own.

Example:
    >>> add_overrides(("git", "log", "-3"))[-3:]
    ('--no-ext-diff', '--no-textconv', '-3')
"""

from greenroom.git.answers import GitAnswers as GitAnswers
from greenroom.git.index import find_root as find_root, list_tracked as list_tracked
from greenroom.git.overrides import (
    GIT_SETTINGS as GIT_SETTINGS,
    add_overrides as add_overrides,
    find_verb as find_verb,
    hides_changes as hides_changes,
)
from greenroom.git.questions import GitAnswer as GitAnswer, ask_git as ask_git
