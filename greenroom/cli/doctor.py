"""`greenroom doctor`: checks the set-up, and says what is missing and how to fix it."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import trio

from greenroom import core
from greenroom.agents._internal import user_rules_path
from greenroom.cli.argument_values import is_server
from greenroom.cli.formatting import one_line
from greenroom.cli.options import Options
from greenroom.cli.run_rules import count_ignored_rules, project_rules_path
from greenroom.cli.settings import (
    Settings,
    collect_advice,
    read_keys,
    read_settings,
    user_settings_path,
)
from greenroom.cli.stdio import OutputWriter
from greenroom.cli.stored_sessions import (
    configured_place,
    open_place,
    sessions_folder,
    working_folder,
)
from greenroom.cli.tool_names import find_unknown_names
from greenroom.core._internal import SandboxReport, quantity, serde
from greenroom.llm._internal import DEFAULT_MODELS, HOSTS, MODEL_VARIABLE, VENDORS
from greenroom.permissions._internal import read_rules
from greenroom.tools import Sandbox, examine_sandbox

_KEYS = tuple(key for name in DEFAULT_MODELS for key in VENDORS[name].keys)
_VARIABLES = (
    MODEL_VARIABLE,
    *(f"{key}{end}" for vendor in VENDORS.values() for key in vendor.keys for end in ("", "_FILE")),
    "ANTHROPIC_BASE_URL",
    *(variable for host in HOSTS.values() for variable in host.base_variables),
    "HTTPS_PROXY",
    "SSL_CERT_FILE",
)
_MARKS = {"ok": "ok  ", "note": "note", "problem": "FAIL"}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        about: what it is about.
        status: "ok"; "note" where something optional is missing; "problem" where it must be fixed.
        detail: what was found.
        fix: what to do, or empty.
    """

    about: str
    status: Literal["ok", "note", "problem"]
    detail: str
    fix: str = ""


async def run_doctor(options: Options) -> int:
    """Print the findings; the exit code is 1 if something must be fixed."""
    findings = await trio.to_thread.run_sync(examine, options)
    findings.append(await examine_commands(options))
    out = OutputWriter()
    if options.json:
        await out.line(serde.dumps([asdict(each) for each in findings]))
    else:
        for each in findings:
            await out.text(f"{_MARKS[each.status]}  {each.about}: {each.detail}")
            if each.fix:
                await out.text(f"      → {each.fix}")
    return 1 if any(each.status == "problem" for each in findings) else 0


def examine(options: Options, env: Mapping[str, str] | None = None) -> list[Finding]:
    """Check everything that a run needs. Keys are named; their values are never shown."""
    env = os.environ if env is None else env
    settings, about_settings = _settings()
    return [
        Finding("Python", "ok", f"{platform.python_version()}, {sys.executable}"),
        _platform(),
        _model(options.model, env, settings),
        about_settings,
        _variables(env),
        _program("bash", "problem", "install bash: the Bash tool runs every command in it"),
        _program("git", "note", "install git: most projects use it"),
        *_search(settings, env),
        _program("rg", "note", "install ripgrep: searching large folders is faster with it"),
        _sessions(options, env),
        _rules("your rules", user_rules_path()),
        _project_rules(project_rules_path(working_folder())),
        _terminal(env),
    ]


async def examine_commands(options: Options) -> Finding:
    """Check what confines commands, in the requested sandbox or the default one."""
    sandbox = Sandbox()
    if options.sandbox != "off":
        sandbox = Sandbox(options.sandbox, options.sandbox_network)
    report = await examine_sandbox(sandbox)
    state = "off" if options.sandbox == "off" else options.sandbox
    confined = f"{report.tier} confines {', '.join(report.enforced)}"
    detail = f"{state}; {confined}; missing: {_list_gaps(report)}"
    if not report.lacking:
        return Finding("sandbox", "ok", detail)
    fix = "install bubblewrap, and let it make namespaces: it confines more"
    return Finding("sandbox", "note", detail, fix)


def _list_gaps(report: SandboxReport) -> str:
    """List what the sandbox does not confine, each reason once."""
    reasons = dict.fromkeys(report.why[part] for part in report.missing)
    return "; ".join(
        f"{', '.join(part for part in report.missing if report.why[part] == reason)} ({reason})"
        for reason in reasons
    )


def _platform() -> Finding:
    known = sys.platform in ("linux", "darwin")
    fix = "" if known else "use Linux or macOS"
    return Finding("platform", "ok" if known else "problem", platform.platform(terse=True), fix)


def _settings() -> tuple[Settings, Finding]:
    path, about = user_settings_path(), "your settings"
    try:
        settings = read_keys(read_settings(path))
    except core.ConfigurationError as error:
        detail = f"{error.message}; until that is fixed, no run begins"
        return Settings(), Finding(about, "problem", detail, error.hint)
    if not path.exists():
        return settings, Finding(about, "ok", f"none ({path})")
    parts = [f"the model {settings.model}"] if settings.model else []
    parts.append(quantity(len(settings.prices), "price"))
    return settings, Finding(about, "ok", f"{', '.join(parts)} in {path}")


def _model(name: str | None, env: Mapping[str, str], settings: Settings) -> Finding:
    try:
        with collect_advice() as advice:
            provider = settings.open(name, env)
        reason = "named with --model" if name is not None else settings.choose(env).reason
    except core.ConfigurationError as error:
        return Finding("model", "problem", error.message, error.hint)
    detail = f"{provider.name}:{provider.model}, {reason}"
    if provider.name == "offline" and reason.startswith(("since no key", "since your keys")):
        fix = f"set one of {', '.join(_KEYS)} to talk to a language model"
        return Finding("model", "note", detail, fix)
    return Finding("model", "note" if advice else "ok", detail, "; ".join(advice))


def _variables(env: Mapping[str, str]) -> Finding:
    names = [each for each in dict.fromkeys(_VARIABLES) if env.get(each, "").strip()]
    return Finding("variables set", "ok", ", ".join(names) or "none")


def _search(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    """Say what searches the web, if the user has set it up; it is not contacted."""
    found, about = settings.web_search, "web search"
    if found is None:
        return []
    try:
        found.open(env)
    except core.ConfigurationError as error:
        return [Finding(about, "problem", f"off: {error.message}", error.hint)]
    place = f" at {found.url}" if found.url else ""
    key = f", with the key in {found.key_env}" if found.key_env else ""
    return [Finding(about, "ok", f"{found.backend}{place}{key}")]


def _program(name: str, missing: Literal["note", "problem"], fix: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, "ok", path) if path else Finding(name, missing, "not found", fix)


def _sessions(options: Options, env: Mapping[str, str]) -> Finding:
    try:
        given = options.sessions or configured_place(env) or str(sessions_folder(env))
        if is_server(given):
            store = open_place(given)
            trio.run(store.exists, "s-none")  # whether the server takes us
            return Finding("sessions", "ok", repr(store))
    except (core.ConfigurationError, core.SessionError) as error:
        return Finding("sessions", "problem", error.message, error.hint)
    folder = Path(given).expanduser()
    place = folder.parent if folder.is_file() else folder  # a database has files beside it
    nearest = next(each for each in (place, *place.absolute().parents) if each.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Finding("sessions", "ok", str(folder))
    fix = "make it writable, or name another folder with --sessions DIR"
    return Finding("sessions", "problem", f"{nearest} can't be written", fix)


def _rules(about: str, path: Path) -> Finding:
    if not path.exists():
        return Finding(about, "ok", f"none ({path})")
    try:
        rules = read_rules(path)
    except core.RuleFileError as error:
        detail = f"{error.message}; until that is fixed, every call is asked about, or denied"
        return Finding(about, "problem", detail, error.hint)
    detail = f"{len(rules)} in {path}"
    for rule in rules:
        for fault in find_unknown_names(rule):
            detail += f"; the rule {one_line(repr(rule.id))}: {fault}"
            fix = 'name what exists, or with "agent": "…" the agent of your own that has the tool'
            return Finding(about, "problem", detail, fix)
    return Finding(about, "ok", detail)


def _project_rules(path: Path) -> Finding:
    finding = _rules("the project's rules", path)
    if finding.status == "problem" or not path.exists():
        return finding
    try:
        ignored = count_ignored_rules(path)
    except core.RuleFileError as error:
        return Finding(finding.about, "problem", error.message, error.hint)
    if not ignored:
        return finding
    detail = f"{finding.detail}; ignored, since a project may only deny and ask: {ignored}"
    return Finding(finding.about, "note", detail, "look at them with greenroom permissions trust")


def _terminal(env: Mapping[str, str]) -> Finding:
    if not sys.stdout.isatty():
        return Finding("terminal", "ok", "standard output is not a terminal, so text is plain")
    size = shutil.get_terminal_size()
    kind = env.get("TERM", "")
    if kind in ("", "dumb"):
        fix = "set TERM, such as TERM=xterm-256color, for colours and a live display"
        return Finding("terminal", "note", f"TERM is {kind!r}, so text is plain", fix)
    colour = "without colour (NO_COLOR)" if env.get("NO_COLOR") else "in colour"
    return Finding("terminal", "ok", f"{kind}, {size.columns} by {size.lines}, {colour}")
