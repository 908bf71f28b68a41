"""MovieLens: the game of the paper's figure 6, and the real clients and ratings behind it.

Three problems: *as released* (local means drawn around the 100 group means, which ship with the
package), *real clients* (a row of local means for every user) and *real ratings* (a client's
observations are its own ratings). The last two need data that may not be passed on; import
it once with ``fedbandits data import PATH``.
"""
