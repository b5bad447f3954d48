"""A Slurm cluster of two nodes on one machine: slurmctld and a slurmd on each of two_hosts' hosts.

Nodes, names and the network between them are those of tests/two_hosts; what Slurm writes lies in the
hosts' own memory and goes with them. Jobs run Open MPI over PMIx as on a real cluster.
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "two_hosts"))
from two_hosts import ADDRESSES, HOSTS, CannotRun, TwoHosts, environment, last_line, patient  # noqa: E402

TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "sbatch": "slurm-client"}
CORES = 2  # that each node says it has

# Nobody else is on these hosts: no authentication, no accounting, no control groups.
CONFIGURATION = f"""ClusterName=workbook
SlurmctldHost={HOSTS[0]}({ADDRESSES[0]})
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPidFile=/dev/shm/slurmctld.pid
SlurmdPidFile=/dev/shm/slurmd.pid
SlurmctldLogFile=/dev/shm/slurmctld.log
SlurmdLogFile=/dev/shm/slurmd.log
SlurmdSpoolDir=/dev/shm/slurmd
StateSaveLocation=/dev/shm/slurmctld
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
KillWait=5
""" + "".join(f"NodeName={host} NodeAddr={address} CPUs={CORES}\n"
              for host, address in zip(HOSTS, ADDRESSES, strict=True)) + """
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """The cluster, up while the `with` block runs; jobs are given on host-a."""

    def __init__(self, shared):
        """Every host's /tmp is its own, as two nodes' are; `shared` is a folder that all see."""
        self.shared = shared
        self._hosts = TwoHosts()
        self._daemons = []
        self._environment = dict(environment(), SLURM_CONF="/dev/shm/slurm.conf")

    def __enter__(self):
        for tool, package in TOOLS.items():
            if not shutil.which(tool, path=environment()["PATH"]):
                raise CannotRun(f"'{tool}' is not installed (package {package})")
        self._hosts.__enter__()
        try:
            for host in range(len(HOSTS)):
                self._hosts.write(host, "slurm.conf", CONFIGURATION)
                done = self._hosts.run(host, ["sh", "-c", "mkdir -p /dev/shm/slurmd /dev/shm/slurmctld /dev/shm/tmp"
                                              " && mount --bind /dev/shm/tmp /tmp"], timeout=patient(20))
                if done.returncode != 0:
                    raise CannotRun(f"{HOSTS[host]} gets no /tmp of its own: {last_line(done.stderr)}")
            self._start(0, "slurmctld")
            for host in range(len(HOSTS)):
                self._start(host, "slurmd")
            self._wait_for_nodes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
        self._hosts.__exit__()  # the kernel ends what is left
        for daemon in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=10)

    def _start(self, host, daemon):
        self._daemons.append(subprocess.Popen(
            self._hosts.command(host, [daemon, "-D"]), env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def _wait_for_nodes(self):
        deadline = time.monotonic() + patient(30)
        while time.monotonic() < deadline:
            said = self.run(["sinfo", "--noheader", "--format=%D %t"])
            if said.stdout.split() == ["2", "idle"]:
                return
            time.sleep(0.2)
        raise CannotRun(f"its nodes do not come up: sinfo says '{last_line(said.stdout + said.stderr)}'")

    def run(self, command, **options):
        """A finished command on host-a, in `shared`."""
        options.setdefault("timeout", patient(120))
        return self._hosts.run(0, ["sh", "-c", 'cd "$0" && exec "$@"', str(self.shared), *map(str, command)],
                               env=self._environment, **options)
