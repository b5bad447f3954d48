"""mpirun over the two hosts: as many processes on each, in a chosen order of ranks."""

import re
import shutil
import subprocess

from two_hosts import ADDRESSES, HOSTS, LINK, CannotRun, environment, patient

RANKS_PER_HOST = 2
RANKS = 2 * RANKS_PER_HOST
TESTED_VERSION = 4
LONGEST_RUN = 60  # seconds

# How mpirun deals ranks out to hosts, and who ends up where.
MAP_BY = {"natural": "slot", "interleaved": "node"}

# Each process says where it is before it becomes the program.
WHO_IS_WHERE = 'echo "rank $OMPI_COMM_WORLD_RANK on $(hostname)" >&2; exec "$0" "$@"'


class RunFailed(Exception):
    """What mpirun said."""


def open_mpi_version():
    """The major version of Open MPI's mpirun."""
    if not shutil.which("mpirun"):
        raise CannotRun("'mpirun' is not installed (package openmpi-bin)")
    done = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, check=False, text=True,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    version = re.search(r"Open MPI\)? v?(\d+)\.", done.stdout)
    if not version:
        raise CannotRun("mpirun is not Open MPI's, whose way to start remote processes this uses")
    return int(version.group(1))


def settings(remote_shell):
    """Open MPI's parameters as environment variables; in version 5 the launcher has a prefix of
    its own. What a version does not know, it does not read."""
    launcher = {"plm_rsh_agent": remote_shell, "plm_ssh_agent": remote_shell,
                "oob_tcp_if_include": LINK, "prte_if_include": LINK}
    messages = {"btl": "tcp,vader,self", "btl_tcp_if_include": LINK, "pml": "ob1",
                # Four ranks may share two cores.
                "mpi_yield_when_idle": "1"}
    found = {"TMPDIR": "/dev/shm"}  # the host's own
    for prefix in ("OMPI", "PRTE"):
        found.update({f"{prefix}_MCA_{name}": value for name, value in launcher.items()})
        found[f"{prefix}_ALLOW_RUN_AS_ROOT"] = found[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    found.update({f"OMPI_MCA_{name}": value for name, value in messages.items()})
    return found


def host_of_ranks(order, ranks_per_host=RANKS_PER_HOST):
    """The host of each rank."""
    return (0, 1) * ranks_per_host if order == "interleaved" else (
        (0,) * ranks_per_host + (1,) * ranks_per_host)


def where_ranks_are(stderr):
    """{rank: host} of what the processes said."""
    return {int(rank): HOSTS.index(host)
            for rank, host in re.findall(rf"rank (\d+) on ({'|'.join(HOSTS)})\b", stderr)}


class Launcher:
    """Starts programs over the two hosts."""

    def __init__(self, hosts, ranks_per_host=RANKS_PER_HOST):
        self._hosts = hosts
        self._ranks_per_host = ranks_per_host
        self._version = open_mpi_version()
        self.settings = settings(hosts.remote_shell())  # which mpirun needs in its environment
        self._environment = dict(environment(), **self.settings)

    def command(self, order, program):
        """The mpirun command line, for host-a."""
        places = ",".join(f"{address}:{self._ranks_per_host}" for address in ADDRESSES)
        ranks = len(HOSTS) * self._ranks_per_host
        return ["mpirun", "-n", str(ranks), "--host", places, "--map-by", MAP_BY[order],
                "--bind-to", "none", *program]

    def run(self, order, program):
        """Standard output of the program, once its ranks were seen to be where they belong."""
        command = self.command(order, ["sh", "-c", WHO_IS_WHERE, *program])
        try:
            done = self._hosts.run(0, command, env=self._environment, timeout=patient(LONGEST_RUN))
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"mpirun did not end within {patient(LONGEST_RUN):g} s") from error
        places = where_ranks_are(done.stderr)
        if not places and self._version != TESTED_VERSION:
            raise CannotRun(f"Open MPI {self._version} started nothing; this test knows version "
                            f"{TESTED_VERSION}\n{done.stderr}")
        if done.returncode != 0:
            raise RunFailed(f"mpirun ended with {done.returncode}\n{done.stdout}{done.stderr}")
        wanted = host_of_ranks(order, self._ranks_per_host)
        if places != dict(enumerate(wanted)):
            raise RunFailed(f"in {order} order, ranks run on hosts {places}, not {wanted}")
        return done.stdout
