from greenroom.llm.gemini.provider import GeminiProvider as GeminiProvider
from greenroom.llm.gemini.read_request import read_gemini_request as read_gemini_request
