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
    **{
        f"tests.session.test_postgres_pooler::{name}": (
            "PgBouncer is one more package; what finds a pooler out is tried without one"
        )
        for name in (
            "test_a_pool_by_session_keeps_presence",
            "test_a_pool_by_transaction_is_refused",
        )
    },
    **{
        f"tests.interop.test_inspect::{name}": (
            "Inspect doubles what is installed; whoever changes this has it beside"
        )
        for name in ("test_tasks_are_solved_within_their_limits", "test_the_example_is_right")
    },
    "tests.distributed.test_partitions::"
    "test_a_host_that_is_cut_off_is_fenced_and_nothing_is_lost": (
        "networks of its own and firewall rules need root; hosts that are stopped, and go on, "
        "stand in for them"
    ),
    "tests.distributed.test_ray_hosts::test_nothing_is_lost_when_the_head_of_ray_is_killed": (
        "Ray doubles what is installed; whoever changes this has it beside"
    ),
    "tests.distributed.test_ray_hosts::test_hosts_on_ray_are_started_again_and_drained": (
        "Ray doubles what is installed; whoever changes this has it beside"
    ),
    "tests.e2e.test_endpoint::test_a_real_model_is_right_within_three_steps": (
        "it needs a server of a model; a server of ours that plays one takes the same path"
    ),
    "tests.interop.serving.test_agui::test_the_client_of_npm_accepts_random_conversations": (
        "a program of npm; the protocol's own types check random conversations instead"
    ),
    **{
        f"tests.interop.acp.test_peers::{name}": (
            "clients of others, with an event loop or a package manager of their own; every "
            "message is checked against the schema instead"
        )
        for name in ("test_a_client_on_the_sdk", "test_acpx")
    },
    "tests.cli.test_matrix_in_terminals::test_without_control_codes_each_command_says_the_same": (
        "it takes a minute; a row of each table is tried in every kind of terminal"
    ),
    "tests.cli.test_startup::test_nothing_holds_up_a_usual_session": (
        "only an idle machine can show it"
    ),
    "tests.interop.serving.test_page_load::test_six_pages_that_are_all_in_sight_can_each_answer": (
        "one page whose browser has no connection left stands for it"
    ),
    **{
        f"tests.interop.serving.test_page_axe::test_no_rule_is_violated_in_any_state[{scheme}]": (
            "axe-core is no package of ours; whoever changes the page gives its path"
        )
        for scheme in ("light", "dark")
    },
    **{
        f"tests.interop.test_conformance::test_our_{side}_does_what_an_era_requires": (
            "a suite of npm's, which not every machine has or reaches"
        )
        for side in ("client", "server")
    },
    **{
        f"tests.interop.test_mcp_real::{name}": (
            "programs of npm, and one with many requirements; whoever changes this has them"
        )
        for name in (
            "test_the_fetch_server",
            "test_the_server_of_everything[stdio]",
            "test_the_server_of_everything[http]",
            "test_the_inspector_lists_and_calls_our_tools[stdio]",
            "test_the_inspector_lists_and_calls_our_tools[http]",
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
