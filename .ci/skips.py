"""Fail when a test was skipped, or expected to fail, without standing on the list below."""

import os
import sys
from itertools import chain
from xml.etree import ElementTree

ALLOWED: dict[str, str] = {
    # "tests.module::test_name": "the reason why it can't run there",
    **{
        f"tests.session.faults.test_disks::{name}[{kind}]": (
            "containers may forbid to mount; errors injected at every operation stand in for it"
        )
        for name in (
            "test_a_disk_that_is_really_full_loses_nothing_and_works_again_with_room",
            "test_a_disk_that_is_really_read_only_is_a_typed_error_until_it_is_no_more",
        )
        for kind in ("files", "database")
    },
    "tests.e2e.test_endpoint::test_a_real_model_is_right_within_three_steps": (
        "it needs a server of a model; a server of ours that plays one takes the same path"
    ),
    **{
        f"tests.export.test_in_browser::{name}": (
            "a browser takes minutes to install; the page is taken apart by a parser as well"
        )
        for name in (
            "test_a_page_makes_no_request_and_runs_nothing",
            "test_a_page_that_does_is_noticed",
        )
    },
}

# What begins so may be skipped where we are not root.
ONLY_ROOT = "only root can "

# What begins so may be skipped: containers may refuse namespaces and Landlock, and there each
# attack is tried in the other tiers.
REFUSED = "this machine refuses "


def main(*reports: str) -> int:
    """Read pytest's JUnit reports; print what is not allowed."""
    bad = []
    ran = 0
    trees = map(ElementTree.parse, reports)
    for case in chain.from_iterable(tree.iter("testcase") for tree in trees):
        ran += 1
        name = f"{case.get('classname')}::{case.get('name')}"
        skipped = case.find("skipped")
        if skipped is not None and name not in ALLOWED:
            reason = skipped.get("message", "")
            allowed = (REFUSED,) if os.getuid() == 0 else (REFUSED, ONLY_ROOT)
            if not reason.startswith(allowed):
                bad.append(f"{name}: {reason}")
    print(f"{ran} tests, {len(bad)} of them skipped without leave")
    print(*bad, sep="\n")
    return 1 if bad or not ran else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
