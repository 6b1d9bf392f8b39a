"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.memory.agent_memory import (
    describe_recalled as describe_recalled,
    remind as remind,
    report_failure as report_failure,
)
from greenroom.memory.compactor import find_compaction as find_compaction
