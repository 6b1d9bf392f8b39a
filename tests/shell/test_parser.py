"""What the parser finds in a text, without a rule."""

import pytest

from greenroom.shell import parse


def words(text):
    return [" ".join(word.text for word in node.words) for node in parse(text).findings]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("true", ["true"]),
        ("true\n", ["true"]),
        (" ls -l ", ["ls -l"]),
        ("# ls -l", []),
        ("ls # -l", ["ls"]),
        ("ls #-l", ["ls"]),
        ("ls a#b", ["ls a#b"]),
        ("", []),
        ("time", []),
        ("time ls", ["ls"]),
    ],
)
def test_plain_commands_are_read_like_all_others(text, found):
    assert words(text) == found
    assert words(f"{{ {text}\n}}" if found else f"{{ :\n{text}\n}}") == (found or [":"])
