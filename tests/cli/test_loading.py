"""When the process of the command looks for garbage."""

import gc
import subprocess
import sys

from greenroom.cli.loading import end_loading

CODE = """
import gc
from greenroom.cli.loading import begin_loading, end_loading
begin_loading()
assert not gc.isenabled()
end_loading()
print(gc.isenabled(), gc.get_freeze_count() > 1_000, gc.get_threshold()[0])
"""


def test_the_command_looks_for_garbage_again_but_rarely():
    run = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["True", "True", "10000"]


def test_in_an_application_the_thresholds_stay_its_own():
    before = gc.get_threshold(), gc.get_freeze_count()
    end_loading()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
