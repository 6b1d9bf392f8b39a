from greenroom.cli.diagnostics import serve_tree as serve_tree
from greenroom.cli.dispatch import main as main
from greenroom.cli.renderer import ConsoleRenderer as ConsoleRenderer
