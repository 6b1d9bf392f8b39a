"""From rules and facts to one decision, and why: `evaluator` is the heart of it."""
