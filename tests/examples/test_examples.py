"""Each program in `examples/` does what it says."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom import AgentSession, FileStore
from tests.warm_python import WarmProcess, run_warm

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments, cwd):
    code, printed, errors = run_warm([str(EXAMPLES / name), *arguments], cwd, environment(cwd))
    assert code == 0, errors
    return printed


def start(name, *arguments, cwd):
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return WarmProcess(command, **streams, cwd=cwd, env=environment(cwd), text=True)


def run_as_a_process(name, *arguments, cwd):
    """Run it as a user does, in an interpreter that starts for it."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environment(cwd),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def environment(cwd):
    return {"PATH": os.environ["PATH"], "HOME": str(cwd / "home")}


def test_every_example_has_a_test():
    tests = Path(__file__).parents[1]
    others = tests / "examples" / "test_terminal.py", tests / "interop" / "test_inspect.py"
    text = "".join(path.read_text() for path in (Path(__file__), *others))
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.name}"' in text


def test_a_custom_agent(tmp_path):
    assert run("custom_agent.py", cwd=tmp_path).splitlines() == [
        "tool: Middlemarch is book number 1",
        "model: It is on the shelf.",
    ]


def test_subagents_waited_for_and_in_the_background(tmp_path):
    assert run("subagents.py", cwd=tmp_path).splitlines() == [
        "waited for: 5 words; counter is on its way",
        "in the background: 10 words",
    ]


def test_a_group_is_started_again_and_an_end_is_told(tmp_path):
    assert run("supervision.py", cwd=tmp_path).splitlines() == [
        "asked the broken source: failed, ConnectionResetError: the source hung up",
        "desk: news from the harbour, line 1",
        "desk: restart 1, because feed crashed",
        "desk: news from the market, line 3",
        "feed: 1 restart",
        "desk: 1 restart",
        "guard: the feed has ended: ConnectionResetError: the source hung up",
    ]


def test_a_fan_out_in_its_three_ways(tmp_path):
    assert run("fan_out.py", cwd=tmp_path).splitlines() == [
        "all: core is fine; tools is fine; runtime is fine",
        "the first: ['runtime is fine']",
        "core: not needed any more",
        "misspelt: there is no package misspelt",
        "tools: not needed any more",
    ]


def test_a_model_without_tool_calls_uses_tools(tmp_path):
    assert run("react.py", cwd=tmp_path).splitlines() == [
        "thought: First I need the weather.",
        "action: get_weather {'city': 'Tokyo'}",
        "observation: Tokyo: light rain, 18 °C",
        "asked again: 1",
        "thought: Now the translation.",
        "action: translate {'text': 'Tokyo: light rain, 18 °C', 'language': 'French'}",
        "observation: Tokyo : pluie légère, 18 °C",
        "thought: I have both.",
        "answer: Tokyo : pluie légère, 18 °C",
    ]


def test_budgets_of_a_block_and_of_a_purse(tmp_path):
    assert run("budgets.py", cwd=tmp_path).splitlines() == [
        "block: the budget of first is spent: 2 tool calls",
        "first: An actor is an agent.",
        "block: the budget of second is spent: a cost of 3",
        "second: the budget of second is spent: a cost of 3",
        "spent: 3.0",
    ]


def test_structured_output(tmp_path):
    assert run("structured_output.py", cwd=tmp_path).splitlines() == [
        "invoice 4711: 2 items, 65.00 euros",
        "the model was told:",
        "  This answer can't be used:",
        "  - number: Input should be a valid string",
        "  - items[0].count: Input should be greater than or equal to 1",
        "  Answer again, with the whole JSON object and nothing else.",
        "gave up: the answer is not a JSON object",
    ]


def test_a_model_to_fall_back_on_and_a_tool_with_a_breaker(tmp_path):
    assert run("resilience.py", cwd=tmp_path).splitlines() == [
        "model.retry: the first model is overloaded; attempt 2 of 2",
        "model.fallback: the first model is overloaded; second:script answers instead",
        "look_up: ConnectionError: the dictionary does not answer",
        "model.retry: the first model is overloaded; attempt 2 of 2",
        "model.fallback: the first model has failed 3 times lately, so it is not called for now; "
        "second:script answers instead",
        "look_up: look_up was not run: the dictionary has failed 1 time lately, so it is not "
        "called for now",
        "model.fallback: the first model has failed 3 times lately, so it is not called for now; "
        "second:script answers instead",
        "reply: I can't look it up.",
        "the first model's circuit is open",
    ]


def test_an_evaluation_says_what_got_worse(tmp_path):
    assert run("evaluation.py", cwd=tmp_path).splitlines() == [
        "case       passed        exact",
        "France  2/2 (1/1)         1.00",
        "Peru    1/2 (1/1)  0.50 (1.00)",
        "all     3/4 (2/2)  0.75 (1.00)",
        "worse: Peru",
    ]


def test_a_killable_tool_is_stopped_by_its_limit_and_by_an_interrupt(tmp_path):
    assert run("killable_tool.py", cwd=tmp_path).splitlines() == [
        "tool: a green room",
        "tool: search was stopped: it used more than 1 s of CPU time",
        "interrupted, and left behind: 0",
        "model: I am still here.",
    ]


def test_instruments_that_watch_and_that_rewrite(tmp_path):
    assert run("instrument.py", cwd=tmp_path).splitlines() == [
        "Ann asks scripted:script",
        "Ann called publish: index is in drafts",
        "Ann asks scripted:script",
        "Ann has completed",
    ]


def test_the_coder_of_primitives_reads_a_file_and_leaves_a_session(tmp_path):
    (tmp_path / "README.md").write_text("# Of mice and agents\n")
    assert "Of mice and agents" in run("coder.py", "read README.md", cwd=tmp_path)
    (folder,) = (tmp_path / "sessions").iterdir()
    assert (folder / "history.jsonl").read_bytes().count(b"\n") > 1


def test_the_coder_of_primitives_fits_on_two_screens():
    assert len((EXAMPLES / "coder.py").read_text().splitlines()) <= 120


def test_parts_of_ones_own(tmp_path):
    printed = run("own_parts.py", cwd=tmp_path).splitlines()
    assert printed[0] == "The cat sat down: It is short."
    assert "  plan: count failed: I can only count to four" in printed
    assert "  plan: revised, 1 subtasks" in printed
    assert printed[-2:] == [
        "2 calls, 2 entries. The task: The other cat sat down",
        "The answer: It is long.",
    ]


@pytest.mark.parametrize("path", list(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_use_nothing_private(path):
    assert "._" not in path.read_text()


def test_what_is_allowed_can_still_not_do_everything_in_a_sandbox(tmp_path):
    assert run("sandbox.py", cwd=tmp_path).splitlines() == [
        "asked for: workspace-write with network none",
        "cpu is held by: RLIMIT_CPU, each process",
        "write here: kept",
        "reach a host: no network",
        "fill the disk: 1048576",
    ]


def test_an_agent_uses_the_tools_of_a_server(tmp_path):
    pytest.importorskip("mcp", reason="needs the extra mcp")
    assert run_as_a_process("mcp_tools.py", cwd=tmp_path).splitlines() == [
        "connected ('mcp__shop__price',)",
        'Use price of the MCP server shop: { "item": "lamp" }',
        "A lamp is 30 euros.",
    ]


def test_a_chatbot_of_twenty_lines_remembers(tmp_path):
    assert len((EXAMPLES / "chatbot.py").read_text().splitlines()) <= 20
    for text in ("hello\nhow are you?\n", "goodbye\n"):
        said, _ = start("chatbot.py", "ann", cwd=tmp_path).communicate(text, timeout=120)
        assert said.count("I am the offline model") == text.count("\n")
    store = FileStore(tmp_path / "conversations")
    session = trio.run(partial(AgentSession.load, "ann", store=store))
    said = [message.text for message in session.history if message.role == "user"]
    assert said == ["hello", "how are you?", "goodbye"]


def test_a_conversation_of_twenty_lines_outgrows_its_window(tmp_path):
    assert len((EXAMPLES / "long_conversation.py").read_text().splitlines()) <= 20
    said = run("long_conversation.py", cwd=tmp_path).splitlines()
    assert said[0].endswith("messages, and a summary of the others:")
    assert said[1:3] == ["A model's notes on them:", "| Noted."]
    assert said[4] == "| I'm vegetarian."


def test_typed_dependencies(tmp_path):
    assert run("dependencies.py", cwd=tmp_path).splitlines() == [
        "It was on shelf 3. Enjoy it!",
        "['Emma']",
        "You talk to Ann. 0 books are lent.",
        "You talk to Ann. 0 books are lent.",
        "You talk to Ann. 1 books are lent.",
        "the tool find wants RunContext[Library], and the agent gives str: "
        "write Agent(…, deps_type=Library)",
    ]


def test_a_writer_asks_a_researcher(tmp_path):
    assert run("researcher_writer.py", cwd=tmp_path).splitlines() == [
        "researcher: Cats sleep 13 hours a day.",
        "writer: More than half the day, a cat is away.",
        "tokens of both: 60",
    ]


def test_a_run_comes_to_a_value(tmp_path):
    said = run("agent_output.py", cwd=tmp_path).splitlines()
    assert said == ["5 pleased 2", "the answer is not a JSON object"]


def test_a_conversation_is_passed_on_and_back(tmp_path):
    assert run("support_desk.py", cwd=tmp_path).splitlines() == [
        "ann: My lamp came in pieces.",
        "(desk passes the conversation to technician)",
        "(technician passes the conversation to refunds)",
        "shop: The money for a lamp is on its way.",
        "ann: When do you open?",
        "(refunds passes the conversation to desk)",
        "shop: We open at nine.",
    ]


def test_researchers_a_writer_and_an_editor(tmp_path):
    assert run("newsroom.py", cwd=tmp_path).splitlines() == [
        "(parallel begins)",
        "(loop begins)",
        "editor: Give the hours.",
        "editor: OK",
        "newsroom: Cats sleep 13 hours a day, lions 20.",
        "tokens of all: 120",
    ]


def test_a_guard_stops_a_stream(tmp_path):
    said = run("guard.py", cwd=tmp_path).splitlines()
    assert said[-2:] == ["failed no_codes has rejected the text: it holds a code", "False"]
    assert "4711" not in "".join(said)


@contextmanager
def approval_service(cwd):
    """Serve until the block ends, and then kill the process; give a function that posts to it."""

    def post(path, **body):
        url, data = f"http://127.0.0.1:{port}{path}", json.dumps(body).encode()
        with urllib.request.urlopen(url, data, timeout=60) as response:
            return json.load(response)

    with start("approval_service.py", "0", cwd=cwd) as service:
        try:
            port = int(service.stdout.readline())
            yield post
        finally:
            service.kill()


def test_an_approval_outlives_the_service(tmp_path):
    with approval_service(tmp_path) as post:
        asked = post("/ask", text="Ship 1.2")
    assert asked["status"] == "waiting"
    assert "deploy" in asked["asks"]
    assert not (tmp_path / "deployed.txt").exists()
    with approval_service(tmp_path) as post:
        done = post("/answer", session=asked["session"], request=asked["request"], allow=True)
    assert (done["status"], done["text"]) == ("completed", "Done: 1.2 is live.")
    assert (tmp_path / "deployed.txt").read_text() == "1.2\n"


def test_a_session_goes_on_after_a_kill(tmp_path):
    crashed = start("resume.py", "--crash", cwd=tmp_path)
    crashed.communicate(timeout=120)
    assert crashed.returncode != 0
    first, second, third, answer = run("resume.py", "--again", cwd=tmp_path).splitlines()
    assert (first, third) == ("tool: nothing in the attic", "tool: nothing in the garden")
    assert "nothing in the cellar" not in second
    assert answer == "It was in the garden after all."


def test_an_agent_that_remembers_over_sessions(tmp_path):
    assert len((EXAMPLES / "remembers.py").read_text().splitlines()) <= 20
    first = run("remembers.py", cwd=tmp_path).splitlines()
    assert first == ["Nothing that is remembered fits.", "I'll keep that in mind."]
    recalled = json.loads(run("remembers.py", cwd=tmp_path).splitlines()[0])
    assert (recalled["origin"], recalled["text"]) == ("the user said", "I'm vegetarian.")


def test_a_trip_is_planned_anew_when_the_hotel_is_full(tmp_path):
    assert run("trip.py", cwd=tmp_path).splitlines() == [
        "plan: 3 subtasks",
        "plan: flight executing",
        "plan: flight completed",
        "plan: hotel executing",
        "plan: hotel failed: ValueError: no rooms left on Friday",
        "plan: revised, 3 subtasks",
        "plan: hostel executing",
        "plan: hostel completed",
        "plan: museum executing",
        "plan: museum completed",
        "You fly on Friday and sleep in a hostel: the hotel was full.",
    ]


def test_a_workflow_waits_on_disk_for_a_person(tmp_path):
    assert run("approval_workflow.py", cwd=tmp_path) == "Publish this? BUY OUR LAMP!\n"
    told = run("approval_workflow.py", "no", "too loud", cwd=tmp_path)
    assert told == "Publish this? A lamp for life.\n"
    assert run("approval_workflow.py", "yes", cwd=tmp_path) == "published: A lamp for life.\n"
    assert run("approval_workflow.py", "yes", cwd=tmp_path) == ""  # once is enough


def test_files_are_mapped_and_reduced(tmp_path):
    assert run("map_reduce.py", cwd=tmp_path).splitlines() == [
        f"{name}.txt: {number} words"
        for number, name in enumerate(["ants", "bees", "crows", "doves", "eels"], 1)
    ]


def test_three_files_are_searched_side_by_side_and_each_change_is_a_line(tmp_path):
    *told, answer, way = run("bug_hunt.py", cwd=tmp_path).splitlines()
    told = [line.removeprefix("plan: ") for line in told]
    hunters = {"basket", "dates", "stack"}
    assert told[0] == "4 subtasks"
    assert set(told[1:4]) == {f"{name} executing" for name in hunters}
    assert set(told[4:7]) == {f"{name} completed" for name in hunters}
    assert told[7:] == ["report executing", "report completed"]
    assert answer == "Three files, three bugs: see the report."
    assert way.startswith("greenroom plan show ")


def test_tools_without_an_agent(tmp_path):
    assert run("own_tool.py", cwd=tmp_path).splitlines() == [
        "calculator, ship, wait_for_parcel",
        "success: 45",
        "success: 10.00 euros",
        "error: ship was not run: its input does not fit.",
        "- grams: expected integer, got string 'heavy'",
        "error: ValueError: 30000 g is too heavy",
        "timeout: wait_for_parcel was stopped: it did not finish within 0.2 seconds.",
    ]


def test_eighteen_percent_of_250_is_45(tmp_path):
    assert run("percentage.py", cwd=tmp_path).splitlines() == [
        "Thought: I need to calculate 18% of 250",
        "Action: CalculatorTool {'operation': 'percentage', 'value': 250, 'percentage': 18}",
        "Observation: Result: 45",
        "Final Answer: 18% of 250 is 45",
    ]


def test_research_and_a_sum(tmp_path):
    assert run("population.py", cwd=tmp_path).splitlines() == [
        "Search Tokyo population (search)",
        "Extract population number: {search} (an agent)",
        "Calculate 10% (calculator)",
        "Tokyo has 14000000 inhabitants; 10% of that is 1400000.",
    ]


def test_a_report_is_written_over_a_desk_that_logs_its_messages(tmp_path):
    said = run("climate_report.py", cwd=tmp_path).splitlines()
    report, log = said[: said.index("The message log:")], said[said.index("The message log:") + 1 :]
    assert len(" ".join(line or "|" for line in report).strip(" |").split("|")) == 3
    assert "The sea rises 3.7 mm a year." in report  # what the researcher has found
    assert [line.partition(": {")[0] for line in log] == [
        "lead → researcher: task_request",
        "researcher → lead: task_response",
        "lead → writer: task_request",
        "writer → lead: task_response",
    ]
    assert "3.7 mm" in log[2]  # the writer is told of it


def test_a_tool_made_of_others(tmp_path):
    lines = run("research_and_summarize.py", cwd=tmp_path).splitlines()
    assert lines[0] == "graph TD"
    assert lines[-2:] == [
        "A short summary: That makes tides. It has rock tides.",
        "Tides are pulled by moons.",
    ]


def test_a_client_reads_a_stream_and_answers_its_question(tmp_path):
    assert run("serving.py", cwd=tmp_path).splitlines() == [
        "asked: Use deploy {'version': '1.2'}",
        "answered: 200",
        "again: 409",
        "said: Version 1.2 is live.",
    ]


def test_a_team_with_an_agent_of_somebody_else(tmp_path):
    assert run("remote_team.py", cwd=tmp_path) == "team: Boats filled the harbour.\n"


def test_a_program_drives_the_command_and_answers_its_questions(tmp_path):
    done = run_as_a_process("drive.py", cwd=tmp_path)
    assert done.splitlines() == [
        "notes.txt: completed, 0 denied",
        "secret.txt: completed, 1 denied",
        "exit code 0",
    ]
    assert (tmp_path / "notes.txt").exists()
    assert not (tmp_path / "secret.txt").exists()
