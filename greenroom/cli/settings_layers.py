"""Which value of a setting counts: the option, else the environment, the project, the user, none.

A project's settings come from its author. Until the user has agreed to the file, byte for byte,
only what makes a run stricter counts: what it denies, a stricter mode or sandbox, lower limits.
Some settings are the user's alone even then.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from greenroom.agents._internal import is_trusted
from greenroom.cli.options import Options
from greenroom.cli.run_settings import RunSetting, list_run_settings
from greenroom.cli.settings import Settings, read_keys, read_settings, user_settings_path
from greenroom.core import ConfigurationError, RuleFileError

_USERS_ALONE = frozenset({"api_keys", "mcp_config", "web_search"})
# The higher, the stricter.
_STRICTNESS: Mapping[str, Mapping[object, int]] = {
    "permission_mode": {"bypass": 0, "accept-edits": 1, "default": 2, "deny": 3, "plan": 3},
    "read_only": {True: 0, False: 1},
    "sandbox": {"off": 0, "workspace-write": 1, "read-only": 2},
    "sandbox_network": {"all": 0, "none": 1},
    "sandboxed": {"allow": 0, "ask": 1},
}
_LIMITS = frozenset({"max_steps", "max_cost"})

_O = TypeVar("_O", bound=Options)


class Layer(msgspec.Struct, frozen=True, eq=False):
    """The settings of one place.

    Attributes:
        source: where they come from: a file, or "environment".
        values: the settings by their names.
    """

    source: str
    values: Mapping[str, object]

    def list_rules(self, name: str) -> tuple[str, ...]:
        """List the rules of a setting that adds up."""
        return tuple(cast("Sequence[str]", self.values.get(name, ())))


class Layers(msgspec.Struct, frozen=True):
    """The settings that count here, the strongest first.

    Attributes:
        layers: the environment, the project, the user.
        settings: what the files say beside the options of a run.
        ignored: settings of the project's file that do not count.
        path: the project's file.
        is_trusted: whether the user has agreed to it.
    """

    layers: tuple[Layer, ...]
    settings: Settings
    ignored: tuple[str, ...]
    path: Path
    is_trusted: bool

    def find(self, name: str) -> Layer | None:
        """Return the strongest layer that has a setting, or None."""
        return next((each for each in self.layers if name in each.values), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, a line each."""
        alone = [name for name in self.ignored if name in _USERS_ALONE]
        wider = [name for name in self.ignored if name not in _USERS_ALONE]
        notes = [
            f"{self.path}: {', '.join(wider)} does not count, since a project may only make a run"
            " stricter; greenroom permissions trust shows the file, and lets it count"
        ]
        others = [f"{self.path}: {', '.join(alone)} counts in your own settings only"]
        return (*(notes if wider else ()), *(others if alone else ()))


def project_settings_path(workspace: Path) -> Path:
    """Return the project's settings file, which need not exist."""
    return workspace / ".greenroom" / "settings.json"


def read_layers(workspace: Path, env: Mapping[str, str]) -> Layers:
    """Read the settings that count in a folder; it blocks.

    Raises:
        ConfigurationFileError: a file can't be used; nothing of it is.
        ConfigurationError: a variable of the environment can't be used.
    """
    path = project_settings_path(workspace)
    user, project = read_settings(), read_settings(path)
    usable, trusted = project.values, bool(project.values) and is_trusted_here(path)
    if not trusted:
        usable = tighten(project.values, user.values)
    usable = {name: value for name, value in usable.items() if name not in _USERS_ALONE}
    layers = (
        Layer("environment", _read_environment(env)),
        Layer(str(path), usable),
        Layer(str(user_settings_path()), user.values),
    )
    ignored = tuple(name for name in project.values if name not in usable)
    return Layers(layers, _merge(user, project, usable), ignored, path, trusted)


def read_run_settings(workspace: Path, env: Mapping[str, str]) -> Settings:
    """Read the settings that count in a folder beside the options of a run, with keys; it blocks.

    Raises:
        ConfigurationError: a file, a variable or the keyring can't be used.
    """
    return read_keys(read_layers(workspace, env).settings)


def is_trusted_here(path: Path, digest: str | None = None) -> bool:
    """Whether the user has agreed to a file of the project; no where that can't be found out."""
    try:
        return is_trusted(path, digest)
    except RuleFileError:  # the list of trusted files can't be read, so nothing is trusted
        return False


def _read_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Read the variables; that of the model is read where the model is chosen."""
    found = {
        each.name: each.read(env[each.variable])
        for each in list_run_settings().values()
        if env.get(each.variable, "").strip() and each.name != "model"
    }
    if model := env.get(list_run_settings()["model"].variable, "").strip():
        found["model"] = model
    return found


def tighten(values: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """Keep only what is stricter than the user's own settings or the defaults.

    Example:
        >>> tighten({"deny": ["Bash"], "allow": ["*"], "max_steps": 5}, {})
        {'deny': ['Bash'], 'max_steps': 5}
    """
    return {name: value for name, value in values.items() if _is_stricter(name, value, own)}


def _is_stricter(name: str, value: object, own: Mapping[str, object]) -> bool:
    setting = list_run_settings().get(name)
    if setting is None:
        return False
    before = own.get(name, getattr(Options(), setting.field))
    if name in _LIMITS:
        return before is None or cast("float", value) < cast("float", before)
    ranks = _STRICTNESS.get(name)
    return name == "deny" or (ranks is not None and ranks[value] > ranks[before])


def _merge(user: Settings, project: Settings, usable: Mapping[str, object]) -> Settings:
    """Put the project's settings that count over the user's; hooks of both run."""
    names = ("model", "window", "prices", "model_settings", "retry", "rate_limit")
    given = {name: getattr(project, name) for name in names if name in usable}
    return replace(user, **given)


def resolve(options: _O, layers: Layers) -> _O:
    """Complete the options of the command line with settings.

    Raises:
        ConfigurationError: together they make no sense.
    """
    values, origins = dict[str, object](), dict[str, str]()
    for setting in list_run_settings().values():
        if setting.name == "model":  # after that of the session, so it is chosen later
            continue
        if setting.kind == "rules":
            values[setting.field] = _add_up(setting, options, layers, origins)
        elif setting.field not in options.given and (layer := layers.find(setting.name)):
            values[setting.field] = layer.values[setting.name]
    confined = {layers.find(name) for name in ("sandbox", "sandbox_network")}
    if any(each and each.source == str(layers.path) for each in confined) and not layers.is_trusted:
        # A sandbox of the project's must be no reason to ask about fewer commands than before.
        values["sandboxed"] = "ask"
    if options.prompt and "input_format" not in options.given:
        values.pop("input_format", None)
    resolved = replace(options, **values, origins=origins, notes=layers.notes)
    check_sandbox(resolved)
    if options.prompt is None:  # a terminal prints and reads what a person does
        headless = ("output_format", "input_format", "on_question")
        return replace(resolved, **{name: getattr(Options(), name) for name in headless})
    check_prompt(resolved)
    return resolved


def _add_up(
    setting: RunSetting, options: Options, layers: Layers, origins: dict[str, str]
) -> tuple[str, ...]:
    rules = dict.fromkeys(getattr(options, setting.field))
    for layer in layers.layers:
        for rule in layer.list_rules(setting.name):
            if rule not in rules:
                rules[rule] = None
                origins[rule] = setting.variable if layer.source == "environment" else layer.source
    return tuple(rules)


def check_sandbox(options: Options) -> None:
    """Check that what the command line says about a sandbox is said of one.

    Raises:
        ConfigurationError: there is no sandbox.
    """
    is_said = "sandbox_network" in options.given
    is_said |= "sandboxed" in options.given and options.sandboxed == "allow"
    if options.sandbox == "off" and is_said:
        raise ConfigurationError(
            "--sandbox-network and --sandboxed need a sandbox", hint="add --sandbox MODE"
        )


def check_prompt(options: Options) -> None:
    """Check that a headless run has a prompt, or reads them.

    Raises:
        ConfigurationError: it has none, or two ways to get one.
    """
    reads_lines = options.input_format == "stream-json"
    if reads_lines and options.output_format != "stream-json":
        raise ConfigurationError(
            "--input-format stream-json needs --output-format stream-json", hint="add it"
        )
    if reads_lines and options.prompt:
        raise ConfigurationError(
            "with --input-format stream-json the prompts are read", hint="write -p without one"
        )
    if not reads_lines and not (options.prompt or "").strip():
        raise ConfigurationError("the prompt is empty", hint="write -p PROMPT, or -p - to read it")
