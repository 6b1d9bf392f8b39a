"""`greenroom config`: show the settings and where each comes from, set one, remove one."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import trio

from greenroom.agents._internal import is_trusted, rules_digest, trust_rules
from greenroom.cli.command_options import ConfigOptions
from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.options import Options
from greenroom.cli.run_settings import list_run_settings
from greenroom.cli.settings import parse_settings, read_settings, user_settings_path
from greenroom.cli.settings_layers import Layers, project_settings_path, read_layers
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core import ConfigurationError
from greenroom.core._internal import ConfigurationFileError, InvalidJSONError, serde
from greenroom.fs._internal import durable


async def show_config(options: ConfigOptions) -> int:
    """Print each setting with its value and where it comes from, one a line.

    Raises:
        ConfigurationError: a file or a variable can't be used.
    """
    layers = await trio.to_thread.run_sync(read_layers, working_folder(), os.environ)
    tell(*layers.notes)
    rows = list(_find_values(layers))
    page = OutputWriter()
    if options.json:
        found = [{"name": name, "value": value, "source": source} for name, value, source in rows]
        await page.line(serde.dumps(found))
        return 0
    for name, value, source in rows:
        place = shorten_home(one_line(source))
        await page.text(f"{name} = {serde.encode(value).decode()}  ({place})")
    return 0


def _find_values(layers: Layers) -> Iterator[tuple[str, object, str]]:
    from greenroom.cli.settings_schema import SettingsModel

    usual, known = Options(), list_run_settings()
    for name, about in SettingsModel.model_fields.items():
        if name == "schema_":
            continue
        if name in known and known[name].kind == "rules":
            rules = [(rule, each) for each in layers.layers for rule in each.list_rules(name)]
            yield from ((name, rule, each.source) for rule, each in rules)
            yield from () if rules else [(name, [], "default")]
        elif (layer := layers.find(name)) is not None:
            yield name, layer.values[name], layer.source
        else:
            value = getattr(usual, known[name].field) if name in known else about.default
            dump = getattr(value, "model_dump", None)
            yield name, dump(exclude_unset=True) if dump else value, "default"


async def set_setting(options: ConfigOptions) -> int:
    """Set a setting in the user's file or the project's.

    Raises:
        ConfigurationError: there is no such setting, or the value can't be used; nothing changes.
    """

    def change(values: dict[str, object], path: str) -> None:
        fault: ConfigurationFileError | None = None
        for value in _read_value(options.value):
            changed = {**values, options.name: value}
            try:
                parse_settings(serde.dumps(changed).decode(), path)
            except ConfigurationFileError as error:
                fault = fault or error
            else:
                values.update(changed)
                return
        assert fault is not None  # there is always a value
        where = fault.message.partition(": ")[2] or fault.message
        raise ConfigurationError(where, hint=fault.hint)

    return await _change(options, change)


def _read_value(text: str) -> Iterator[object]:
    """Yield what a value may mean, the most likely first: JSON, a text, a list of that text."""
    with suppress(InvalidJSONError):
        yield serde.loads(text)
    yield text
    yield [text]


async def unset_setting(options: ConfigOptions) -> int:
    """Remove a setting from the user's file or the project's.

    Raises:
        ConfigurationError: it is not there.
    """

    def change(values: dict[str, object], path: str) -> None:
        if options.name not in values:
            raise ConfigurationError(
                f"{path} does not set {options.name}", hint="greenroom config shows what is set"
            )
        del values[options.name]

    return await _change(options, change)


async def _change(options: ConfigOptions, change: Callable[[dict[str, object], str], None]) -> int:
    path = project_settings_path(working_folder()) if options.project else user_settings_path()
    await trio.to_thread.run_sync(_change_file, path, change, options.project)
    await OutputWriter().text(f"{path} is written")
    return 0


def _change_file(
    path: Path, change: Callable[[dict[str, object], str], None], is_projects: bool
) -> None:
    """Change a settings file; a project's that was trusted, or new, is trusted afterwards."""
    read_settings(path)  # one that can't be used is left as it is
    trusts = is_projects and (not path.exists() or is_trusted(path))
    values = serde.loads_object(path.read_text("utf-8-sig")) if path.exists() else {}
    change(values, str(path))
    # A link of the user's own stays; one in a project may lead anywhere.
    place = path if is_projects else Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(str(place), serde.dumps(values, pretty=True) + b"\n")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}") from error
    if trusts:
        trust_rules(path, str(rules_digest(path)))
