"""The permission mode that a person switches while an agent runs."""

import pytest

from greenroom.cli.modes import CYCLE, STRICT, ModeSwitch
from greenroom.cli.run_rules import load_rules
from greenroom.core import ConfigurationError
from greenroom.permissions import PermissionManager


def switch_from(mode, modes=CYCLE):
    return ModeSwitch(PermissionManager(mode=mode), modes)


def test_the_cycle_goes_through_the_modes_that_a_person_switches():
    modes = switch_from("default")
    assert [modes.next() for _ in range(5)] == [*CYCLE[1:], "default", "accept-edits"]
    assert switch_from("deny").next() == "default"


def test_bypass_alone_has_a_warning():
    modes = switch_from("plan")
    assert modes.warning == ""
    modes.next()
    assert "asks about nothing" in modes.warning


@pytest.mark.parametrize(
    ("name", "modes", "told"),
    [
        ("plann", CYCLE, "there is no mode 'plann' .*did you mean plan"),
        ("deny", CYCLE, "one to start with"),
        ("bypass", STRICT, "off while a rule file can't be used .*one of default, plan"),
    ],
)
def test_what_can_not_be_chosen_is_explained_and_changes_nothing(name, modes, told):
    found = switch_from("plan", modes)
    with pytest.raises(ConfigurationError, match=told):
        found.choose(name)
    assert found.current == "plan"
    assert found.choose("default") == "default"


def test_while_a_rule_file_can_not_be_used_no_mode_allows_anything(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".greenroom").mkdir()
    (tmp_path / ".greenroom" / "permissions.json").write_text("{")
    rules = load_rules(tmp_path)
    assert [rules.modes.next() for _ in range(2)] == ["plan", "default"]
