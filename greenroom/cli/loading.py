"""Loads the program's own code sooner: nothing of it is garbage, so none is looked for meanwhile.

The collector of garbage walks through all that was loaded again and again while more is loaded,
which takes a quarter of the time until a run can begin; and at the end of the process, which takes
nine tenths of that.
"""

import atexit
import gc


def begin_loading() -> None:
    """Look for no garbage until `end_loading`; this is for a process that only runs the command."""
    gc.disable()
    atexit.register(_end_process)  # after the threads and before the modules


def end_loading() -> None:
    """Look for garbage again, but not among what is there now; do nothing where nobody began."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _end_process() -> None:
    """Look for no garbage any more: all of it goes with the process."""
    gc.disable()
    gc.freeze()
