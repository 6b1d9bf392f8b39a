"""The policy of a sandbox: a value that refuses what has no meaning."""

import os
import pwd
from pathlib import Path

import pytest

from greenroom.core import ConfigurationError, Workspace
from greenroom.core._internal import serde
from greenroom.sandbox.resolved_policy import PolicyPaths
from greenroom.tools import ProcessLimits, Sandbox


def test_it_survives_json_and_is_compared_by_value() -> None:
    sandbox = Sandbox(
        network="all",
        writable=("build",),
        deny_read=("~/.ssh",),
        limits=ProcessLimits(memory_megabytes=100),
        require=frozenset({"files"}),
    )
    assert serde.decode(serde.encode(sandbox), Sandbox) == sandbox != Sandbox()
    assert hash(sandbox) == hash(serde.decode(serde.encode(sandbox), Sandbox))


def test_any_list_of_paths_and_parts_will_do() -> None:
    sandbox = Sandbox(deny_read=[Path("/secret")], require={"files"})  # type: ignore[arg-type]
    assert sandbox == Sandbox(deny_read=("/secret",), require=frozenset({"files"}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "full"}, "mode: unknown value 'full'.*workspace-write, read-only"),
        ({"network": "some"}, "network: unknown value 'some'"),
        ({"require": {"everything"}}, "require: unknown value 'everything'"),
        ({"writable": "build"}, "writable is 'build'.*list"),
        ({"deny_read": ("",)}, "deny_read contains an invalid path"),
        ({"deny_read": ("a\0b",)}, "deny_read contains an invalid path"),
        ({"mode": "read-only", "writable": ("build",)}, "nothing writable"),
    ],
)
def test_what_has_no_meaning_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Sandbox(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9"])
@pytest.mark.parametrize("name", ["cpu_seconds", "memory_megabytes", "file_megabytes", "processes"])
def test_a_limit_is_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        ProcessLimits(**{name: value})  # type: ignore[arg-type]


def test_what_a_policy_asks_for_follows_from_it() -> None:
    always = {"files", "attributes", "services", "signals", "syscalls"}
    assert Sandbox().requested_parts == always | {"protected", "network"}
    assert Sandbox("read-only", "all").requested_parts == always
    limits = ProcessLimits(cpu_seconds=1, memory_megabytes=1, file_megabytes=1, processes=1)
    asked = Sandbox("read-only", "all", deny_read=("x",), limits=limits).requested_parts
    assert asked == always | {"hidden", "cpu", "memory", "file_size", "processes"}
    assert Sandbox("read-only", "all", require=frozenset({"disk"})).requested_parts == always | {
        "disk"
    }


def test_start_up_files_stay_in_the_home_of_whoever_owns_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = pwd.struct_passwd(("x", "", os.getuid(), 0, "", str(tmp_path), ""))
    assert f"{tmp_path}/.zshrc" not in PolicyPaths.of(Sandbox(), Workspace(tmp_path)).protected
    monkeypatch.setattr(pwd, "getpwuid", {os.getuid(): entry}.__getitem__)
    assert f"{tmp_path}/.zshrc" in PolicyPaths.of(Sandbox(), Workspace(tmp_path)).protected
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert f"{tmp_path}/.git" in PolicyPaths.of(Sandbox(), Workspace(tmp_path)).protected
