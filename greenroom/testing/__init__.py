"""What you import in your own tests: a model that follows a script."""

from greenroom.testing.script import Reply as Reply
from greenroom.testing.script import ScriptedProvider as ScriptedProvider
from greenroom.testing.script import Step as Step
from greenroom.testing.script import call as call

__all__ = ["Reply", "ScriptedProvider", "Step", "call"]
