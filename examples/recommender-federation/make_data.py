"""Write made-up ratings: one SQLite file per household.

The model: a genre has a general liking, each household has its own taste for it (normal around the
general liking), and each film has a merit (normal again); the sum is rounded to half stars and cut
off at half a star and at five. A household has watched 5 to 25 films of every genre.
"""

import argparse
import random
import sqlite3
from contextlib import closing
from pathlib import Path

LIKING = {  # stars
    "comedy": 3.5,
    "documentary": 3.1,
    "drama": 3.9,
    "horror": 2.3,
    "romance": 3.0,
    "science fiction": 3.4,
}
TASTE = 0.7  # stars, standard deviation between households
MERIT = 0.9  # stars, standard deviation between films


def films_of(rng: random.Random) -> list[tuple[str, str, float]]:
    """Return the films that a household has watched: title, genre and stars."""
    films = []
    for genre, liking in LIKING.items():
        own = rng.gauss(liking, TASTE)
        for title in rng.sample(range(1000), rng.randint(5, 25)):
            stars = min(max(round(2.0 * rng.gauss(own, MERIT)) / 2.0, 0.5), 5.0)
            films.append((f"{genre} {title}", genre, stars))
    return films


def write_ratings(path: Path, films: list[tuple[str, str, float]]) -> None:
    """Write the file of a household, replacing an existing one."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA synchronous = OFF")  # easy to make again if the power fails
        file.execute("CREATE TABLE ratings (title TEXT, genre TEXT, stars REAL)")
        file.executemany("INSERT INTO ratings VALUES (?, ?, ?)", films)


def main() -> None:
    """Write the files of all households."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--clients", type=int, default=400, help="how many households")
    options.add_argument("--seed", type=int, default=1, help="another seed gives other households")
    options.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "data", help="folder to write into"
    )
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for number in range(chosen.clients):
        rng = random.Random(f"{chosen.seed} {number}")
        write_ratings(chosen.out / f"client-{number}.sqlite", films_of(rng))
    print(f"wrote {chosen.clients} files into {chosen.out}")


if __name__ == "__main__":
    main()
