"""Programs that not every system has: a test that needs one is skipped where it is missing."""

import shutil

import pytest

PACKAGES = {
    "bwrap": "bubblewrap",
    "fish": "fish",
    "perl": "perl",
    "pgrep": "procps",
    "ps": "procps",
    "rg": "ripgrep",
    "strace": "strace",
    "taskset": "util-linux",
    "unshare": "util-linux",
    "zsh": "zsh",
}
"""The packages of Debian that hold them, which `.ci/run` installs."""


def explain_absence(program: str) -> str:
    """Say which package is missing, or nothing if the program is there."""
    return (
        ""
        if shutil.which(program)
        else f"{program} ({PACKAGES.get(program, program)}) is not installed"
    )


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a test where this program is missing."""
    reason = explain_absence(program)
    return pytest.mark.skipif(bool(reason), reason=reason or "it is there")
