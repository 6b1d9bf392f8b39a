"""Cancel an agent at every checkpoint, and see what is left.

Modules: `sweep` (`cancel_at_every_checkpoint`, which runs a `Scenario` again and again, and its
    report),
`scenario`, `stage` (one run, its checkpoints and its repetition), `trial` (the evidence of one run)
with `leftovers` (what is seen from outside), `invariants` (what must be true of it).
"""

from greenroom.testing.fuzz.evidence import (
    Acknowledged as Acknowledged,
    EndedCall as EndedCall,
    Interrupted as Interrupted,
    Leftovers as Leftovers,
    Mode as Mode,
    Trial as Trial,
)
from greenroom.testing.fuzz.invariants import INVARIANTS as INVARIANTS, Invariant as Invariant
from greenroom.testing.fuzz.scenario import Scenario as Scenario
from greenroom.testing.fuzz.sweep import (
    MODES as MODES,
    FuzzError as FuzzError,
    FuzzReport as FuzzReport,
    Violation as Violation,
    cancel_at_every_checkpoint as cancel_at_every_checkpoint,
)
