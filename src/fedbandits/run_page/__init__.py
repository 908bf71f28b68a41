"""The page of a live run, from its log: what is known, how it came about, who sent what."""
