"""What may stand behind `greenroom plan`; loads nothing but argparse."""

from dataclasses import dataclass

from greenroom.cli.options import Options, Parsers, add_report


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """What the user asked for behind `greenroom plan`.

    Attributes:
        ids: the one session that it is about: its id, or the beginning of it.
        mermaid: whether the plan is drawn.
    """

    ids: tuple[str, ...] = ()
    mermaid: bool = False


def add_plan(commands: Parsers) -> None:
    """Add the command and its verb."""
    plan = commands.add_parser(
        "plan",
        help="show what became of a plan",
        description="What became of the plan of a session, such as one of plan_and_execute.",
    )
    verbs = plan.add_subparsers(metavar="VERB", required=True)
    show = verbs.add_parser("show", help="show the plan of a session, and how far it is")
    show.add_argument("ids", metavar="ID", nargs=1)
    show.add_argument("--mermaid", action="store_true", help="draw it, as a Mermaid flowchart")
    add_report(show, "plan show", PlanOptions)
