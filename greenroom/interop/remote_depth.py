"""How many agents elsewhere an input has come through: those in a circle would never end."""

from greenroom.interop.remote_server import RemoteError
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import read_turn_metadata

DEPTH = "remotes"
"""The key of an input's metadata that says how many there are above the agent that takes it."""

MOST_DEPTH = 8
"""How many there may be, counted from the first one here over all servers."""


def count_remotes(internals: AgentInternals) -> int:
    """Count the agents that forward to each other, with this one, over all servers.

    Raises:
        RemoteError: there are too many.
    """
    above = read_turn_metadata(internals, DEPTH)
    depth = max(above if isinstance(above, int) else 0, 0) + 1
    if depth > MOST_DEPTH:
        raise RemoteError(
            f"{MOST_DEPTH} agents elsewhere forward to each other",
            hint="check whether one of them forwards to itself",
        )
    return depth
