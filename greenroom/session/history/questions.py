"""Which questions about calls are open: asked of a person, on record, and without an answer."""

from collections.abc import Iterable

import msgspec

from greenroom.core import JSON, Wire

QUESTION = "permission.question"
"""The kind of the records that hold questions."""


class OpenQuestion(Wire, frozen=True):
    """A person was asked about a call that has not started.

    Attributes:
        request_id: the id of the permission request; asked again it keeps it.
        tool_use_id: the call.
        digest: what the answer is bound to; one that is given ahead counts only while it is the same.
    """

    request_id: str
    tool_use_id: str
    digest: str = ""


def open_questions(records: Iterable[JSON], unstarted: Iterable[str]) -> dict[str, OpenQuestion]:
    """Return the newest question about each of these calls that there is one about, by the call."""
    calls = frozenset(unstarted)
    found = map(_read, records) if calls else ()
    return {each.tool_use_id: each for each in found if each and each.tool_use_id in calls}


def _read(record: JSON) -> OpenQuestion | None:
    """Read a question; one that can't be read, as of a newer version, is asked as if it were new."""
    try:
        return msgspec.convert(record, OpenQuestion)
    except msgspec.ValidationError:
        return None
