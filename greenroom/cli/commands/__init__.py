"""The commands besides running an agent, such as `sessions`, `plan`, `tree` and `doctor`."""
