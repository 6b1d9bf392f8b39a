"""HTML to text, for pages as they are and for pages made to hurt."""

import time

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ToolError
from greenroom.tools.builtin.web_page import html_text, page_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a<p>b", "a\n\nb"),
        ("<p>a \n\t b</p>", "a b"),
        ("<title>T</title><h2>H</h2>x", "T\n\n## H\n\nx"),
        ("<header>x</header><hr>y", "x\n\ny"),
        ("<ul><li>a<li>b<b>c</b></ul>", "- a\n- bc"),
        ("a<br>b<div>c</div>d", "a\nb\nc\nd"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "| 1 | 2\n | 3"),
        ("<a href='/x'>A</a><a>B</a><a href='#y'>C</a>", "[A](http://h.test/x)BC"),
        ("<a href='javascript:alert(1)'>A</a>", "A"),
        ("<a href='http://[x'>A</a>", "[A](http://[x)"),
        ("</a></p>a", "a"),
        ("<img src=x alt='a cat'><img src=y>", "![a cat]"),
        ("&lt;&eacute;&#33;", "<é!"),
        ("<script>a<p>b</script>c<style>d</style><noscript>e</noscript>", "c"),
        ("<svg><text>a</text></svg></svg>b", "b"),
        ("<head><meta x></head><body>a", "a"),
        ("a<!-- b -->c<!-- d", "ac"),
        ("a <b", "a"),
        ("", ""),
    ],
)
def test_a_page_becomes_what_its_reader_sees(html, text):
    assert html_text(html, "http://h.test/") == text


def test_a_section_that_no_parser_knows_ends_the_page_with_a_note():
    assert html_text("a<![odd[x]]>b").startswith("a")


@given(st.text(alphabet="<>!-/[]=\"'& apre\n") | st.text())
def test_any_text_can_be_reduced(html):
    html_text(html)


@pytest.mark.parametrize("piece", ["<!--", "<a ", "</a", "<![CDATA[", "<?", "<!x", "<a a='", "&#"])
@pytest.mark.parametrize("before", ["", "<pre>", "<script>", "<a "])
def test_a_hostile_page_takes_time_in_proportion(before, piece):
    started = time.process_time()
    html_text(before + piece * (300_000 // len(piece)))
    assert time.process_time() - started < 5


def test_blanks_take_time_in_proportion():
    started = time.process_time()
    html_text("<pre>" + " " * 300_000 + "x")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"a\xc3\xa9", "text/plain", "aé"),
        (b"a\xe9", "text/plain; charset=ISO-8859-1", "aé"),
        (b"a\xe9", 'text/plain; charset="latin-1"', "aé"),
        (b"a\xff", "text/plain; charset=utf-8", "a\ufffd"),
        (b"a", "text/plain; charset=unknown", "a"),
        (b"a", "text/plain; charset=zlib", "a"),
        (b"a-", "text/plain; charset=punycode", "a-"),
        (b"<meta charset=latin-1><p>\xe9", "text/html", "é"),
        (b"<p>a</p>", "application/xhtml+xml", "a"),
        (b"<!DOCTYPE html><p>a", "", "a"),
        (b"<p>a", "", "<p>a"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"{}", "application/vnd.api+json; charset=utf-8", "{}"),
        (b"a\0", "text/plain", "a\0"),
        # As in a browser: by the mark first, then by the header, then by the page's own word.
        ("\ufeffé".encode("utf-16-le"), "text/plain; charset=utf-8", "é"),
        ("\ufeff<html>é".encode("utf-16-be"), "", "é"),
        (b"\xef\xbb\xbf<!DOCTYPE html><p>a", "", "a"),
        (b"<meta charset=koi8-r>\xc3\xa9", "text/html; charset=utf-8", "é"),
        (b"<meta charset=utf-16>a", "text/html", "a"),
        (b"say charset=utf-16 in it", "text/plain", "say charset=utf-16 in it"),
        (
            b"<?xml version='1.0' encoding='latin-1'?>\xe9",
            "text/xml",
            "<?xml version='1.0' encoding='latin-1'?>é",
        ),
        ("“a” – €".encode("cp1252"), "text/plain; charset=iso-8859-1", "“a” – €"),
        ("①～髙".encode("cp932"), "text/plain; charset=Shift_JIS", "①～髙"),
        ("日本".encode("cp932"), "text/plain; charset=x-sjis", "日本"),
        ("朱镕基".encode("gb18030"), "text/plain; charset=gb2312", "朱镕基"),
        ("똠".encode("cp949"), "text/plain; charset=euc-kr", "똠"),
        ("ไทย".encode("cp874"), "text/plain; charset=windows-874", "ไทย"),
    ],
)
def test_a_body_becomes_text_by_its_type_and_encoding(body, kind, text):
    assert page_text(body, kind) == text


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b"", "image/png", "this is image/png"),
        (b"", "application/octet-stream", "this is application/octet-stream"),
        (b"", "application/pdf; x=y", "this is application/pdf"),
        (b"a\0b", "", "binary data"),
    ],
)
def test_what_is_no_text_is_refused(body, kind, told):
    with pytest.raises(ToolError, match=told):
        page_text(body, kind)
