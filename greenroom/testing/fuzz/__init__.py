"""Cancel an agent at every checkpoint, and see what is left.

- `sweep`: `cancel_at_every_checkpoint`, which runs a scenario again and again, and its report.
- `scenario`: a `Scenario`, and one run of it with its checkpoints.
- `evidence`: the `Trial` that a run leaves, and its leftovers outside.
- `invariants`: what must be true of every trial.
"""

from greenroom.testing.fuzz.evidence import (
    AcknowledgedInput as AcknowledgedInput,
    EndedCall as EndedCall,
    InterruptMoment as InterruptMoment,
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
