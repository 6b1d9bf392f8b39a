"""Cancel an agent at every checkpoint, and see what is left.

Modules: `sweep` (`cancel_at_every_checkpoint`, which runs a `Scenario` again and again), `scenario`,
`stage` (one run) with `checkpoints` (where its tasks stand), `processes` and `scheduling` (so that it
can be repeated), `trial` (what a run leaves behind), `invariants` (what must be true of that), `report`.
"""

from greenroom.testing.fuzz.invariants import INVARIANTS as INVARIANTS
from greenroom.testing.fuzz.invariants import Invariant as Invariant
from greenroom.testing.fuzz.report import FuzzError as FuzzError
from greenroom.testing.fuzz.report import FuzzReport as FuzzReport
from greenroom.testing.fuzz.report import Violation as Violation
from greenroom.testing.fuzz.scenario import Scenario as Scenario
from greenroom.testing.fuzz.sweep import MODES as MODES
from greenroom.testing.fuzz.sweep import cancel_at_every_checkpoint as cancel_at_every_checkpoint
from greenroom.testing.fuzz.trial import Acknowledged as Acknowledged
from greenroom.testing.fuzz.trial import Interrupted as Interrupted
from greenroom.testing.fuzz.trial import Mode as Mode
from greenroom.testing.fuzz.trial import Trial as Trial

__all__ = [
    "INVARIANTS",
    "MODES",
    "Acknowledged",
    "FuzzError",
    "FuzzReport",
    "Interrupted",
    "Invariant",
    "Mode",
    "Scenario",
    "Trial",
    "Violation",
    "cancel_at_every_checkpoint",
]
