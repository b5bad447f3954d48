"""Measures all-reduces between two hosts that this machine plays (two_hosts.py).

Real MPI, two ranks on each host, a link of 1 Gbit/s. What crosses the link is counted by the
network interfaces and must be what the chapter's step lists say, and what a formula says, but for
what MPI adds. Times are shown beside the model's, not tested.

Exit code 77: this machine cannot play two hosts; the reason is printed.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import sys
from dataclasses import dataclass

from cases import CASES, Case, Prediction, measuring_command, seconds_of, simulate
from mpi_run import MAP_BY, RANKS, RANKS_PER_HOST, Launcher, RunFailed
from two_hosts import HEADER_BYTES, HOSTS, LINK, SKIPPED, CannotRun, TwoHosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "02_collectives"

# What may cross beyond the arrays' bytes, when the headers of Ethernet, IP and TCP are deducted:
# Open MPI's own headers and acknowledgements, some 100 bytes for every piece of a message (64 KB or
# 128 KB; 0.07 % were seen) ...
MPI_SHARE = 128 / 64_000
# ... per all-reduce, the barrier before it (some 300 bytes were seen) ...
BARRIER_BYTES = 2000
# ... per run, a packet more or less to begin and end it, and what TCP says that it sent twice.
START_BYTES = 4000


@dataclass(frozen=True)
class Measured:
    """One case: per all-reduce."""

    case: Case
    prediction: Prediction
    sent: tuple[float, float]        # bytes from each host to the other
    uncertain: tuple[float, float]   # bytes of those that may have nothing to do with it
    seconds: float

    def excess(self):
        """The larger share by which a direction carried more than predicted."""
        pairs = zip(self.sent, self.prediction.sent, strict=True)
        return max(sent / predicted - 1 for sent, predicted in pairs)


def measure(hosts, launcher, case, prediction, options):
    """Runs a case twice; what the longer run sent more is what its additional all-reduces sent."""
    traffic, seconds = [], 0.0
    for iterations in (1, 1 + options.runs):
        before = [hosts.sent(host) for host in (0, 1)]
        command = measuring_command(options.program, case, options.bytes, iterations)
        seconds = seconds_of(launcher.run(case.order, command))
        traffic.append([hosts.sent(host) - before[host] for host in (0, 1)])
    sent, uncertain = [], []
    for short, long in zip(*traffic, strict=True):
        sent.append((long - short).payload / options.runs)
        resent = short.resent_bytes + long.resent_bytes
        uncertain.append((2 * START_BYTES + resent) / options.runs)
    return Measured(case, prediction, tuple(sent), tuple(uncertain), seconds)


def disagreements(case, prediction, size):
    """Where step lists and formula differ."""
    if case.formula_bytes and set(prediction.sent) != {case.formula_bytes(size)}:
        yield (f"{case.name}: by the step lists, hosts send {prediction.sent} bytes, "
               f"by the formula {case.formula_bytes(size):,.0f}")


def faults(result):
    """Where the link and the step lists differ."""
    for host, predicted in enumerate(result.prediction.sent):
        sent, uncertain = result.sent[host], result.uncertain[host]
        most = predicted * (1 + MPI_SHARE) + BARRIER_BYTES + uncertain
        if not predicted - uncertain <= sent <= most:
            yield (f"{result.case.name}: {sent:,.0f} bytes crossed from {HOSTS[host]} to "
                   f"{HOSTS[1 - host]} per all-reduce, predicted {predicted:,} and at most "
                   f"{most:,.0f} with MPI's headers")


def table(results, options):
    size = options.bytes
    yield (f"All-reduce of n = {size / 1e6:g} MB, P = {RANKS} ranks, L = {RANKS_PER_HOST} on each "
           f"of {len(HOSTS)} hosts; MPI over a link of {options.gbit:g} Gbit/s each way.\n")
    yield (f"{'':30} {'MB from each host to the other':^57} {'time of one all-reduce':^25}\n"
           f"{'algorithm':17} {'rank order':12} {'by formula':>22} {'by steps':>8} {'a to b':>8} "
           f"{'b to a':>8} {'excess':>7} {'model':>8} {'measured':>9} {'MB/s':>6}")
    for result in results:
        case = result.case
        by_hand = f"{case.formula} = {case.formula_bytes(size) / 1e6:.3f}" if case.formula else "-"
        yield (f"{case.algorithm:17} {case.order:12} {by_hand:>22} "
               f"{max(result.prediction.sent) / 1e6:8.3f} "
               f"{result.sent[0] / 1e6:8.3f} {result.sent[1] / 1e6:8.3f} "
               f"{100 * result.excess():6.3f}% {1e3 * result.prediction.seconds:5.0f} ms "
               f"{1e3 * result.seconds:6.0f} ms {size / result.seconds / 1e6:6.1f}")


def what_is_seen(results):
    by_name = {result.case.name: result for result in results}
    best = by_name["ring, natural"]

    def against_ring(name):
        other = by_name[name]
        return (f"{max(other.sent) / max(best.sent):.2f} times the bytes in "
                f"{other.seconds / best.seconds:.2f} times the time")

    yield "\nSeen here, against the ring in natural order:"
    yield f"- the same ring, neighbours on different hosts: {against_ring('ring, interleaved')};"
    yield f"- two levels: {against_ring('two-level, natural')};"
    yield f"- two levels, misled about who shares a host: {against_ring('two-level, interleaved')}."


def report(results, options):
    return {
        "bytes": options.bytes, "ranks": RANKS, "hosts": len(HOSTS),
        "gbit_per_second": options.gbit, "header_bytes": HEADER_BYTES,
        "cases": [{
            "algorithm": result.case.algorithm, "order": result.case.order,
            "formula": result.case.formula,
            "formula_bytes": (result.case.formula_bytes(options.bytes)
                              if result.case.formula_bytes else None),
            "step_list_bytes": result.prediction.sent, "sent_bytes": result.sent,
            "model_seconds": result.prediction.seconds, "seconds": result.seconds,
            "algorithm_bandwidth": options.bytes / result.seconds,
            "faults": list(faults(result)),
        } for result in results]}


def stay(hosts, launcher, options):
    """Tells how to work on the hosts, and waits."""
    settings = hosts.write(0, "settings", "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in launcher.settings.items()))
    program = measuring_command(options.program, CASES[1], options.bytes, options.runs)
    for host, name in enumerate(HOSTS):
        print(f"\nA shell on {name}:\n  {shlex.join(hosts.command(host, ['bash']))}")
    print("\nThere, to see the link, and to change its rate in this direction:\n"
          f"  tc -s qdisc show dev {LINK}\n"
          f"  tc qdisc change dev {LINK} root tbf rate 100mbit burst 256kb limit 64mb\n"
          f"On {HOSTS[0]}, to measure a ring:\n"
          f"  . {settings}\n  {shlex.join(launcher.command('natural', program))}")
    try:
        input("\nBoth are up until you press Enter. ")
    except EOFError:
        pass


def arguments():
    build = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=build / "bin" / PROGRAM, type=pathlib.Path,
                        help="the chapter's program [that of the release build]")
    parser.add_argument("--bytes", type=int, default=16_000_000,
                        help="size of the array, a multiple of 16 [16000000]")
    parser.add_argument("--runs", type=int, default=3, help="all-reduces of each kind [3]")
    parser.add_argument("--gbit", type=float, default=1.0, help="speed of the link, Gbit/s [1]")
    parser.add_argument("--also", metavar="NAMES", default="",
                        help="further algorithms, such as rabenseifner,torus-2d, in both orders")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--keep", action="store_true",
                        help="afterwards, keep both hosts up and say how to work on them")
    options = parser.parse_args()
    if options.bytes <= 0 or options.bytes % (4 * RANKS) or options.runs < 1 or options.gbit <= 0:
        parser.error("--bytes must be a multiple of 16, --runs at least 1, --gbit above 0")
    if not options.program.is_file():
        parser.error(f"there is no {options.program}; ./workbook run 02 builds it")
    options.program = str(options.program.resolve())
    return options


def run(options):
    cases = CASES + tuple(Case(name, order) for name in options.also.split(",") if name
                          for order in MAP_BY)
    # The model first: it needs no second host.
    predictions = [simulate(options.program, case, options.bytes, options.gbit) for case in cases]
    wrong = [fault for case, prediction in zip(cases, predictions, strict=True)
             for fault in disagreements(case, prediction, options.bytes)]
    if wrong:
        return wrong
    with TwoHosts(options.gbit) as hosts:
        launcher = Launcher(hosts)
        results = [measure(hosts, launcher, case, prediction, options)
                   for case, prediction in zip(cases, predictions, strict=True)]
        print("\n".join([*table(results, options), *what_is_seen(results)]), flush=True)
        if options.json:
            text = json.dumps(report(results, options), indent=2) + "\n"
            pathlib.Path(options.json).write_text(text, encoding="utf-8")
        if options.keep:
            stay(hosts, launcher, options)
    return [fault for result in results for fault in faults(result)]


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        wrong = run(options)
    except CannotRun as reason:
        print(f"SKIPPED: {reason}")
        return SKIPPED
    except RunFailed as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    for fault in wrong:
        print(f"FAILED: {fault}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
