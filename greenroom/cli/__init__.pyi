from greenroom.cli.console.renderer import ConsoleRenderer as ConsoleRenderer
from greenroom.cli.drawing.theme import ColorScheme as ColorScheme
from greenroom.cli.main import main as main
from greenroom.cli.run.live_tree import tell_tree as tell_tree
