"""Names as a model types them: `café` and `4.00 PM`, however the disk spells them.

macOS stores `é` as two characters and puts a narrow no-break space into the names of screenshots;
other programs put in typographic quotes and dashes. A model writes the plain form, so a path that
does not exist may mean the one file whose name has that form. Rules judge the path of that file.
"""

import os
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import islice

from greenroom.core import AgentContext
from greenroom.core._internal import Effect, usual_effects

_MAX_ENTRIES = 5_000  # of a folder; judging a call takes place on the event loop
_MAX_NAME = 1_024
_PLAIN = {
    "Zs": " ",  # blanks
    "Pd": "-",  # dashes
    "Cf": "",  # marks that can't be seen
}
_QUOTES = str.maketrans(dict.fromkeys("‘’‚‛ʼ′", "'") | dict.fromkeys("“”„‟″", '"'))  # noqa: RUF001


def plain_name(name: str) -> str:
    r"""Return the plain form of a name or path: composed, with blanks, dashes and quotes of ASCII.

    Example:
        >>> plain_name("cafe\u0301 4.00\u202fPM"), plain_name("a\u2019s \u2013 b")
        ('café 4.00 PM', "a's - b")
    """
    if name.isascii() or len(name) > _MAX_NAME:
        return name
    plain = (_PLAIN.get(unicodedata.category(each), each) for each in name.translate(_QUOTES))
    return unicodedata.normalize("NFC", "".join(plain))


def find_named(path: str) -> str:
    """Return an absolute path as the disk spells it; as it is, unless just one file is meant.

    A name that exists as it is means itself. Folders of more than 5,000 entries are not searched.
    Reads the disk.
    """
    try:
        if os.path.lexists(path):
            return path
        return _find_below(path)
    except (OSError, ValueError):
        return path


def _find_below(path: str) -> str:
    names = path.split(os.sep)
    lengths = range(2, len(names))
    at = next((n for n in lengths if not os.path.lexists(os.sep.join(names[:n]))), len(names))
    folder = os.sep.join(names[: at - 1]) or os.sep
    wanted = plain_name(names[at - 1])
    with os.scandir(folder) as entries:
        listed = [each.name for each in islice(entries, _MAX_ENTRIES + 1)]
    is_ascii = wanted.isascii()
    found = [name for name in listed if not name.isascii() or not is_ascii]
    found = [name for name in found if plain_name(name) == wanted]
    if len(found) != 1 or len(listed) > _MAX_ENTRIES:
        return path
    rest = names[at:]
    return find_named(os.sep.join([folder.rstrip(os.sep), found[0], *rest]))


def effects_on_disk(
    tool: str, key: str, arguments: Mapping[str, object], context: AgentContext
) -> Sequence[Effect]:
    """State the usual effects of a file tool on the path that its argument means on the disk."""
    given = arguments.get(key)
    if isinstance(given, str) and given:
        try:
            path = str(context.workspace.absolute(given))
        except (OSError, ValueError, RuntimeError):
            return usual_effects(tool, arguments, context)
        found = find_named(path)
        if found != path:
            arguments = {**arguments, key: found}
    return usual_effects(tool, arguments, context)


def describe_name(given: str, real: str) -> str:
    r"""Return a note on a file whose name is spelled otherwise than it was given; else nothing.

    Example:
        >>> describe_name("4.00 PM", "4.00\u202fPM")
        "the name on the disk is '4.00\\u202fPM'"
        >>> describe_name("a.txt", "a.txt")
        ''
    """
    return f"the name on the disk is {real!a}" if given != real else ""
