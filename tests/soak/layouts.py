"""Layouts of one training, drawn at random: every one of them makes the same steps."""

import dataclasses

# Small enough that a step takes a millisecond, and that start and save are most of a life. With
# this learning rate, what ranks add in another order stays rounding over 10,000 steps.
TRAINING = {"--layers": 1, "--hidden": 8, "--heads": 2, "--kv-heads": 2, "--ffn": 8, "--seq": 8,
            "--global-batch": 4, "--micro-batch": 1, "--dtype": "f64", "--lr": 0.001,
            "--warmup": 10}

# mpirun refuses root unless both are there.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# dp and tp: one to four ranks.
MESHES = ((1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2))


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the ranks of one life share the training, and how often they save."""

    processes: int  # under mpirun; 0: threads of one process
    dp: int
    tp: int
    sp: str
    zero: int
    save_every: int
    keep: int

    def flags(self):
        return words({"--dp": self.dp, "--tp": self.tp, "--sp": self.sp, "--zero": self.zero,
                      "--save-every": self.save_every, "--keep": self.keep})

    def launcher(self):
        return mpirun(self.processes) if self.processes else []

    def name(self):
        """For the figures: without how often it saves."""
        how = "processes" if self.processes else "threads"
        return f"dp {self.dp} tp {self.tp} sp {self.sp} zero {self.zero} {how}"


def mpirun(processes):
    """What starts so many on a machine that has fewer cores."""
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]


def words(flags):
    """A command line of {flag: value}."""
    return [word for flag, value in flags.items() for word in (flag, str(value))]


def random_layout(random, *, mpi):
    """Any layout of up to four ranks."""
    dp, tp = random.choice(MESHES)
    processes = dp * tp if mpi and random.random() < 0.5 else 0
    return Layout(processes=processes, dp=dp, tp=tp,
                  sp=random.choice(("on", "off")) if tp > 1 else "off",
                  zero=random.randrange(4), save_every=random.randint(1, 4),
                  keep=random.randint(1, 4))
