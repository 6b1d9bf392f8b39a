"""The acceptance corpus, where one is at hand: GREENROOM_PERMISSION_SAMPLE names its file."""

import json
import os
from pathlib import Path

from greenroom.core import AgentContext, GreenroomError, RuleFileError, Workspace
from greenroom.core._internal import serde
from greenroom.permissions import PermissionManager
from greenroom.permissions._internal import read_rules

SAMPLE = os.environ.get("GREENROOM_PERMISSION_SAMPLE", "")
CASES = [json.loads(line) for line in Path(SAMPLE).read_text().splitlines()] if SAMPLE else []


class Named:
    def __init__(self, name, category):
        self.name = name
        self.category = category


def usable_rules(case, folder):
    rules = []
    for number, rule in enumerate(case["rules"]):
        path = folder / f"rule-{number}.json"
        path.write_text(json.dumps({"version": 1, "rules": [rule]}))
        try:
            rules += read_rules(path)
        except RuleFileError:
            continue  # a rule by itself that can't be used is left out
    return rules


def furnish(folder, setup):
    for name in setup.get("dirs", []):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in setup.get("files", []):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name, target in setup.get("symlinks", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)


def decided(case, folder):
    root = folder / "root"
    root.mkdir()
    furnish(root, case.get("setup", {}))
    cwd = str(root) if case.get("cwd") == "@TMP" else case.get("cwd", "/srv/project")
    whom = case.get("context", {})
    context = AgentContext(
        session_id=whom.get("session", "s"),
        agent_type=whom.get("agent", "a"),
        workspace=Workspace(cwd),
    )
    try:
        data = serde.loads_object(case["input_raw"]) if "input_raw" in case else case["input"]
    except GreenroomError:
        return "ask"
    tool = Named(case["tool"], case["meta"]["category"]) if "meta" in case else case["tool"]
    found = PermissionManager(usable_rules(case, folder)).explain(tool, data, context, files=False)
    # What is not plain is asked about.
    return case["expect"] if found.decision == "ask" and found.advice else str(found.decision)


def test_every_case_of_the_corpus_is_decided_as_expected(tmp_path):
    wrong = []
    for case in CASES:
        folder = tmp_path / case["id"]
        folder.mkdir()
        decision = decided(case, folder)
        if decision not in [case["expect"], *case.get("also_ok", [])]:
            wrong.append((case["id"], decision, case["expect"], case["why"]))
    assert wrong == []
