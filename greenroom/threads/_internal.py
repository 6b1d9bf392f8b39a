"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.threads.shared_threads import (
    FileThreads as FileThreads,
    SharedThreads as SharedThreads,
    ThreadFigures as ThreadFigures,
    count_working as count_working,
    is_large as is_large,
    run_heavy as run_heavy,
)
