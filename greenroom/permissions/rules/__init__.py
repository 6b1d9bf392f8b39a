"""What a person decides beforehand: `rule`, its `matcher`, and the short ways to write one."""
