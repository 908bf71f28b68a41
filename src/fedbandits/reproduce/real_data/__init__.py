"""MovieLens with its real users: what their data says, the games on it, and their section.

Two problems that the paper's figure 6 leaves out. *Real clients*: a user's own values are the local
means of a client, in a finite population. *Real ratings*: a client's observations are its own
ratings. Both need data that the user imports with ``fedbandits data import PATH``.
"""
