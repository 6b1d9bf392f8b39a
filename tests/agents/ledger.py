"""An instrument that keeps the books: what has begun, and how it has ended."""

from collections import Counter


class Ledger:
    """Every hook; what has begun and not ended, and the order of it all."""

    def __init__(self):
        self.open, self.log, self.ends = Counter(), [], {}

    def _begin(self, what, agent, key):
        self.log.append(f"before {what}")
        self.open[what, agent.session_id, key] += 1

    def _end(self, what, agent, key, *how):
        self.log.append(f"after {what}")
        assert self.open[what, agent.session_id, key] == 1, (what, key)
        self.open[what, agent.session_id, key] = 0
        self.ends[what] = how

    def before_agent(self, agent):
        self._begin("agent", agent, agent.lineage)

    def after_agent(self, agent, end):
        self._end("agent", agent, agent.lineage, end.status)

    def before_turn(self, agent, message):
        self._begin("turn", agent, message.id)

    def after_turn(self, agent, end):
        self._end("turn", agent, end.input_id, end.status)

    def before_model_call(self, agent, call):
        assert call.request.messages
        self._begin("model", agent, call)

    def after_model_call(self, agent, call, reply, error):
        self._end("model", agent, call, reply and reply.text, type(error).__name__)

    def before_tool_call(self, agent, call):
        self._begin("tool", agent, call.id)

    def after_tool_call(self, agent, call, result, error):
        self._end("tool", agent, call.id, result and result.text, type(error).__name__)

    def before_permission(self, agent, request):
        self._begin("permission", agent, request.request_id)

    def after_permission(self, agent, request, answer):
        self._end("permission", agent, request.request_id, answer.by)

    @property
    def unfinished(self):
        return [what for (what, _, _), count in self.open.items() if count]
