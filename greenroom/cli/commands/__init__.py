"""The commands besides running an agent: `sessions` and `doctor`."""

__all__: list[str] = []
