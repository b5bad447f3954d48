#!/usr/bin/env python3
"""Kills a training again and again, and proves that nothing is lost.

    python3 tests/soak/soak.py                      1,000 kills, 10,000 steps
    python3 tests/soak/soak.py --kills 20 --steps 500

Each life of the training has a random layout and goes on from the checkpoints of the one before.
A training that comes to its last step must have the weights of one rank that nobody disturbed; then
the next one begins, until there were enough kills. Interrupt it, and the same command goes on.
Exits with 1, and says what to look at, as soon as something is not as it must be.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from checkpoints import CheckpointFolder, Loss, loss_distance, weight_distance  # noqa: E402
from figures import Figures, page  # noqa: E402
from layouts import TRAINING, random_layout, words  # noqa: E402
from life import (  # noqa: E402
    STOPPED_RANK_TIMEOUT,
    Hang,
    Life,
    marked_processes,
    random_harm,
    send,
)
from patience import patient  # noqa: E402

TOLERANCE = 1e-10  # relative, of losses and weights across layouts in f64
MOST_UNFINISHED = 4  # folders: what one life can leave, which the next one removes


def newest_program():
    """The executable of the last chapter that trains."""
    chapters = sorted(path.parent.name for path in ROOT.glob("chapters/*/compare.json"))
    return pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build/release"), "bin",
                        chapters[-1])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", type=pathlib.Path,
                        help="that trains [the last chapter's]")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10000, help="of each training")
    parser.add_argument("--seed", type=int, help="of layouts and moments [random, and printed]")
    parser.add_argument("--longest-life", type=float, default=1.5, help="seconds until the kill")
    parser.add_argument("--end-limit", type=float, default=60,
                        help="seconds from a kill until no process may be left")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/soak",
                        help="for checkpoints, logs and figures.json; what is there goes on")
    parser.add_argument("--anew", action="store_true", help="forget an earlier soak in the folder")
    parser.add_argument("--report", type=pathlib.Path, help="write the figures as Markdown")
    return parser.parse_args()


class Soak:
    """All lives of all trainings, and what is kept of them between two starts of this script."""

    def __init__(self, options):
        self._program = (options.program or newest_program()).resolve()
        if not self._program.is_file():
            sys.exit(f"{self._program} is not built: ./workbook setup")
        self._folder = options.folder.resolve()
        self._state = self._folder / "figures.json"
        self._data = self._folder / "text.txt"
        self._longest_life = options.longest_life
        self._end_limit = patient(options.end_limit)
        self._mpi = shutil.which("mpirun") is not None
        self._settings = {"kills": options.kills, "steps": options.steps, "tolerance": TOLERANCE,
                          "seed": options.seed}
        self.figures = Figures()
        if options.anew and self._state.is_file():
            shutil.rmtree(self._folder)
        self._load()

    @property
    def settings(self):
        return self._settings

    def run(self):
        """Until there were enough kills and the last training is through."""
        self._losses, self._weights = self._reference()
        while self.figures.all_kills() < self._settings["kills"] or self._begun():
            begin = time.monotonic()
            self._next_life()
            self.figures.seconds += time.monotonic() - begin
            self._save()

    # --- What is kept ----------------------------------------------------------------------------

    def _load(self):
        wanted = dict(self._settings)
        if self._state.is_file():
            kept = json.loads(self._state.read_text(encoding="utf-8"))
            wanted["seed"] = kept["settings"]["seed"] if wanted["seed"] is None else wanted["seed"]
            if kept["settings"] != wanted:
                sys.exit(f"{self._state} is of another soak: {kept['settings']}, not {wanted}. "
                         "Remove its folder, or give another one: --folder DIR.")
            self.figures = Figures(**kept["figures"])
            print(f"Goes on after {self.figures.all_kills()} kills in {self._folder}.")
        elif self._folder.exists() and any(self._folder.iterdir()):
            sys.exit(f"{self._folder} holds other things and no figures.json of a soak. Give an "
                     "empty folder: --folder DIR.")
        elif wanted["seed"] is None:
            wanted["seed"] = secrets.randbelow(10**9)
        self._settings = wanted
        self._folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "tests/data/arithmetic.txt", self._data)
        # What a soak that was killed itself has left.
        send(signal.SIGKILL, marked_processes(str(self._folder)))
        self._save()

    def _save(self):
        draft = self._state.with_suffix(".tmp")
        draft.write_text(json.dumps({"settings": self._settings,
                                     "figures": dataclasses.asdict(self.figures)}, indent=1))
        os.replace(draft, self._state)

    # --- The undisturbed run ---------------------------------------------------------------------

    def _training_flags(self):
        return words({**TRAINING, "--steps": self._settings["steps"], "--data": self._data})

    def _reference(self):
        """Losses and final weights of one rank."""
        folder = CheckpointFolder(self._folder / "reference")
        steps = self._settings["steps"]
        if folder.newest() != steps:
            subprocess.run([self._program, *self._training_flags(), "--checkpoint", folder.path],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        return folder.losses(steps), folder.weights(steps)

    # --- The lives -------------------------------------------------------------------------------

    def _checkpoints(self):
        return CheckpointFolder(self._folder / f"training-{self.figures.trainings}")

    def _begun(self):
        return self._checkpoints().path.exists()

    def _next_life(self):
        draws = random.Random(f"{self._settings['seed']} {self.figures.lives}")
        layout = random_layout(draws, mpi=self._mpi)
        harm = random_harm(draws, layout)
        # Enough kills: the last training may come to its end.
        enough = self.figures.all_kills() >= self._settings["kills"]
        seconds = patient(600) if enough else draws.uniform(0, self._longest_life)
        folder = self._checkpoints()
        command = [*layout.launcher(), str(self._program), *self._training_flags(),
                   *layout.flags(), "--checkpoint", str(folder.path), "--resume", str(folder.path)]
        if harm == "stop one process":
            command += ["--timeout", str(STOPPED_RANK_TIMEOUT)]
        before = folder.newest()
        life = Life(str(self._folder), self._program, command, self._folder / "output.txt")
        try:
            end = life.end(harm, seconds, draws, folder.newest, self._end_limit)
            self.figures.lives += 1
            self.figures.count("layouts", layout.name())
            self._check(folder, before, end)
            if end.harmed:
                self.figures.count("kills", harm)
                self.figures.at_least("slowest_end", end.seconds_to_end)
                self.figures.stuck_launchers += end.stuck_launcher
            elif end.code != 0:
                raise Loss(f"it ended by itself with {end.code}")
            if folder.newest() == self._settings["steps"]:
                self._finish_training(folder)
        except (Hang, Loss, OSError, ValueError, KeyError) as error:
            sys.exit(f"\nLife {self.figures.lives}, {harm} after {seconds:.3f} s: {error}\n"
                     f"Command: {' '.join(command)}\nOutput: {self._folder / 'output.txt'}\n"
                     f"Seed: {self._settings['seed']}")
        finally:
            life.kill_all()

    def _check(self, folder, before, end):
        """What must hold after every life."""
        newest = folder.newest()
        if newest < max(before, end.newest_before):
            raise Loss(f"the newest checkpoint is of step {newest}; there was one of step "
                       f"{max(before, end.newest_before)}")
        resumed = re.search(r"Goes on from '.*/step-(\d+)'", end.output)
        if resumed and int(resumed.group(1)) != before:
            raise Loss(f"it went on from step {int(resumed.group(1))}, not from {before}")
        if newest > 0:
            self._check_losses(folder.losses(newest), newest)
            self.figures.steps_kept += newest - before
        unfinished = folder.unfinished()
        if len(unfinished) > MOST_UNFINISHED:
            raise Loss(f"unfinished folders pile up: {unfinished}")
        self.figures.at_least("most_unfinished", len(unfinished))
        self.figures.at_least("largest_folder", folder.size())

    def _check_losses(self, losses, newest):
        distance = loss_distance(losses, self._losses)
        if not distance <= TOLERANCE:
            raise Loss(f"the losses up to step {newest} differ by {distance:.1e} of their value "
                       f"from those of one rank; {TOLERANCE:g} is rounding")
        self.figures.at_least("worst_loss", distance)
        self.figures.losses_compared += len(losses)

    def _finish_training(self, folder):
        distance = weight_distance(folder.weights(self._settings["steps"]), self._weights)
        if not distance <= TOLERANCE:
            raise Loss(f"the last weights differ by {distance:.1e} from those of one rank; "
                       f"{TOLERANCE:g} is rounding")
        self.figures.at_least("worst_weight", distance)
        shutil.rmtree(folder.path)
        self.figures.trainings += 1
        print(f"{self.figures.all_kills()} kills, {self.figures.trainings} trainings of "
              f"{self._settings['steps']} steps", flush=True)


def main():
    options = parse_arguments()
    soak = Soak(options)
    print(f"Seed {soak.settings['seed']}; --seed {soak.settings['seed']} repeats it.", flush=True)
    try:
        soak.run()
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command goes on from here.")
    text = page(soak.figures, soak.settings,
                f"a machine of {os.cpu_count()} cores ({platform.machine()}, Linux)")
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
