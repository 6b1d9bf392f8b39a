"""The commands besides running an agent: `sessions`, `permissions`, `doctor` and `tree`."""

__all__: list[str] = []
