"""A household that watches films and rates them; its ratings are in its own file.

`pull` opens that file where it is, read-only, and draws from the ratings of a genre. This is as if
a film of that genre that was watched here were recommended again, and its rating seen. Each draw is
independent and from the household's own ratings, so its mean is their average.
"""

import os
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from fedbandits.federation import ClientInfo, client_app

# A file has the name of its client. Each machine says where its files are.
FOLDER = Path(os.environ.get("RATINGS_FOLDER", Path(__file__).parent / "data"))

LOWEST, HIGHEST = 0.5, 5.0  # stars


def ratings_of(path: Path, genre: str) -> list[float]:
    """Return all ratings of a genre in a file, in stars."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; write it with make_data.py, or set RATINGS_FOLDER to the"
            " folder with the files of this machine"
        )
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
        found = [
            float(stars)
            for (stars,) in file.execute("SELECT stars FROM ratings WHERE genre = ?", (genre,))
        ]
    if not found:
        raise LookupError(
            f'{path} has no rating of "{genre}"; a client needs at least one rating of each arm in'
            " fedbandits.toml"
        )
    return found


@client_app
def pull(arm: str, n: int, client: ClientInfo) -> Sequence[float]:
    """Draw n of the client's own ratings of a genre, with replacement, scaled to 0 to 1."""
    ratings = ratings_of(FOLDER / f"{client.name}.sqlite", arm)
    return [(stars - LOWEST) / (HIGHEST - LOWEST) for stars in random.choices(ratings, k=n)]
