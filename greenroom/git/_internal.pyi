from greenroom.git.answers import GitAnswers as GitAnswers
from greenroom.git.index import find_root as find_root, list_tracked as list_tracked
from greenroom.git.overrides import (
    GIT_SETTINGS as GIT_SETTINGS,
    add_overrides as add_overrides,
    hides_changes as hides_changes,
)
from greenroom.git.questions import GitAnswer as GitAnswer
