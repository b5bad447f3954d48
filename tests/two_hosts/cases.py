"""What is run over the two hosts, and what each of them must send the other.

The bytes are predicted twice: by hand, below, and from the chapter's step lists, which its link
simulator places on two nodes of two ranks. The two do not know of each other.
"""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from mpi_run import RANKS, RANKS_PER_HOST, RunFailed, host_of_ranks
from two_hosts import HOSTS, PAYLOAD_SHARE, patient


@dataclass(frozen=True)
class Case:
    """An all-reduce of n bytes by one algorithm, in one order of ranks."""

    algorithm: str
    order: str
    formula: str = ""  # bytes that each host sends the other, by hand
    formula_bytes: Callable[[int], float] | None = None

    @property
    def name(self):
        return f"{self.algorithm}, {self.order}"


# P = 4 ranks, L = 2 on each host; P/L = 2 hosts.
CASES = (
    # Inside the host, ranks reduce-scatter, so that each is left with n/L bytes. With its partner
    # on the other host it all-reduces those: on a ring of P/L, 2 (n/L) (P/L - 1) / (P/L) = n/2
    # bytes. L ranks of a host do so.
    Case("two-level", "natural", "n", lambda n: n),
    # Every rank of a ring sends 2 n (P-1)/P = 1.5 n to the next one. Ranks 0 1 | 2 3: of each host,
    # one rank has the next one on the other host.
    Case("ring", "natural", "2n(P-1)/P", lambda n: 1.5 * n),
    # Ranks 0 2 | 1 3: the next one is always on the other host, for both ranks of a host.
    Case("ring", "interleaved", "2 x 2n(P-1)/P", lambda n: 3 * n),
    # The algorithm takes ranks 0 1 for neighbours, whom the order has parted: what was to stay
    # inside a host crosses, n/L in the reduce-scatter and n/L in the all-gather, from both ranks of
    # each. In return, the part between "hosts" stays inside.
    Case("two-level", "interleaved", "2 x 2(n/L)", lambda n: 2 * n),
)


@dataclass(frozen=True)
class Prediction:
    """What the chapter's model says."""

    sent: tuple[int, int]  # bytes from each host to the other, by the step lists
    seconds: float


def output_of(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, check=False, timeout=patient(60))
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr}")
    return done.stdout


def simulate(program, case, size, gbit_per_second):
    """The chapter's simulator on this machine: a link that carries headers, too, and memory that
    four ranks share (its speed hardly matters: the link is the narrow part)."""
    machine = {"nodes": len(HOSTS), "gpus": RANKS_PER_HOST, "nics": 1, "order": case.order,
               "inter-gbps": f"{gbit_per_second * PAYLOAD_SHARE:.6g}", "inter-us": 50,
               "intra-gb-per-second": 5, "intra-us": 20}
    report = json.loads(output_of([
        program, "--simulate", ",".join(f"{key}={value}" for key, value in machine.items()),
        "--simulate-op", "all_reduce", "--simulate-algorithms", case.algorithm,
        "--simulate-sizes", str(size), "--simulate-messages", "--simulate-json"]))
    (run,) = report["runs"]
    host_of = host_of_ranks(case.order)
    sent = [0, 0]
    for message in run["message_list"]:
        sender, receiver = host_of[message["from"]], host_of[message["to"]]
        if sender != receiver:
            sent[sender] += message["bytes"]
    return Prediction(sent=tuple(sent), seconds=run["seconds"])


def measuring_command(program, case, size, iterations):
    """The program that times the case, for mpirun."""
    return [program, "--op", "all_reduce", "--algorithm", case.algorithm,
            "--min-bytes", str(size), "--max-bytes", str(size), "--iterations", str(iterations),
            "--ranks-per-node", str(RANKS_PER_HOST), "--check", "off", "--op-json"]


def seconds_of(output):
    """The time of one all-reduce, from the program's JSON."""
    report, _ = json.JSONDecoder().raw_decode(output)
    if report["ranks"] != RANKS:
        raise RunFailed(f"the program ran on {report['ranks']} ranks, not {RANKS}: "
                           "was it built with MPI?")
    (row,) = report["rows"]
    return row["seconds"]
