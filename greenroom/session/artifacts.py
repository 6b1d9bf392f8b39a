"""Artifacts: what an agent makes for people, such as a report or a picture, in versions.

The content of each version is a file of the session; a record in the conversation says what it is,
so a rewind goes back to the artifacts of that time, and a fork has them too.
"""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Annotated

import msgspec

from greenroom.core import SessionError
from greenroom.core._internal import JSON, compile_later, serde

ARTIFACT = "artifact"
"""The kind of the records, and of the chunk that tells of a version."""

MOST_VERSIONS = 1_000
"""How many versions a session may have, of all its artifacts together."""

_MEDIA_TYPE = compile_later(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
_LONGEST_NAME = 200


class Artifact(msgspec.Struct, frozen=True):
    """One version of an artifact.

    Attributes:
        name: its name, such as "report.md".
        version: the number of the version, from 1.
        media_type: what the content is, such as "text/markdown".
        size: bytes of the content.
        complete: whether nothing more is appended to this version.
        file: the file of the session that has the content.
        tool_use_id: the call that wrote it last.
    """

    name: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    media_type: str
    size: int
    complete: bool
    file: str
    tool_use_id: str = ""


def read_artifacts(records: Iterable[JSON]) -> tuple[Artifact, ...]:
    """Return every version that records tell of, the oldest first; of one version, its last state.

    A record that can't be read is left out.
    """
    found: dict[tuple[str, int], Artifact] = {}
    for record in records:
        try:
            each = serde.convert(record, Artifact)
        except msgspec.ValidationError:
            continue
        found[each.name, each.version] = each
    return tuple(found.values())


def begin_version(
    known: Iterable[Artifact], name: str, media_type: str | None, *, is_text: bool
) -> Artifact:
    """Return the next version of an artifact, still empty, with a file of its own.

    Raises:
        ValueError: the name or the media type is not usable.
        SessionError: there are too many versions already.
    """
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or "/" in name:
        raise ValueError(
            f"{name[:80]!r} can't name an artifact: use up to {_LONGEST_NAME} printable "
            "characters without a slash"
        )
    usual = "text/plain" if is_text else "application/octet-stream"
    if not media_type:
        import mimetypes  # it reads files of the system, and few agents make artifacts

        media_type = mimetypes.guess_type(name)[0] or usual
    media_type = media_type.lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"{media_type[:80]!r} is no media type: write one such as text/plain")
    versions = [each.version for each in known if each.name == name]
    if len(tuple(known)) >= MOST_VERSIONS:
        raise SessionError(f"a session has at most {MOST_VERSIONS} versions of artifacts")
    version = max(versions, default=0) + 1
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    file = f"artifact-{digest}-{version}-{secrets.token_hex(4)}"
    return Artifact(name, version, media_type, 0, False, file)
