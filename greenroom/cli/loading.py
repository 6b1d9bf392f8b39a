"""Loads the program's own code sooner: nothing of it is garbage, so none is looked for meanwhile.

The collector of garbage walks through all that was loaded again and again while more is loaded,
which takes a quarter of the time until a run can begin; and at the end of the process, which takes
nine tenths of that. In between it looks for garbage less often than Python does by default: most of
what an agent makes is gone without it, and each agent is some hundred objects that it would walk
through. The thresholds are the process's, so a library leaves them alone; here they are the
program's own.
"""

import atexit
import gc

_NEW_OBJECTS = 10_000
"""How many are made, beyond those that are gone, until it looks through them; Python says 700, or
2,000."""


def begin_loading() -> None:
    """Look for no garbage until `end_loading`; this is for a process that only runs the command."""
    gc.disable()
    atexit.register(_end_process)  # after the threads and before the modules


def end_loading() -> None:
    """Look for garbage again, though rarely and not among what is there now.

    Where nobody began this does nothing.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()


def _end_process() -> None:
    """Look for no garbage any more: all of it goes with the process."""
    gc.disable()
    gc.freeze()
