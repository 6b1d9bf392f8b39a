"""Cancel an agent at every checkpoint, and see what is left.

- `sweep`: `cancel_at_every_checkpoint`, which runs a scenario again and again, and its report.
- `scenario`: a `Scenario`, and one run of it.
- `checkpoints`: where the tasks of a run stand, and cancels that one of them swallows.
- `evidence`: the `Trial` that a run leaves.
- `surroundings`: what a run leaves outside; `process_settings`: the settings that are watched.
- `controls`: whether the undisturbed runs go the same way.
- `invariants`, `tool_invariants`: what must be true of every trial; `file_contents`: of a file.
"""

from greenroom.testing.fuzz.evidence import (
    AcknowledgedInput as AcknowledgedInput,
    EndedCall as EndedCall,
    EndedTurn as EndedTurn,
    File as File,
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
