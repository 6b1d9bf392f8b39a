from greenroom.cli.commands import main as main
from greenroom.cli.diagnostics import tell_tree as tell_tree
from greenroom.cli.painter import ColorScheme as ColorScheme
from greenroom.cli.renderer import ConsoleRenderer as ConsoleRenderer
