"""How much each workload does, whoever does it."""

STEPS = 20  # with one call each, of a run
RUNS = 4  # in a sample
DELTAS = 2_000  # in a burst
BURSTS = 5  # in a sample
PACED = 500  # deltas, one a millisecond
CROWD_STEPS = 5  # of each run in a crowd
AGENTS = 2_000
TRIPS = 4_000
CHUNKS = 640
READERS = 100
BURST = 64
APPENDS = 200
WRITERS = 100
MESSAGES = 10_000
TEXT = "What does this function do, and who calls it? " * 4
CROWD = 200  # runs at once
