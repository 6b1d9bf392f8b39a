"""Which writes may be made on the event loop."""

import os
from contextlib import suppress

import pytest

from greenroom.fs import loop_writes
from greenroom.fs.loop_writes import LoopWrites, is_local

MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 25 0:27 / /dev/shm rw,relatime shared:2 - tmpfs tmpfs rw
31 27 0:40 / /home rw - nfs4 server:/home rw
32 27 0:41 / /odd\\040name rw - fuse.sshfs there: rw
33 27 0:42 / /dots
"""


@pytest.mark.parametrize(
    ("number", "wanted"),
    [((254, 0), True), ((0, 27), True), ((0, 40), False), ((0, 41), False), ((0, 42), False)],
)
def test_a_disk_is_local_if_its_file_system_is_known_to_be(tmp_path, monkeypatch, number, wanted):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(loop_writes, "_MOUNTS", tmp_path / "mountinfo")
    assert is_local(os.makedev(*number)) is wanted
    assert LoopWrites().is_local(os.makedev(*number)) is wanted


def test_where_nobody_says_so_no_disk_is_local(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_writes, "_MOUNTS", tmp_path / "missing")
    assert not is_local(os.stat(tmp_path).st_dev)
    assert not is_local(os.makedev(9, 9))


def test_after_a_slow_write_there_is_none_for_a_minute_even_if_it_failed():
    now = 0.0
    writes = LoopWrites(lambda: now)
    assert writes.allow(loop_writes.MOST_BYTES)
    assert not writes.allow(loop_writes.MOST_BYTES + 1)
    with writes.measure():
        now += 0.02
    assert writes.allow(1)
    with suppress(OSError), writes.measure():
        now += 0.03
        raise OSError
    assert not writes.allow(1)
    now += 59
    assert not writes.allow(1)
    now += 1
    assert writes.allow(1)
