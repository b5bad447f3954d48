"""What a soak has counted, as JSON and as a page."""

import collections
import dataclasses


@dataclasses.dataclass
class Figures:
    """Sums over all lives: numbers and {name: count} only, so that JSON holds them."""

    lives: int = 0
    kills: dict = dataclasses.field(default_factory=dict)  # by manner of death
    layouts: dict = dataclasses.field(default_factory=dict)
    trainings: int = 0  # that came to their last step
    steps_kept: int = 0  # that a checkpoint held when their life ended
    losses_compared: int = 0
    worst_loss: float = 0.0  # largest relative distance from the run on one rank
    worst_weight: float = 0.0  # likewise, of the weights of trainings that came to their end
    stuck_launchers: int = 0  # mpirun without any rank left, which had to be killed
    most_unfinished: int = 0  # folders that a life left unfinished, and the next one removes
    largest_folder: int = 0  # bytes
    slowest_end: float = 0.0  # seconds from the harm until no process was left
    seconds: float = 0.0

    def all_kills(self):
        return sum(self.kills.values())

    def count(self, table, name):
        counts = collections.Counter(getattr(self, table))
        counts[name] += 1
        setattr(self, table, dict(counts))

    def at_least(self, name, value):
        setattr(self, name, max(getattr(self, name), value))


def page(figures, settings, machine):
    """A Markdown page."""
    rows = [
        ("kills", f"{figures.all_kills():,}"),
        *((f"- {manner}", f"{count:,}") for manner, count in sorted(figures.kills.items())),
        ("starts", f"{figures.lives:,}"),
        ("layouts met, of those that the script draws", f"{len(figures.layouts)}"),
        (f"trainings of {settings['steps']:,} steps brought to their end", f"{figures.trainings}"),
        ("steps that a checkpoint held when their run ended", f"{figures.steps_kept:,}"),
        ("checkpoints lost", "0"),
        ("losses compared with the run on one rank", f"{figures.losses_compared:,}"),
        ("their largest relative difference", f"{figures.worst_loss:.1e}"),
        ("largest difference of a final weight, of its tensor's largest",
         f"{figures.worst_weight:.1e}"),
        ("hangs, and processes left behind", "0"),
        ("longest time from the kill until no process was left", f"{figures.slowest_end:.1f} s"),
        ("mpirun that stayed when its last rank had gone, and was killed",
         f"{figures.stuck_launchers}"),
        ("most unfinished folders at a time", f"{figures.most_unfinished}"),
        ("largest folder of checkpoints", f"{figures.largest_folder / 1e6:.1f} MB"),
        ("duration", f"{figures.seconds / 60:.0f} min"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    command = " ".join(["python3 tests/soak/soak.py", f"--seed {settings['seed']}",
                        f"--kills {settings['kills']}", f"--steps {settings['steps']}"])
    return f"""# Trainings that are killed, again and again

What `tests/soak/soak.py` found on {machine}.

It kills a training of {settings['steps']:,} steps at random moments and lets it go on in another
layout each time: one to four ranks, threads or processes under mpirun, any stage of ZeRO, with and
without tensor and sequence parallelism, saving every one to four steps. After each kill the folder
must hold a complete checkpoint no older than the newest one seen before, whose losses are those of
one rank that nobody disturbs, within {settings['tolerance']:g} of their value; no process may be
left; and the next run must go on from it.

| | |
|---|---|
{table}

Again: `{command}`.
"""
