"""The page about upgrades names tests that are there, and the Containerfile what there is."""

import re
import shlex
import tomllib

import pytest

from greenroom.cli.arguments import command_parser
from tests.docs.test_code import ROOT

PAGE = ROOT / "docs" / "reference" / "upgrades.md"
CONTAINER = (ROOT / "Containerfile").read_text().replace("\\\n", "")


@pytest.mark.parametrize(
    ("path", "name"), sorted(set(re.findall(r"\]\((\.\./\S+?\.py) \"(\w+)\"\)", PAGE.read_text())))
)
def test_a_promise_has_a_test(path, name):
    assert f"def {name}(" in (PAGE.parent / path).read_text()


def test_a_container_installs_what_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"whl\)\[([\w,]+)\]", CONTAINER)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    for version in re.findall(r"^FROM python:([\d.]+)-slim", CONTAINER, re.MULTILINE):
        assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_a_container_starts_a_command_that_there_is():
    [words] = re.findall(r"^CMD \[(.*)\]$", CONTAINER, re.MULTILINE)
    command = shlex.split(words.replace(",", " "))
    assert command_parser(command).parse_args(command).host == "0.0.0.0"
