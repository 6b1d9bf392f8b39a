"""What Google's API refuses of today's Gemini models, as its pages say, and a server that does.

Written from those pages, and apart from the catalogue: the two must agree. The current turn begins
with the last message of the user that is not an answer to calls.
"""

import re

from tests.llm import wire
from tests.llm.server import Answer

FIELDS = {
    "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings",
    "cachedContent",
}  # fmt: skip
CONFIG = {
    "maxOutputTokens", "temperature", "topP", "topK", "seed", "stopSequences", "thinkingConfig",
    "responseMimeType", "responseJsonSchema",
}  # fmt: skip
DATA = {
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult",
}  # fmt: skip
PASSES = "skip_thought_signature_validator"


def refuse_gemini(model, body, gave=lambda signature: True):
    """Why the Gemini API answers 400, or nothing; `gave` says if this model gave a signature."""
    config = body.get("generationConfig") or {}
    if unknown := (body.keys() - FIELDS) | (config.keys() - CONFIG):
        return f"Invalid JSON payload received. Unknown name {unknown}"
    is_new = re.match(r"gemini-[12]\b", model) is None
    if not is_new and "responseJsonSchema" in config and body.get("tools"):
        return "Function calling with a response mime type: 'application/json' is unsupported"
    if why := _refuse_thinking(model, config.get("thinkingConfig") or {}):
        return why
    if config.get("maxOutputTokens", 1) > 65_536:
        return "max_output_tokens must be within the range"
    return _refuse_contents(model, body["contents"], gave if is_new else None)


def _refuse_thinking(model, thinking):
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if thinking and model.startswith("gemini-2.0"):
        return "Thinking is not supported by this model"
    if level is not None and budget is not None:
        return "You can only set only one of thinking budget and thinking level"
    if model.startswith("gemini-2.5"):
        if level is not None:
            return "Thinking level is not supported for this model"
        least, most = (128, 32_768) if "pro" in model else (512 if "lite" in model else 1, 24_576)
        if budget is not None and not (least <= budget <= most or (not budget and least != 128)):
            return f"The thinking budget {budget} is invalid"
        if budget == 0 and thinking.get("includeThoughts"):
            return "include_thoughts is only enabled when thinking is enabled"
        return ""
    if budget == 0 and "flash" not in model:
        return "Budget 0 is invalid. This model only works in thinking mode."
    levels = {"low", "high"} | (set() if "3-pro" in model else {"medium"})
    if "flash" in model and not re.search(r"3\.[78]", model):
        levels |= {"minimal"}
    return "" if level in {None, *levels} else f"Thinking level {level} is not supported"


def _refuse_contents(model, contents, gave):
    turn = max((at for at, each in enumerate(contents) if _begins_turn(each)), default=0)
    is_late = re.search(r"3\.[678]|3\.5-flash-lite|-4-", model) is not None
    if contents[-1]["role"] == "model" and is_late:
        return "Requests whose last turn has the role model are not supported"
    open_calls = []
    for at, content in enumerate(contents):
        if content["role"] not in ("user", "model"):
            return "Please use a valid role: user, model."
        if not content["parts"]:
            return "contents.parts must not be empty"
        if at and content["role"] == contents[at - 1]["role"]:
            return "Please ensure that roles alternate"
        for part in content["parts"]:
            if len(DATA & part.keys()) != 1:
                return "required oneof field 'data' must have one initialized field"
            if part.get("text") == "" and "thoughtSignature" not in part:
                return "Unable to submit request because it must have a text parameter"
            signature = part.get("thoughtSignature")
            if gave and signature not in (None, PASSES) and not gave(signature):
                return "Corrupted thought signature."
        for answer in map(_answer, filter(_answers, content["parts"])):
            if any(part.keys() - {"inlineData", "fileData"} for part in answer.get("parts", ())):
                return "Invalid JSON payload received. Unknown name at function_response.parts"
        calls = [part for part in content["parts"] if "functionCall" in part]
        answers = [_answer(part) for part in content["parts"] if _answers(part)]
        if sorted(answer["name"] for answer in answers) != sorted(open_calls):
            return "function response parts must be equal to the function call parts"
        if gave and at > turn and calls and "thoughtSignature" not in calls[0]:
            return "Function call is missing a thought_signature in functionCall parts"
        open_calls = [part["functionCall"]["name"] for part in calls]
    return "function call without its function response" if open_calls else ""


def _answers(part):
    return "functionResponse" in part


def _answer(part):
    return part["functionResponse"]


def _begins_turn(content):
    return content["role"] == "user" and not any(map(_answers, content["parts"]))


class GeminiServer:
    """Answers as Google's API does: with signed parts, a call now and then, or a refusal."""

    def __init__(self):
        self.refused = []
        self.asked = 0
        self.last = None
        self._gave = {}

    def __call__(self, request):
        model = re.search(r"models/([^:]+):streamGenerateContent\?alt=sse$", request.path)[1]
        body = self.last = request.body
        self.asked += 1
        if why := refuse_gemini(model, body, lambda each: self._gave.get(each) == model):
            self.refused.append(why)
            error = {"code": 400, "message": why, "status": "INVALID_ARGUMENT"}
            return Answer.error(400, {"error": error})
        signature = f"signature {self.asked}"
        self._gave[signature] = model
        parts = [wire.text_part("hm", thought=True)]
        if body.get("tools") and not any(map(_answers, body["contents"][-1]["parts"])):
            arguments = {"topic": "it"}
            parts.append(wire.function_part("look_up", arguments, "", signature))
            parts += [wire.function_part("look_up", arguments)] * (self.asked % 3 == 0)
        else:
            parts += [wire.text_part(f"Answer {self.asked}."), wire.text_part("", signature)]
        return Answer.stream(wire.gemini(*parts, modelVersion=model))
