"""The sandbox of a run, as the command line asks for it."""

from typing import TYPE_CHECKING

from greenroom.tools import Sandbox

if TYPE_CHECKING:
    from greenroom.cli.options import Options


def sandbox_of_run(options: "Options") -> Sandbox | None:
    """Return what commands are held to; None where the sandbox is off."""
    if options.sandbox == "off":
        return None
    return Sandbox(options.sandbox, options.sandbox_network)
