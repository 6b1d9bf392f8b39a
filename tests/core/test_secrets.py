"""Secrets in foreign texts: found by form or by name, in time that grows with the text."""

import base64
import json
import logging
import os
import pathlib
import random
import traceback

import pytest
from hypothesis import given, strategies as st

from greenroom.core import secrets as secret_forms
from greenroom.core._internal import (
    conceal_secrets,
    conceal_texts,
    describe_error,
    log_error,
    map_texts,
    notice,
)
from greenroom.core.secrets import SECRET, compile_forms

KEY = "sk-ant-api03-Zm9vYmFyMTIz"
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0\n-----END {0}PRIVATE KEY-----"

SECRETS = [
    KEY,
    "gsk_a1b2c3d4e5f6g7h8i9j0",
    "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "ghp_abcdefghij0123456789abcdefghij012345",
    "github_pat_11ABCDEFG0123456789_abcdef",
    "xoxb-123456789012-abcdefGHIJKL",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AQ.abcdefgh1234567890abcd",
    "ya29.abcdefgh1234567890abcd",
    "xapp-1-A012ABC-345-0123456789abcdef",
    "whsec_abcdefgh12345678901234",
    "shpat_0123456789abcdef0123456789abcdef",
    "SG.abcdefghijklmnop12345.qwertyuiop1234567890",
    "GOCSPX-abcdefgh12345678901234",
    "glpat-abcdefGHIJKLmnopqrst",
    "lin_api_abcdefgh1234567890",
    "hvs.abcdefgh1234567890abcd",
    "ATATT3xFfGF0abcdefgh1234567890",
    "dapi0123456789abcdef0123456789abcdef",
    "123456789:AAabcdefghijklmnopqrstuvwxyz1234567",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxwRJSMeKKF2QT4fw",
    PEM.format(""),
    PEM.format("RSA "),
    PEM.format("OPENSSH ").replace("\n", "\\n"),
    PEM.format("EC ").partition("\n-----END")[0],
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "401: the key {} is wrong", "'\\n{}'", "{{'x': '{}'}}", "a={}\nb"]
)
def test_a_secret_is_found_by_its_form(secret, around):
    concealed = conceal_secrets(around.format(secret), {})
    assert secret not in concealed
    assert concealed.startswith(around.partition("{}")[0].replace("{{", "{"))


@pytest.mark.parametrize(
    ("text", "concealed"),
    [
        ("Authorization: Bearer abc123", "Authorization: [secret]"),
        ("with Bearer abcdEF12345 to x", "with Bearer [secret] to x"),
        ("(Basic dXNlcjpwYXNzd29yZA==)", "(Basic [secret])"),
        ("{'Authorization': 'ApiKey abcdefgh1'}", "{'Authorization': '[secret]'}"),
        ('{"x-api-key": "k1234567890", "n": 1}', '{"x-api-key": "[secret]", "n": 1}'),
        ("postgres://ann:p%40ss@db/x", "postgres://[secret]@db/x"),
        ("postgres://ann:p4ss@w0rd@db/x?a=b@c", "postgres://[secret]@db/x?a=b@c"),
        ("HTTPS://ann:pass1234@h", "HTTPS://[secret]@h"),
        (r'{"url":"https:\/\/ann:pa55@h"}', r'{"url":"https:\/\/[secret]@h"}'),
        ("client_secret=abcdefgh1", "client_secret=[secret]"),
        ("/blob?sv=1&signature=abcdef123", "/blob?sv=1&signature=[secret]"),
        ("redis://:pass1234@h:6379", "redis://[secret]@h:6379"),
        ("clone https://oauth2token99@git.example/a", "clone https://[secret]@git.example/a"),
        ("GET /v1?api_key=abc12345&x=1", "GET /v1?api_key=[secret]&x=1"),
        ("access_token: 'abcdefgh1'", "access_token: '[secret]'"),
        ("?token=abcdefgh1", "?token=[secret]"),
        ("password = hunter2hunter2", "password = [secret]"),
        ("Set-Cookie: sid=abc123def; path=/", "Set-Cookie: [secret]"),
        ("run --api-key abcdef123 -v", "run --api-key [secret] -v"),
        ("tool --acme-token 'abcdef123'", "tool --acme-token '[secret]'"),
        ("['cli', '--password', 'abcdef123']", "['cli', '--password', '[secret]']"),
        ('[("api_key", "abcdef123"), ("a", 1)]', '[("api_key", "[secret]"), ("a", 1)]'),
        ("[b'X-Api-Key', b'abcdef123']", "[b'X-Api-Key', b'[secret]']"),
        ("('Authorization', 'Bearer abc123')", "('Authorization', '[secret]')"),
        ("{'api_key': b'abcdef123'}", "{'api_key': b'[secret]'}"),
        ("GET /maps?q=x&key=abcdef123", "GET /maps?q=x&key=[secret]"),
        ("/blob?sv=1&sig=abcdef123%3D&se=2", "/blob?sv=1&sig=[secret]&se=2"),
        ("Server=db;Uid=sa;Pwd=abcdef123;", "Server=db;Uid=sa;Pwd=[secret];"),
        ("pwd: 'abcdef123'", "pwd: '[secret]'"),
    ],
)
def test_a_secret_is_found_by_what_comes_before_it(text, concealed):
    assert conceal_secrets(text, {}) == concealed


@pytest.mark.parametrize(
    "text",
    [
        "basic authentication failed; bearer authentication required",
        "SyntaxError: unexpected token: identifier1",
        "Invalid password: too short",
        "KeyError: 'api_key'",
        "max_tokens=4096000000",
        "ssh://git@github.com/a and https://example.com/a@b",
        "the module sk-learn; a task-123-of-the-big-project-44",
        "sk_X509_LOOKUP_sort(st) and sk_ASN1_INTEGER_num",
        "PWD=/home/ann/project2 and OLDPWD=~/project22, pwd = ./project22",
        "fields = ('secret', 'accessKeyId', \"token\", 'userName')",
        "usage: run [--api-key KEY] --token --verbose1 --password PASSWORD",
        "sort(key=by_name_of_2024) and a?monkey=abcdefgh1",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_a_plain_text_stays_as_it_is(text):
    assert conceal_secrets(text, {"HOME": "/home/x", "CI": "true"}) == text


@given(st.text(alphabet="ab1:/@=-_. \n\"'eyJsk", max_size=80))
def test_concealing_twice_changes_nothing_more(text):
    once = conceal_secrets(text, {})
    assert conceal_secrets(once, {}) == once


@pytest.mark.parametrize(
    "name", ["ACME_API_KEY", "DB_PASSWORD", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "SECRET_KEY"]
)
def test_the_value_of_a_secret_variable_is_concealed(name):
    env = {name: 'pa"55/word'}
    for written in ('pa"55/word', 'pa\\"55/word', "pa%2255%2Fword"):
        assert conceal_secrets(f"<{written}>", env) == f"<{SECRET}>"


def test_the_key_of_an_api_may_be_a_word():
    env = {"ACME_API_KEY": "swordfish"}
    text = "swordfish, key=swordfish; swordfishes and a_swordfish"
    assert conceal_secrets(text, env) == f"{SECRET}, key={SECRET}; swordfishes and a_swordfish"


@pytest.mark.parametrize("value", ["", "short1", "password"])
def test_a_value_that_may_be_a_word_stays(value):
    assert conceal_secrets("a short1 password", {"MY_PASSWORD": value}) == "a short1 password"


@pytest.mark.parametrize(
    "piece",
    [
        *["eyJ-", "sk-", "Bearer ", "a://", "http://x:", "api_key:    ", "authorization: "],
        *["token='", "--api-key ", "--a-token", "('api_key', '", "?key=", "pwd=", "--a-a-a"],
    ],
)
def test_the_time_grows_with_the_text(piece):
    """Not measured: a pattern that tries each beginning to the end would take minutes here."""
    assert conceal_secrets(piece * (200_000 // len(piece)), {})


PIECES = [
    *SECRETS,
    *["sk-", "sk_", "ghp_", "shpat_", "eyJ", "-----BEGIN ", "PRIVATE KEY", "-----", "-----END "],
    *["http", "://", ":\\/\\/", "@", ":", "/", "api", "access", "Key", "key", "token", "secret"],
    *["client", "_", "-", "--", "passw", "password", "passwd", "pwd", "authorization", "Cookie"],
    *["bearer", "Basic", " ", "\n", "\\n", "%3D", "=", '"', "'", "', '", "b'", "?", "&", "sig="],
    *["signature=", "SG.", "AIza", "AQ.", "ya29.", "hvs.", "AKIA", "ASIA", "dapi", "12345678"],
    *[":AA", "ATATT3x", "a", "aB", "9", "abcdefgh", "0123456789abcdef", "\N{KELVIN SIGN}ey"],
    *["\N{LATIN SMALL LETTER LONG S}ecret", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "漢"],
    *["s\N{LATIN SMALL LETTER DOTLESS I}g=", "\ud800", ".", ",", ";", "<", "\\", "é"],
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_no_form_is_missed_where_it_is_not_tried(text):
    at, expected, forms = 0, "", compile_forms()
    while at < len(text):
        found = forms.match(text, at)
        if found is None or found.start("form") > at:
            expected, at = expected + text[at], at + 1
        else:
            kept = found.group("scheme", "header", "before", "name", "pair")
            expected, at = expected + "".join(filter(None, kept)) + SECRET, found.end()
    assert conceal_secrets(text, {}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "".join(map("line {}\n".format, range(10_000))),
        "0123456789" * 10_000,
        "a" * 100_000,
        base64.b64encode(random.Random(1).randbytes(75_000)).decode(),
        json.dumps([{"id": n, "token": n, "at": "https://example.org/?q=1"} for n in range(2_000)]),
        pathlib.Path(secret_forms.__file__).with_name("context.py").read_text() * 6,
    ],
    ids=["lines", "digits", "letters", "base64", "json", "code"],
)
def test_a_long_text_without_secrets_is_hardly_tried(text, monkeypatch):
    class Counted:
        tried = 0

        def match(self, text, at):
            Counted.tried += 1
            return forms.match(text, at)

    forms = compile_forms()
    monkeypatch.setattr(secret_forms, "compile_forms", Counted)
    assert conceal_secrets(text, {}) == text
    assert Counted.tried <= 12


def test_each_text_of_a_value_is_changed():
    given_value = {"a": ["x", {"b": ("x", 1, None)}]}
    assert map_texts(given_value, lambda text: text * 2) == {"aa": ["xx", {"bb": ("xx", 1, None)}]}


def test_the_variables_are_read_once_for_a_value_of_many_texts(monkeypatch):
    class Environment(dict):
        read = 0

        def items(self):
            self.read += 1
            return super().items()

    environment = Environment(ACME_API_KEY="swordfish-77")
    monkeypatch.setattr(os, "environ", environment)
    rows = [{"text": "it said: swordfish-77"}] * 1000
    assert conceal_texts({"rows": rows}) == {"rows": [{"text": "it said: [secret]"}] * 1000}
    assert environment.read == 1


def _raised(cause=None):
    try:
        raise ValueError("a failure") from cause
    except ValueError as error:
        return error


@pytest.mark.parametrize("place", ["message", "cause", "note", "group", "member"])
def test_an_error_with_a_long_text_is_not_formatted_for_the_log(place, caplog, monkeypatch):
    long, formatted = "x" * 1_000_000, []
    error = {
        "message": lambda: ValueError(long),
        "cause": lambda: _raised(ValueError(long)),
        "note": _raised,
        "group": lambda: ExceptionGroup(long, [_raised()]),
        "member": lambda: ExceptionGroup("two", [_raised(), KeyError(long)]),
    }[place]()
    if place == "note":
        error.add_note(long)
    monkeypatch.setattr(traceback, "format_exception", formatted.append)
    log_error(logging.getLogger("greenroom"), "a tool raised", error)
    assert formatted == []
    assert "a tool raised: " in caplog.text
    assert len(caplog.text) < 10_000


def test_a_value_that_begins_another_one_leaves_no_rest_of_it():
    env = {"A_API_KEY": "abc12345", "B_API_KEY": "abc12345XYZ99"}
    assert conceal_secrets("abc12345XYZ99 abc12345", env) == "[secret] [secret]"


def test_a_log_shows_no_secret_of_a_line_of_code(caplog):
    try:
        raise ValueError("sk-ant-api03-Zm9vYmFyMTIz")
    except ValueError as error:
        log_error(logging.getLogger("greenroom.tests"), "it failed", error)
    assert "it failed: ValueError: [secret]" in caplog.text
    assert "sk-ant-api03" not in caplog.text


def test_exceptions_are_described_without_secrets():
    error = ExceptionGroup("two", [ValueError(f"no {KEY}"), KeyError("x" * 20_000 + " " + KEY)])
    assert KEY[:12] not in describe_error(error)
    assert describe_error(error).startswith("ValueError: no [secret]")


def test_neither_the_log_nor_a_notice_has_a_secret(caplog):
    log = logging.getLogger("greenroom.test")
    try:
        raise ValueError(f"the key {KEY} was refused")
    except ValueError as error:
        log_error(log, "it failed", error)
    notice(log, f"took {KEY}")
    assert KEY not in caplog.text
    assert "it failed: ValueError: the key [secret] was refused" in caplog.text
    assert "test_secrets.py" in caplog.text
    assert "took [secret]" in caplog.text
