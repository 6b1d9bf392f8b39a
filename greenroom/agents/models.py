"""Models by name, opened once for all agents of a runtime, and closed with it."""

from contextlib import AsyncExitStack

from greenroom.core import ResourceMap
from greenroom.llm import LLMProvider, open_model


class _Models:
    """The models that agents have opened by name; a resource of the runtime, which closes it."""

    def __init__(self) -> None:
        self._open: dict[str, LLMProvider] = {}

    def find(self, name: str) -> LLMProvider:
        if name not in self._open:
            self._open[name] = open_model(name)
        return self._open[name]

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:  # each is closed, whatever happens to others
            for llm in self._open.values():
                stack.push_async_callback(llm.aclose)


def find_model(llm: LLMProvider | str, resources: ResourceMap) -> LLMProvider:
    """Return the model that is meant; one that is only named is opened, unless it is open already.

    Raises:
        ConfigurationError: it can't be opened.
    """
    if not isinstance(llm, str):
        return llm
    models = resources.shared.get(_Models)
    if models is None:
        models = _Models()
        resources.shared.insert(models)
    return models.find(llm)
