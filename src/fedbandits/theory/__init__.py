"""Theory: what the paper's theorems promise, with their slips corrected."""
