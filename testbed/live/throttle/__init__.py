"""Real limits on this machine: what it can enforce, how, and what was made for it, to be removed again."""
