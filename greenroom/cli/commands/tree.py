"""`greenroom tree`: the agents that run now, as their processes tell of them."""

from typing import TYPE_CHECKING

from greenroom.cli.drawing.page import Page
from greenroom.cli.run.live_tree import read_trees
from greenroom.core import serde, visible

if TYPE_CHECKING:
    from greenroom.cli.options import Options


async def print_trees(options: "Options") -> int:
    """Print the agents of each process of this user's; the exit code is always 0."""
    page, found = Page(), await read_trees()
    if options.json:
        trees = [{"pid": each.pid, "tree": each.tree} for each in found]
        await page.line(serde.dumps(trees))
        return 0
    for each in found:
        lines = [visible(line) for line in each.text.splitlines()] or ["it does not answer"]
        await page.text("\n".join([f"process {each.pid}", *lines]))
    if not found:
        await page.text("no agents run")
    return 0
