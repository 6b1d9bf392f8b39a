"""URLs that two parsers could read differently are refused, and redirects are judged."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from greenroom.core._internal import AddressRefusedError
from greenroom.net._internal import check_url, is_same_host, port_of, redirect_target


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://a.test", "a.test", 80),
        ("HTTPS://A.test/x?y#z", "a.test", 443),
        ("http://a.test:8080/", "a.test", 8080),
        ("http://[::1]:81/", "::1", 81),
        ("https://bücher.test/", "bücher.test", 443),
    ],
)
def test_a_web_url_has_a_host_and_a_port(url, host, port):
    parts = check_url(url)
    assert (parts.hostname, port_of(parts)) == (host, port)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a.test/", "the scheme 'ftp'"),
        ("file:///etc/passwd", "the scheme 'file'"),
        ("a.test/x", "the scheme ''"),
        ("http:///x", "names no host"),
        ("http://127.0.0.%31/", "names no host"),
        ("http://a.test:0/", "names no host"),
        ("http://a.test:99999/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://user:secret@a.test/", "a user name or a password"),
        ("http://a.test@b.test/", "a user name or a password"),
        ("http://a.test\\@b.test/", "backslash"),
        ("http://a.test/ b", "blank"),
        ("http://a.test\n/", "control"),
        ("http://a.test/" + "x" * 9_000, "too long"),
    ],
)
def test_anything_else_is_refused_with_its_reason(url, reason):
    with pytest.raises(AddressRefusedError, match=reason) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_url_or_refused(text):
    with suppress(AddressRefusedError):
        assert check_url(text).hostname


def test_redirects_are_followed_from_where_they_come():
    assert redirect_target("http://a.test/b/c", 301, "/d") == "http://a.test/d"
    assert redirect_target("http://a.test/b/c", 308, "https://x.test/") == "https://x.test/"
    assert redirect_target("http://a.test/", 302, "/b c?d e") == "http://a.test/b%20c?d%20e"
    assert redirect_target("http://a.test/", 200, "/d") is None
    assert redirect_target("http://a.test/", 302, "") is None
    with pytest.raises(AddressRefusedError, match="redirects to what is not a URL"):
        redirect_target("http://a.test/", 302, "http://[x/")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a.test/x", "http://A.test:80/y", True),
        ("http://a.test/", "https://a.test/", True),
        ("https://a.test/", "http://a.test/", False),
        ("http://a.test:8080/", "https://a.test/", False),
        ("http://a.test/", "http://a.test:8080/", False),
        ("http://a.test/", "http://www.a.test/", False),
    ],
)
def test_the_same_server_or_another(one, other, same):
    assert is_same_host(one, other) is same


def test_a_redirect_to_what_is_not_fetched_is_refused():
    with pytest.raises(AddressRefusedError):
        is_same_host("http://a.test/", "file:///etc/passwd")
