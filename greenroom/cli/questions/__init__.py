"""Permission requests: what is shown of one, which comes next, and what an answer does."""
