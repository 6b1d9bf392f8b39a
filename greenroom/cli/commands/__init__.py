"""The commands besides running an agent, such as `sessions`, `plan` and `doctor`."""

__all__: list[str] = []
