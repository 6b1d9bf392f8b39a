"""Images and PDFs that providers would refuse, by their headers and their ends."""

import base64

import pytest
from hypothesis import given, strategies as st

from greenroom.core import DocumentBlock, ImageBlock, TextBlock, ToolResult
from greenroom.tools.returned_values import find_media_fault, leave_out_faulty_media
from tests.tools.media import PDF, gif, jpeg, png, webp_extended, webp_lossless, webp_lossy

FORMATS = [png, jpeg, gif, webp_lossy, webp_lossless, webp_extended]


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize(
    ("size", "fits"), [((2, 1), True), ((8000, 8000), True), ((8001, 1), False), ((3, 9000), False)]
)
def test_an_image_has_a_fault_if_a_side_is_too_long(make, size, fits):
    fault = find_media_fault(make(*size))
    assert fault == (
        "" if fits else f"it has {size[0]} by {size[1]} pixels, and a side may have 8000"
    )


@pytest.mark.parametrize("make", FORMATS)
def test_an_image_that_ends_early_has_a_fault(make):
    whole = make()
    assert all(find_media_fault(whole[:end]) for end in range(12, len(whole)))


@pytest.mark.parametrize(
    "data", [png() + b"more", jpeg() + b"\0more", gif() + b"\0\0", PDF + b"\n"]
)
def test_what_follows_the_end_is_no_fault(data):
    assert find_media_fault(data) == ""


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\nbroken",
        png().replace(b"IDAT", b"IDOT"),
        png(0, 1),
        b"\xff\xd8\xffbroken, but long enough to have a header \xff\xd9",
        b"%PDF-1.4\n",
        PDF[:-6],
    ],
)
def test_a_broken_file_has_a_fault(data):
    assert find_media_fault(data) == "it is broken, or ends early"


@given(st.sampled_from(FORMATS), st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_judged(make, noise, at):
    whole = make()
    fault = find_media_fault(whole[:at] + noise + whole[at + len(noise) :])
    assert fault in ("", "it is broken, or ends early") or "pixels" in fault


def test_other_data_has_no_fault():
    assert find_media_fault(b"") == find_media_fault(b"hello") == ""


def encoded(data):
    return base64.b64encode(data).decode()


def test_a_result_has_a_line_for_what_is_left_out():
    good = ImageBlock("image/png", encoded(png()))
    bad = ImageBlock("image/png", encoded(png(9000, 1)))
    document = DocumentBlock("application/pdf", encoded(b"%PDF-1.4\n"))
    result = ToolResult((TextBlock("Here:"), good, bad, document))
    here, kept, *lines = leave_out_faulty_media(result).content
    assert (here, kept) == (TextBlock("Here:"), good)
    assert [line.text for line in lines] == [
        "[This image was left out: it has 9000 by 1 pixels, and a side may have 8000]",
        "[This document was left out: it is broken, or ends early]",
    ]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(url="https://a.test/b.png"),
        ImageBlock("image/heic", encoded(b"\0\0\0\x18ftypheic")),
        DocumentBlock("text/plain", encoded(b"hello")),
        DocumentBlock(title="a"),
    ],
)
def test_what_can_not_be_checked_is_kept(block):
    result = ToolResult((block,))
    assert leave_out_faulty_media(result) is result


@pytest.mark.parametrize(
    "code",
    [
        base64.encodebytes,
        base64.urlsafe_b64encode,
        lambda data: base64.b64encode(data).rstrip(b"="),
    ],
    ids=["in lines", "for URLs", "without its end"],
)
def test_an_image_is_sent_as_what_it_is(code):
    for more in range(3):
        data = jpeg() + b"\xfb\xff" * more
        image = ImageBlock("image/png", code(data).decode())
        assert leave_out_faulty_media(ToolResult((image,))).content == (
            ImageBlock("image/jpeg", encoded(data)),
        )


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        (ImageBlock("image/png", "?"), "its data is not base64"),
        (ImageBlock("image/png", "é"), "its data is not base64"),
        (ImageBlock("image/png", encoded(b"<html>")), "it is not of the type image/png"),
        (ImageBlock("Image/PNG; a=b", encoded(b"<html>")), "it is not of the type image/png"),
        (ImageBlock("image/jpg", encoded(b"<html>")), "it is not of the type image/jpeg"),
        (
            DocumentBlock("application/pdf", encoded(b"<html>")),
            "it is not of the type application/pdf",
        ),
    ],
)
def test_what_is_not_what_it_says_is_left_out(block, fault):
    kind = "image" if isinstance(block, ImageBlock) else "document"
    [left] = leave_out_faulty_media(ToolResult((block,))).content
    assert left == TextBlock(f"[This {kind} was left out: {fault}]")
