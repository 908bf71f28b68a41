"""Draw the map: transmitters, stations, and which stations would choose another channel.

Only the maker of the map knows all this; the federation finds it out by sensing.
"""

import argparse
import math
from pathlib import Path
from statistics import fmean

from client import SIDE, TRANSMITTERS, margin, place_of
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

CHANNELS = sorted({transmitter.channel for transmitter in TRANSMITTERS})
COLOURS = dict(zip(CHANNELS, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
CLEARLY = 0.05  # a station would choose another channel that is free this much more often


def availability(channel: str, station: str) -> float:
    """Return how often a channel is free at a station: no transmitter is on the air and heard."""
    free = 1.0
    for transmitter in TRANSMITTERS:
        if transmitter.channel == channel:
            # The power of Rayleigh fading is exponential: this is how often it is enough.
            enough = math.exp(-(10.0 ** (-margin(transmitter, station) / 10.0)))
            free *= 1.0 - transmitter.duty * enough
    return free


def draw_stations(axes: Axes, own: dict[str, str], best: str) -> None:
    """Draw the map; ``own`` is the channel that each station would choose."""
    for channel in CHANNELS:
        places = [place_of(station) for station, chosen in own.items() if chosen == channel]
        fits = channel == best
        axes.scatter(
            [east for east, _ in places],
            [north for _, north in places],
            s=12,
            color="#c4c7cc" if fits else COLOURS[channel],
            label=f"{best} is best, or nearly" if fits else f"{channel} is better",
            zorder=1 if fits else 2,
        )
    for transmitter in TRANSMITTERS:
        colour = COLOURS[transmitter.channel]
        axes.plot(*transmitter.at, marker="^", markersize=13, color=colour, mec="black", zorder=3)
        axes.annotate(
            f"{transmitter.channel}\n{transmitter.duty:.0%}",
            transmitter.at,
            xytext=(0, -9),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1},
            zorder=4,
        )
    axes.set(xlim=(0, SIDE), ylim=(0, SIDE), aspect="equal")
    axes.set(xlabel="km to the east", ylabel="km to the north")
    axes.set_title("Stations, by the channel that each alone would choose", fontsize=10)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=3, frameon=False, fontsize=8)


def draw_means(axes: Axes, means: dict[str, float]) -> None:
    """Draw how often each channel is free over all stations."""
    bars = axes.barh(CHANNELS, list(means.values()), color=[COLOURS[each] for each in CHANNELS])
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="share of sensings that find it free")
    axes.set_title("Over all stations", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the map with a given number of stations, and print what it shows."""
    options = argparse.ArgumentParser(description="Draw the map of the example.")
    options.add_argument("--clients", type=int, default=500, help="how many stations")
    options.add_argument("--out", type=Path, default=Path("map.png"), help="picture to write")
    chosen = options.parse_args()
    stations = [f"client-{number}" for number in range(chosen.clients)]
    free = {each: [availability(each, station) for station in stations] for each in CHANNELS}
    means = {channel: fmean(values) for channel, values in free.items()}
    best = max(CHANNELS, key=lambda channel: means[channel])
    own = {}
    for number, station in enumerate(stations):
        first = max(CHANNELS, key=lambda channel: free[channel][number])
        own[station] = first if free[first][number] > free[best][number] + CLEARLY else best
    others = sum(channel != best for channel in own.values()) / len(own)

    figure = Figure(figsize=(10.0, 5.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1.0))
    draw_stations(left, own, best)
    draw_means(right, means)
    figure.savefig(chosen.out, dpi=110)
    print("free over all stations:", ", ".join(f"{k} {v:.3f}" for k, v in means.items()))
    print(f"{best} is best over all; {others:.0%} of the stations would choose another channel")


if __name__ == "__main__":
    main()
