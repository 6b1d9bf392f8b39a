"""`greenroom permissions list`: the rules of a run, in the order in which they are asked."""

from textwrap import wrap
from typing import TYPE_CHECKING

import trio

from greenroom.cli.commands.sessions.row import one_line
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.folders import below_home, working_folder
from greenroom.cli.run.rules import RunRules, rules_of_run
from greenroom.cli.streams.output_writer import tell
from greenroom.core import serde
from greenroom.permissions import PermissionRule, encode_rule
from greenroom.shell import read_only_commands

if TYPE_CHECKING:
    from rich.table import Table

    from greenroom.cli.commands.permissions.arguments import PermissionsOptions

_IGNORED = "it allows, and the project's file is not trusted"
_EXPIRED = "its time is over"


async def list_rules(options: "PermissionsOptions") -> int:
    """Print the rules of a run in this folder, where each comes from, and those that don't count.

    Raises:
        RuleFileError: a rule of the command line can't be used.
    """
    rules = await trio.to_thread.run_sync(
        rules_of_run, working_folder(), options.allow, options.deny, options.mode, options.read_only
    )
    tell(*rules.warnings)
    page = Page()
    if options.json:
        await page.line(serde.dumps(_as_json(rules)))
        return 0
    live = [rule for rule in rules.manager.rules if not rule.expired]
    await page.show(_table([_row(rule) for rule in live]))
    if left_out := _left_out(rules):
        await page.text("\nThese don't count:")
        await page.show(_table([(*_row(rule), why) for rule, why in left_out]))
    if rules.manager.read_only:
        await page.text(f"\n{_READ_ONLY}")
        await page.text("\n".join(wrap(", ".join(read_only_commands()), 96)))
    await page.text(f"\n{_MODES[rules.manager.mode]}")
    return 0


_READ_ONLY = """\
Built in: these commands need no rule where they only read, inside the workspace. Options that write
or run something are asked about, and git where its repository names a program. --no-read-only turns
that off."""
_MODES = {
    "default": "What no rule is about is asked.",
    "accept-edits": "Edits in the workspace of what is not protected are allowed; what else no rule is about is asked.",
    "plan": "Only reading is allowed, whatever the rules say.",
    "deny": "What is not allowed is denied; nobody is asked.",
    "bypass": "What no rule denies is allowed; nobody is asked, but where a denial may be meant.",
}


def _left_out(rules: RunRules) -> list[tuple[PermissionRule, str]]:
    """Return the rules that don't count, and why not."""
    expired = [(rule, _EXPIRED) for rule in rules.manager.rules if rule.expired]
    return [*((rule, _IGNORED) for rule in rules.ignored), *expired]


def _row(rule: PermissionRule) -> tuple[str, ...]:
    limits = [part for part in (rule.agent, rule.session) if part]
    scope = " ".join([rule.scope, *limits])
    extras = ["final"] if rule.final else []
    extras += [f"priority {rule.priority}"] if rule.priority else []
    extras += [f"until {rule.expires.astimezone():%Y-%m-%d %H:%M}"] if rule.expires else []
    name = "" if rule.id == rule.generated_id else rule.id
    cells = map(one_line, (name, ", ".join([scope, *extras])))
    # A matcher is shown whole, so that it can be given to --allow and --deny.
    return (str(rule.decision), str(rule.matcher), *cells, below_home(one_line(rule.source)))


def _table(rows: list[tuple[str, ...]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("decision", "rule", "name", "scope", "from", "why")[: len(rows[0])]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _as_json(rules: RunRules) -> dict[str, object]:
    live = [rule for rule in rules.manager.rules if not rule.expired]
    return {
        "mode": rules.manager.mode,
        "read_only": read_only_commands() if rules.manager.read_only else (),
        "rules": [_described(rule) for rule in live],
        "ignored": [{**_described(rule), "why": why} for rule, why in _left_out(rules)],
    }


def _described(rule: PermissionRule) -> dict[str, object]:
    return {"id": rule.id, **encode_rule(rule), "scope": rule.scope, "source": rule.source}
