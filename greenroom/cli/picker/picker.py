"""The list of sessions on a real terminal: trio's side, which reads the previews."""

import signal
from functools import partial

import trio

from greenroom.cli.drawing.painter import colors_of
from greenroom.cli.picker.application import PickerApplication
from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.entry import Entry
from greenroom.cli.picker.preview import Preview, PreviewReader
from greenroom.session import SessionStore


async def choose_on_screen(choice: Choice, store: SessionStore) -> str | None:
    """Take over the terminal until a session is chosen; return its id, or None for none."""
    token = trio.lowlevel.current_trio_token()

    def follow(entry: Entry | None) -> None:
        token.run_sync_soon(reader.want, entry)

    def show(preview: Preview) -> None:
        application.post(partial(application.show, preview))

    application = PickerApplication(choice, colors_of(), follow)
    reader = PreviewReader(store, show)
    taken: str | None = None
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            nonlocal taken
            taken = await trio.to_thread.run_sync(application.run)
            nursery.cancel_scope.cancel()

        nursery.start_soon(_heed_resizing, application)
        nursery.start_soon(run)
        try:
            await reader.run()
        finally:
            application.close()
    return taken


async def _heed_resizing(application: PickerApplication) -> None:
    """Draw anew when the window has changed; prompt_toolkit hears of it in the main thread only."""
    with trio.open_signal_receiver(signal.SIGWINCH) as signals:
        async for _ in signals:
            application.post(application.redraw)
