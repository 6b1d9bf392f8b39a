"""Replies written by hand, which templates would miss."""

from greenroom.flow import Action, FinalAnswer

SEARCH = Action("search", {"query": "Tokyo"})
CALL = '{"tool": "search", "arguments": {"query": "Tokyo"}}'
OLD = '{"tool": "old", "args": {}}'

READ = {
    # The seed's own words.
    "Thought: I need to calculate 15 * 3. "
    "Action: {'tool': 'calculator', 'arguments': {'expression': '15 * 3'}}": Action(
        "calculator", {"expression": "15 * 3"}
    ),
    "Thought: The result is 45. Final Answer: 45": FinalAnswer("45"),
    '{"thought": "I look.", "action": "search", "action_input": {"query": "Tokyo"}}': SEARCH,
    '{"thought": "I know.", "action": "final", "answer": "Paris"}': FinalAnswer("Paris"),
    # Labels and names.
    'Tool: search\nArguments: {"query": "Tokyo"}': SEARCH,
    'Thought: (1) I go. Action 1: search\nAction Input 1: {"query": "Tokyo"}': SEARCH,
    '**Action:** `search`\n\n**Action Input:** ```json\n{"query": "Tokyo"}\n```': SEARCH,
    'Action: search {"query": "Tokyo"}': SEARCH,
    'Action: search({"query": "Tokyo"})': SEARCH,
    'Action: search(query="Tokyo")': SEARCH,
    '```tool_code\nsearch(query="Tokyo")\n```': SEARCH,
    '[TOOL_CALLS]search[ARGS]{"query": "Tokyo"}': SEARCH,
    '<function=search>{"query": "Tokyo"}</function>': SEARCH,
    '<tool>search</tool>\n<args>{"query": "Tokyo"}</args>': SEARCH,
    "<|channel|>commentary to=functions.search "
    '<|constrain|>json<|message|>{"query": "Tokyo"}': SEARCH,
    "Action: search\nAction Input: Tokyo\nObservation: sun": Action("search", {"input": "Tokyo"}),
    "Action: get_time\nAction Input: None\n": Action("get_time", {}),
    "Action: get_time()": Action("get_time", {}),
    "🔧 Action: " + CALL: SEARCH,
    "> Action: " + CALL: SEARCH,
    "Action：" + CALL: SEARCH,
    'Action:\n  tool: search\n  arguments: {"query": "Tokyo"}\n': SEARCH,
    'Action: "tool": "search", "arguments": {"query": "Tokyo"}}': SEARCH,
    'Action: [search]\nAction Input: {"query": "Tokyo"}': SEARCH,
    "Action: " + CALL[:-1] + "\nObservation: sun": SEARCH,
    "Action: " + CALL[:-1] + "\n\nNote: I wait for it.": SEARCH,
    # A name that is followed by arguments which look like a call themselves.
    'Action: search()\nAction Input: {"query": "Tokyo"}': SEARCH,
    '[TOOL_CALLS]add[ARGS]{"name": "Bob", "input": "x"}': Action(
        "add", {"name": "Bob", "input": "x"}
    ),
    f"Action: get_time()\n\n{OLD}": Action("get_time", {}),
    '<function=add>{"tool": "x", "args": {}}</function>': Action("add", {"tool": "x", "args": {}}),
    'Action: add {"name": "Bob", "input": "x"}': Action("add", {"name": "Bob", "input": "x"}),
    f"Action: WebSearch {CALL}": SEARCH,
    "Action: ```text\n" + CALL[:-1] + ', "id": "call_1"}\n```': SEARCH,
    # Calls as Python writes them, and other forms of their own.
    '_Action:_ search()\nArguments: {"query": "Tokyo"}': SEARCH,
    'Action: `{"tool": "add", "args": {"a": 1}`': Action("add", {"a": 1}),
    '[search(query="Tokyo")]': SEARCH,
    '```tool_code\nprint(search(query="Tokyo"))\n```': SEARCH,
    'Action: search(query="Tokyo", where={"k": [1]})': Action(
        "search", {"query": "Tokyo", "where": {"k": [1]}}
    ),
    f"functools[{CALL}]\nAction: {OLD}": SEARCH,
    f"I look.<|action_start|><|plugin|>{CALL}<|action_end|>\nAction: {OLD}": SEARCH,
    f"Assistant: {CALL}\nAction: {OLD}": SEARCH,
    '{"thoughts": {"text": "hm"}, '
    '"command": {"name": "search", "args": {"query": "Tokyo"}}}': SEARCH,
    '✿FUNCTION✿: search\n✿ARGS✿: {"query": "Tokyo"}\n✿RESULT✿: ': SEARCH,
    # Comments, and quotes that are all escaped.
    "Action: {  # it's a call\n" + CALL[1:]: SEARCH,
    "{ /* it's {one} */" + CALL[1:]: SEARCH,
    "{ // it's one\n" + CALL[1:] + f"\nAction: {OLD}": SEARCH,
    "Action: " + CALL[:-1] + "\n## Observation: sun\n": SEARCH,
    "Action: " + CALL.replace('"', '\\"') + "\nObservation: sun": SEARCH,
    # A thought without an end, or with a bracket too many.
    f"I search, it's odd {{\nAction: {CALL}\nFinal Answer: sun": SEARCH,
    f"I need to search Action: {CALL}\nAction: {OLD}": SEARCH,
    f"<think>hm</think>Action: {CALL}": SEARCH,
    'I look Action: search Action Input: {"query": "Tokyo"} Observation: sun': SEARCH,
    f"No Final Answer: I look first.\nAction: {CALL}": SEARCH,
    # Objects in objects, and objects as texts.
    'Action: {"tool": {"name": "search"}, "arguments": {"query": "Tokyo"}}': SEARCH,
    '{"tool_calls": [{"type": "function", '
    '"function": {"name": "search", "arguments": {"query": "Tokyo"}}}]}': SEARCH,
    'Sure! {"name": "search", "arguments": "{\\"query\\": \\"Tokyo\\"}"} ok?': SEARCH,
    '{"thought": "hm", "action": {"name": "search", "args": {"query": "Tokyo"}}}': SEARCH,
    # Quotes.
    '{"tool": "say", "arguments": {"text": "he said "hi" to me"}}': Action(
        "say", {"text": 'he said "hi" to me'}
    ),
    '{"tool": "say", "arguments": {"text": "say "a", "b" and go", "n": 1}}': Action(
        "say", {"text": 'say "a", "b" and go', "n": 1}
    ),
    "Action: {'tool': 'say', 'args': {'text': 'it's fine', 'b': 2}}": Action(
        "say", {"text": "it's fine", "b": 2}
    ),
    '{"tool": "run", "arguments": {"code": "if (a) { print("x"); }"}}': Action(
        "run", {"code": 'if (a) { print("x"); }'}
    ),
    '{"tool": "write", "arguments": {"text": """a\n"b" {c\n"""}}': Action(
        "write", {"text": 'a\n"b" {c\n'}
    ),
    '{"tool": "grep", "arguments": {"pattern": "\\d+\\s"}}': Action("grep", {"pattern": "\\d+\\s"}),
    # Commas that are lost or doubled.
    'Action: {"tool": "search" "arguments": {"query": "Tokyo"}}': SEARCH,
    'Action: {"tool": "search",, "arguments": {"query": "Tokyo",,}}': SEARCH,
    # Several, and thoughts about others.
    f"Action: {CALL}\nAction: {OLD}": SEARCH,
    f"Thought: my last {OLD} failed. I go on.\nAction: {CALL}": SEARCH,
    f"I search: {CALL}\nObservation: sun\nFinal Answer: sun": SEARCH,
    f"<think>Action: {OLD}</think>\nAction: {CALL}": SEARCH,
    f"Perhaps Action: {OLD}\n</think>\n\nAction: {CALL}": SEARCH,
    "Action: " + CALL.replace("Tokyo", "a </think> b"): Action("search", {"query": "a </think> b"}),
    f"Action: I will search the web.\n{CALL}": SEARCH,
    f"Thought: it greets with f'{{name}}: {{tool.name}}'.\nAction: {CALL}": SEARCH,
    # Answers.
    f"Thought: body {{ color: red; }} and {{'x', 'y'}}\nFinal Answer: use {CALL}": FinalAnswer(
        f"use {CALL}"
    ),
    "Action: None needed. Final Answer: 5": FinalAnswer("5"),
    "Action: Final Answer\nAction Input: 42": FinalAnswer("42"),
    '{"action": "Final Answer", "action_input": "done"}': FinalAnswer("done"),
    '```json\n{"final_answer": "done"}\n```': FinalAnswer("done"),
    "```\nThought: x\nFinal Answer: 45\n```<|im_end|>": FinalAnswer("45"),
    "**Final Answer: 45**": FinalAnswer("45"),
    "*Final Answer:* 45": FinalAnswer("45"),
    "Final Answer: **45** it is": FinalAnswer("**45** it is"),
    "**Final Answer:** **45** it is": FinalAnswer("**45** it is"),
    "`Final Answer:` 45": FinalAnswer("45"),
    "* Final Answer: * one\n* two": FinalAnswer("* one\n* two"),
    "### Final Answer\n\nline 1\n\nAction: none\nline 3": FinalAnswer(
        "line 1\n\nAction: none\nline 3"
    ),
    "<final_answer>45</final_answer>": FinalAnswer("45"),
    "✅ **Final Answer:** 45": FinalAnswer("45"),
    "Thought: I know.\nAnswer: Paris": FinalAnswer("Paris"),
    "Final answer is: 45": FinalAnswer("45"),
    "<think>hm</think>Final Answer: 45": FinalAnswer("45"),
    "</think> **Final Answer:** 45": FinalAnswer("45"),
    "Thought: I know it Final Answer: 45": FinalAnswer("45"),
    "No Final Answer: not yet.\nFinal Answer: 45": FinalAnswer("45"),
    "Final Answer: 45\n\nQuestion: and 46?\nThought: hm": FinalAnswer(
        "45\n\nQuestion: and 46?\nThought: hm"
    ),
}

FAULTS = {
    "": "neither",
    "I need to think more": "neither",
    "The capital of France is Paris.": "neither",
    'I go on until I can write "Final Answer:" at its end.': "neither",
    "def check(\n    tool: AnyTool,\n    input: Mapping[str, object],\n) -> Answer:\n"
    "    pass": "neither",
    "[\n    [Fake(x=1), 2],\n]": "neither",
    "[Fake(\n    x=1,\n)]": "neither",
    "It says why there is no\nanswer: nobody can be asked.": "neither",
    "Final Answer:": "nothing follows",
    "Action: get_time": "neither",
    "<think>Action: " + CALL: "<think>",
    'Action: {"tool": "search", "arguments": {"query": "Tok': "closing quote",
    'Action: search\nAction Input: "Tok': "closing quote",
    'Action: {"tool": "search", "arguments": {"query": "Tokyo", "n":': "value is missing",
    'Action: {"tool": "pay", "arguments": {"euros": 15': "bracket is missing",
    'Action: {"tool": "pay", "arguments": {"to": "Ann"': "more than one",
    'Action: {"tool": "pay"': "not whole",
    'Action: pay\nAction Input: {"euros": 15,': "after its last comma",
    'Action: {"tool": "a", "arguments": {}, "tool": "b"}': "occurs twice",
    'Action: {"tool": "a", "arguments": [1]}': 'needs "arguments"',
    'Action: {"tool": "a", "query": "b"}': 'needs "arguments"',
    'Action: {"tool": "a", "arguments": {}, "args": {"b": 1}}': 'needs "arguments"',
    'Action: a\nAction Input: b="Tokyo", n=3': 'needs "arguments"',
    "Action: a\nAction Input:\nb: Tokyo\nn: 3": 'needs "arguments"',
    'Action: {"query": "b"}': 'no "tool"',
    # A quote, a colon or a brace that is lost or doubled.
    'Action: {"tool": "a, "arguments": {"b": "c"}}': "ambiguous",
    'Action: {"tool": ""a", "arguments": {"b": "c"}}': "ambiguous",
    'Action: {"tool": "a", "arguments": {"b" "c", "d": "e"}}': "a name in",
    'Action: {"tool": "a", "arguments": {"b": "c", "d" "e"}}': "ambiguous",
    'Action: {"tool": "a", "arguments": "b": "c"}}': "ambiguous",
    'Action: {"tool": "a", "arguments": {"b": ["c" "d"]}}': "ambiguous",
    'Action: {"tool": "a", "arguments": {"b": {{"c": 1}, "d": 2}}': "bracket is missing",
    'Action: a\nAction Input: {"b": {"c": 1}}, "d": 2}': "goes on",
    f'{{""tool": "a", "args": {{}}}}\nAction: {CALL}': "a name in",
    'Action: {"tool": "a", "arguments": {"n": 15 * 3}}': "bracket is missing",
    'Action: {"tool": "a", "arguments": {"n": NaN}}': "not JSON",
    'Action: {"tool": "a", "arguments": {"json": "{"a": "b"}"}}': "ambiguous",
    "Action: " + '{"a": ' * 60 + "1" + "}" * 60: "50 levels",
    f"I search: {CALL}. Final Answer: sun": "only one",
    # A form that is not read, before what the model made up.
    "<tool_call>\n<function=a>\n<parameter=b>\n1\n</parameter>\n</tool_call>\n"
    f"Action: {CALL}": "no JSON",
    '<function_calls>\n<invoke name="a">\n</invoke>\nFinal Answer: 3': "no JSON",
    'The user is {"name": "Bob", "input": "x"}.': "neither",
    # A later action may rest upon what the model made up.
    f"Action: {{'tool': 'a', 'args': {{x}}}}\nObservation: 3\nAction: {CALL}": "a name in",
}
