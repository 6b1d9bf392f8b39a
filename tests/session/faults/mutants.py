"""Stores with a mistake, each of which the checks of this folder have to notice.

A test that can't fail proves nothing. Each mutant leaves one thing out that durability rests upon.
"""

import contextlib
import re
import zlib

import msgspec
import pytest

from greenroom.fs._internal import durable
from greenroom.fs.durable import SyncError
from greenroom.session import history as lines
from greenroom.session.session_folder import FileWriter


def no_sync(patch):
    patch.setattr(durable, "sync", lambda fd: None)


def no_folder_sync(patch):
    patch.setattr(durable, "sync_folder", lambda path: None)


def no_checksum(patch):
    shape = re.compile(rb'\{"n":%d,.*\],"crc":"[0-9a-f]{8}"\}\n'.replace(b"%d", rb"\d+"))
    patch.setattr(lines, "_is_sound", lambda line, at: bool(shape.fullmatch(line)))


def checksum_chained_by_its_seed(patch):
    """A line that runs into the next verifies: the checksum of both is the checksum of the last."""

    def seal(body, at):
        before = int(at.last[-11:-3] or b"0", 16)
        return b',"crc":"%08x"}\n' % zlib.crc32(body, before)

    patch.setattr(lines, "_seal", seal)


def no_chain(patch):
    patch.setattr(lines, "_seal", lambda body, at: b',"crc":"%08x"}\n' % zlib.crc32(body))


def repair_without_truncation(patch):
    patch.setattr(durable, "truncate", lambda path, size: None)


def acknowledgement_from_a_buffer(patch):
    """What is appended reaches the file with the next append, or when the writer lets go."""
    held, release = {}, FileWriter._release

    def append(fd, data, at, *, flush=True):
        durable._write_all(fd, held.pop(fd, b""))
        held[fd] = bytes(data)

    def release_all(writer):
        durable._write_all(writer._history, held.pop(writer._history, b""))
        release(writer)

    patch.setattr(durable, "append", append)
    patch.setattr(FileWriter, "_release", release_all)


def retry_after_a_failed_sync(patch):
    sync = durable.sync

    def again(fd):
        try:
            sync(fd)
        except SyncError:
            sync(fd)

    patch.setattr(durable, "sync", again)


def ignored_short_write(patch):
    def write_once(fd, data):
        durable.os.write(fd, data)

    patch.setattr(durable, "_write_all", write_once)


def no_word_of_what_is_loose(patch):
    """Lines that were not synced are built upon, and nothing in them says so."""

    def after(place, line):
        return msgspec.structs.replace(
            place, lines=place.lines + 1, size=place.size + len(line), last=line
        )

    patch.setattr(lines.Position, "after", after)


def sync_instead_of_rewrite(patch):
    """What a failed sync has dropped is held for safe, since the next one succeeds."""
    patch.setattr(durable, "rewrite", lambda path, start, stop: None)


CAUGHT_BY = {
    no_sync: "power cuts",
    no_folder_sync: "power cuts",
    no_checksum: "bit flips",
    checksum_chained_by_its_seed: "splices",
    no_chain: "splices",
    repair_without_truncation: "power cuts",
    acknowledgement_from_a_buffer: "power cuts",
    retry_after_a_failed_sync: "failing disks",
    ignored_short_write: "power cuts",
    no_word_of_what_is_loose: "power cuts",
    sync_instead_of_rewrite: "emptied in vain",
}


@contextlib.contextmanager
def living(mutant):
    """Let this mutant take the store's place."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        yield
