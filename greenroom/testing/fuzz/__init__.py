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
    AcknowledgedInput,
    EndedCall,
    EndedTurn,
    File,
    InterruptMoment,
    Leftovers,
    Mode,
    Trial,
)
from greenroom.testing.fuzz.invariants import INVARIANTS, Invariant
from greenroom.testing.fuzz.scenario import Scenario
from greenroom.testing.fuzz.sweep import (
    MODES,
    FuzzError,
    FuzzReport,
    Violation,
    cancel_at_every_checkpoint,
)

__all__ = [
    "INVARIANTS",
    "MODES",
    "AcknowledgedInput",
    "EndedCall",
    "EndedTurn",
    "File",
    "FuzzError",
    "FuzzReport",
    "InterruptMoment",
    "Invariant",
    "Leftovers",
    "Mode",
    "Scenario",
    "Trial",
    "Violation",
    "cancel_at_every_checkpoint",
]
