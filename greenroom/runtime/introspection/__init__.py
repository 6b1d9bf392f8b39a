"""What the runtime shows of itself: a tree, figures, a dump, and what blocks its loop."""
