"""What may stand behind `greenroom memory`; loads nothing but argparse."""

from dataclasses import dataclass

from greenroom.cli.options import Options, Parsers, add_report, positive


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(Options):
    """What the user asked for behind `greenroom memory`.

    Attributes:
        ids: the entries that it is about.
        limit: how many entries are shown at the most.
    """

    ids: tuple[str, ...] = ()
    limit: int = 30


def add_memory(commands: Parsers) -> None:
    """Add the command and its verbs."""
    memory = commands.add_parser(
        "memory",
        help="list or forget what is remembered of this folder",
        description="What agents have remembered of this folder, run with --memory.",
    )
    verbs = memory.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list entries, the newest first")
    listing.add_argument("--limit", metavar="N", type=positive, default=30, help="at most N (30)")
    add_report(listing, "memory list", MemoryOptions)
    forget = verbs.add_parser("forget", help="remove entries for good")
    forget.add_argument("ids", metavar="ID", nargs="+")
    add_report(forget, "memory forget", MemoryOptions)
