"""Commands of the input line about the run: its model, its mode, its rules, what it costs.

Where the command line has the same, its function is run and what it prints is shown.
"""

import os
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import cast, get_args

import trio
from rich.text import Text

from greenroom.cli.command_context import CommandContext
from greenroom.cli.command_options import (
    ConfigOptions,
    MCPOptions,
    MemoryOptions,
    PermissionsOptions,
    SessionsOptions,
)
from greenroom.cli.config_command import set_setting
from greenroom.cli.cost_command import print_usage
from greenroom.cli.doctor import run_doctor
from greenroom.cli.formatting import one_line
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.mcp_command import describe_status, list_servers
from greenroom.cli.memory_command import list_entries
from greenroom.cli.permissions_command import RULE_COLUMNS, rule_row, show_decisions
from greenroom.cli.rule_changes import LIFETIMES, drop_kept_rule, keep_rule, read_rule
from greenroom.cli.run_setup import open_model_of_run
from greenroom.cli.sessions_read import export_to, list_sessions
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.skills_command import list_skills
from greenroom.cli.stdio import OutputWriter, collect_output
from greenroom.cli.themes import DESCRIPTIONS, THEMES, name_look
from greenroom.core import ConfigurationError, RuleDecision
from greenroom.core._internal import Effort, Remember
from greenroom.llm import model_profile
from greenroom.llm._internal import full_name, similar_models, window_of


async def change_model(context: CommandContext, words: str) -> None:
    """Send the next request to another model; an unknown name changes nothing."""
    if not words:
        await context.choose("/model ", "model")
        return
    run = context.run
    name = full_name(words, os.environ)
    if model_profile(name).looked_up is None and (near := similar_models(name)):
        raise ConfigurationError(
            f"{name} is not in the catalogue, and nothing was changed",
            hint=f"did you mean {near[0]}? `greenroom --model {name}` takes it all the same",
        )
    settings = await trio.to_thread.run_sync(read_run_settings, run.setup.workspace, os.environ)
    model, notes = open_model_of_run(name, run.setup.session, os.environ, settings)
    run.setup.model.exchange(model)
    context.screen.show_model(run.setup.model_name, window_of(model))
    context.screen.note("\n".join([f"from the next request on: {run.setup.model_name}", *notes]))


async def change_effort(context: CommandContext, words: str) -> None:
    """Have the model think more or less, from the next request on."""
    model = context.run.setup.model
    if not words:
        await context.choose("/effort ", "effort")
        return
    if words not in get_args(Effort):
        efforts = ", ".join(get_args(Effort))
        raise ConfigurationError(f"{one_line(words)!r} is not an effort", hint=f"one of {efforts}")
    model.effort = cast("Effort", words)
    context.screen.note(f"effort {words}, from the next request on")


async def change_mode(context: CommandContext, words: str) -> None:
    """Switch the permission mode, for the calls to come."""
    modes = context.run.setup.modes
    if not words:
        await context.choose("/mode ", "mode")
        return
    modes.choose(words)
    if modes.warning:
        context.screen.error(modes.warning)


async def change_theme(context: CommandContext, words: str) -> None:
    """Draw in other colours from now on, and in later runs."""
    if not words:
        await context.choose("/theme ", "theme")
        return
    if words not in DESCRIPTIONS:
        near = get_close_matches(words, DESCRIPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(DESCRIPTIONS)}"
        raise ConfigurationError(f"there is no theme {one_line(words)!r}", hint=hint)
    await _show(context, lambda: set_setting(ConfigOptions(name="theme", value=words)))
    look = name_look(words, is_light=context.run.is_light)
    context.screen.restyle(THEMES[look], LINE_STYLES[look])


async def show_permissions(context: CommandContext, words: str) -> None:
    """Show the rules in force and what was decided in this session; add or remove a rule."""
    verb, _, rule = words.partition(" ")
    match verb:
        case "":
            await _show(context, lambda: _print_rules(context))
        case "allow" | "deny" | "ask":
            await _add_rule(context, rule.strip(), RuleDecision(verb))
        case "remove":
            await _remove_rule(context, rule.strip())
        case _:
            raise ConfigurationError(
                f"/permissions does not know {one_line(verb)!r}",
                hint="allow, deny or ask RULE, with project or always before it, or remove NAME",
            )


async def _print_rules(context: CommandContext) -> None:
    setup = context.run.setup
    page = OutputWriter()
    rules = [rule for rule in setup.permissions.rules if not rule.is_expired]
    await page.table(RULE_COLUMNS, [rule_row(each) for each in rules])
    await page.text(f"\nmode: {setup.permissions.mode}\n")
    if setup.session.is_saved and setup.session.history:
        await show_decisions(
            PermissionsOptions(
                sessions=context.run.options.sessions, session_id=setup.session.session_id, last=20
            )
        )


async def _add_rule(context: CommandContext, text: str, decision: RuleDecision) -> None:
    """Add a rule for this session, or where the first word says for longer."""
    scope, _, rest = text.partition(" ")
    lifetime: Remember = scope if scope in LIFETIMES else "session"
    setup = context.run.setup
    rule = read_rule(rest if scope in LIFETIMES else text, decision, lifetime, setup.workspace)
    warning = ""
    if lifetime == "session":
        setup.permissions.add_session_rule(setup.session.session_id, rule)
    else:
        warning = await trio.to_thread.run_sync(keep_rule, rule, lifetime, setup.workspace)
        setup.permissions.add_rule(rule)
    context.screen.note(f"added {LIFETIMES[lifetime]}: {rule}")
    if warning:
        context.screen.note(f"it counts in this run only: {warning}")


async def _remove_rule(context: CommandContext, name: str) -> None:
    """Remove a rule of this session, or one of the user's or the project's file."""
    setup = context.run.setup
    permissions = setup.permissions
    found = [rule for rule in permissions.rules if name in (rule.id, str(rule))]
    if not found:
        raise ConfigurationError(
            f"there is no rule {one_line(name)!r}", hint="/permissions lists them"
        )
    rule = found[0]
    if rule.session:
        permissions.remove_session_rule(rule.session, rule.id)
    elif await trio.to_thread.run_sync(drop_kept_rule, rule, setup.workspace):
        permissions.remove_rules([rule])
    else:
        raise ConfigurationError(
            f"{one_line(rule)} can't be removed, since it comes from: {one_line(rule.source)}",
            hint="deny what it allows",
        )
    context.screen.note(f"removed: {rule}")


async def show_sessions(context: CommandContext, words: str) -> None:
    """List the sessions of this folder; `all` lists those of other folders too."""
    options = SessionsOptions(sessions=context.run.options.sessions, here=words != "all", limit=20)
    await _show(context, lambda: list_sessions(options))


async def export(context: CommandContext, words: str) -> None:
    """Write the session to a file, in the format that its ending names."""
    setup = context.run.setup
    path = words or f"{setup.session.session_id}.md"
    options = SessionsOptions(
        sessions=context.run.options.sessions, ids=(setup.session.session_id,), output=path
    )
    await _show(context, lambda: export_to(options))
    context.screen.note(f"written: {path}")


async def check_setup(context: CommandContext, words: str) -> None:
    """Say what is set up and what is missing."""
    await _show(context, lambda: run_doctor(context.run.options))


async def show_memory(context: CommandContext, words: str) -> None:
    """Show the texts that the model reads after the prompt, and what is remembered."""
    setup = context.run.setup
    lines = [_describe_text(each.path, each.is_trusted) for each in setup.sources]
    context.screen.note(
        "\n".join(
            ["instructions that the model reads:", *lines]
            if lines
            else ["no AGENTS.md or other instructions are read"]
        )
    )
    if context.run.options.memory:
        await _show(context, lambda: list_entries(MemoryOptions()))
    else:
        context.screen.note("nothing is remembered over sessions; greenroom --memory does that")


async def show_skills(context: CommandContext, words: str) -> None:
    """List the skills, where each comes from, and whether it is trusted."""
    await _show(context, lambda: list_skills(context.run.options))


async def show_servers(context: CommandContext, words: str) -> None:
    """List the servers of tools: how each is, and what it has."""
    servers = context.run.setup.servers.connected
    if servers is None:
        await _show(context, lambda: list_servers(MCPOptions()))
        return
    lines = [line for each in servers.status for line in describe_status(each)]
    context.screen.note("\n".join(lines))


def _describe_text(path: object, is_trusted: bool) -> str:
    trust = "" if is_trusted else " (not trusted: greenroom permissions trust)"
    return f"  {one_line(path)}{trust}"


async def show_cost(context: CommandContext, words: str) -> None:
    """Show tokens by kind and what they cost, of this session and its subagents."""
    setup, handle = context.run.setup, context.handle
    rows = {
        "this session": setup.session.used.usage,
        "since it was opened": await handle.usage(),
        "with its subagents": await handle.tree_usage(),
    }
    await _show(context, lambda: print_usage(rows, setup.currency))


async def _show(context: CommandContext, command: Callable[[], Awaitable[object]]) -> None:
    """Run a function of the command line, and show what it prints."""
    with collect_output(context.screen.columns) as page:
        await command()
    if page.text:
        context.screen.print(Text.from_ansi(page.text))
