"""One life of a training: it starts, is harmed at some moment, and must leave nothing behind.

Every process of a life carries a mark in its environment, so that all of them are found, also those
that have lost their parent.
"""

import dataclasses
import os
import pathlib
import signal
import subprocess
import time

from layouts import MPI_ENVIRONMENT
from patience import patient

MARK = "ULTRA_SOAK"
# How a life may end, and how often: what is killed, or which signal asks it to stop.
HARMS = {"kill one process": 8, "kill all processes": 4, "kill mpirun": 4, "SIGTERM": 2,
         "SIGINT": 2, "stop, go on, kill": 3, "stop one process": 1}
STOPPED_RANK_TIMEOUT = 10  # seconds after which the others give a stopped rank up
# mpirun now and then waits for ever when a rank is killed while it connects to it (Open MPI 4.1).
# After so many seconds without any rank, that is what has happened.
LAUNCHER_GRACE = 10


class Hang(Exception):
    """Processes are left that should have ended."""


@dataclasses.dataclass
class End:
    """What was seen of a life."""

    code: int  # of its exit; negative: the signal that ended it
    output: str
    harmed: bool  # whether it was still there when its moment came
    newest_before: int  # the newest checkpoint just before
    seconds_to_end: float  # from the harm until no process was left
    stuck_launcher: bool  # whether mpirun had to be killed behind its last rank


def random_harm(random, layout):
    """A way to end a life of this layout."""
    harms = dict(HARMS)
    if not layout.processes:
        del harms["kill mpirun"]
    if layout.processes < 2:  # nobody would see that the only one does not go on
        del harms["stop one process"]
    return random.choices(list(harms), weights=list(harms.values()))[0]


def marked_processes(mark, program=None):
    """The numbers of all processes with the mark; with `program`, of those that run it."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if program is None or os.path.samefile(folder / "exe", program):
                found.append(int(folder.name))
        except OSError:
            pass  # it has just ended
    return found


def send(number, processes):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def hear_ctrl_c():
    """What a shell starts in the background ignores it, and so would what that starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Life:
    """A run of the program that writes to one folder of checkpoints."""

    def __init__(self, mark, program, command, log):
        self._mark = mark
        self._program = program
        self._log = log
        self._launched = command[0] == "mpirun"
        environment = {**os.environ, **MPI_ENVIRONMENT, MARK: mark}
        with open(log, "wb") as output:
            self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                             stdout=output, stderr=subprocess.STDOUT,
                                             start_new_session=True, preexec_fn=hear_ctrl_c)

    def end(self, harm, seconds, random, newest, limit):
        """Lets it live for that long, harms it, and waits until nothing of it is left.

        newest() tells the newest checkpoint. Raises Hang when something is left after `limit` s.
        """
        harmed = not self._ends_within(seconds)
        newest_before = newest()
        begin = time.monotonic()
        if harmed:
            self._harm(harm, random)
        stuck_launcher = self._wait_for_all(limit)
        output = pathlib.Path(self._log).read_text(encoding="utf-8", errors="replace")
        return End(self._process.returncode, output, harmed, newest_before,
                   time.monotonic() - begin, stuck_launcher)

    def kill_all(self):
        """Ends whatever is left."""
        send(signal.SIGKILL, marked_processes(self._mark))
        self._process.wait()

    def _ends_within(self, seconds):
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _harm(self, harm, random):
        # A rank may not have started yet; then it is its launcher's turn.
        ranks = marked_processes(self._mark, self._program) or [self._process.pid]
        victim = random.choice(ranks)
        if harm == "kill one process":
            send(signal.SIGKILL, [victim])
        elif harm == "kill all processes":
            send(signal.SIGKILL, marked_processes(self._mark))
        elif harm == "kill mpirun":
            send(signal.SIGKILL, [self._process.pid])
        elif harm in ("SIGTERM", "SIGINT"):
            send(signal.Signals[harm], [self._process.pid])
        elif harm == "stop one process":
            send(signal.SIGSTOP, [victim])
        else:
            send(signal.SIGSTOP, [victim])
            time.sleep(random.uniform(0.05, 0.4))
            send(signal.SIGCONT, [victim])
            send(signal.SIGKILL, [random.choice(ranks)])

    def _wait_for_all(self, limit):
        """Waits until nothing is left; whether it was mpirun that had to be killed for that."""
        deadline = last_rank = time.monotonic()
        deadline += limit
        stuck_launcher = False
        while self._process.poll() is None or marked_processes(self._mark):
            now = time.monotonic()
            if marked_processes(self._mark) != [self._process.pid] or not self._launched:
                last_rank = now
            if now > deadline:
                left = {number: command_line(number) for number in marked_processes(self._mark)}
                raise Hang(f"after {limit:g} s these processes are left: {left}")
            if now > last_rank + patient(LAUNCHER_GRACE):
                stuck_launcher = True
                send(signal.SIGKILL, [self._process.pid])
            time.sleep(0.01)
        return stuck_launcher


def command_line(number):
    """What a process runs, for a message."""
    try:
        words = pathlib.Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "(ended)"
    return " ".join(word.decode(errors="replace") for word in words).strip()
