"""Frames: cut anywhere, put together again, and refused when they are none."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ToolError, ToolResult
from greenroom.core._internal import InvalidJSONError
from greenroom.tools.isolation import frame
from greenroom.tools.isolation.frame import (
    AbandonedFrame,
    BegunFrame,
    EndedFrame,
    FrameBuffer,
    ProgressFrame,
    decode_worker_frame,
    pack,
)

ANSWERS = st.one_of(
    st.just(BegunFrame()),
    st.builds(ProgressFrame, st.text()),
    st.builds(AbandonedFrame, st.text()),
    st.builds(EndedFrame, st.builds(ToolResult.ok, st.text()), removed_keys=st.just(("a",))),
)


@given(st.lists(ANSWERS), st.lists(st.integers(1, 50), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(answers, sizes):
    data = b"".join(map(pack, answers))
    buffer, found = FrameBuffer(), []
    while data:
        size = sizes[len(data) % len(sizes)]
        found += map(decode_worker_frame, buffer.feed(data[:size]))
        data = data[size:]
    assert found == answers
    assert buffer.is_empty


def test_a_length_beyond_the_limit_is_no_frame():
    with pytest.raises(ToolError, match="not a frame"):
        list(FrameBuffer().feed(b"\xff\xff\xff\xff"))


def test_a_frame_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(frame, "MAX_BYTES", 40)
    with pytest.raises(ToolError, match=r"41 bytes are too many .*write them to a file"):
        pack(ProgressFrame("x" * 12))


@pytest.mark.parametrize("data", [b"{}", b'{"type":"call"}', b"\xff", b'{"type":"progress"}'])
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(InvalidJSONError):
        decode_worker_frame(data)
