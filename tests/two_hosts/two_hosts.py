"""One machine plays two hosts, joined by one network cable of a given speed.

A host is a set of Linux namespaces: its own network, host name, process numbers, mounts and shared
memory. The second one lives inside the first, so that a launcher on the first can reach it:

    this machine
    └─ host-a  10.77.0.1     mpirun runs here
       └─ host-b  10.77.0.2  its "ssh" here is nsenter

Nothing has a name on this machine: no interface, no file, no entry of `ip netns`. Each host's first
process does nothing but read a pipe from us. When we end, in whatever way, the pipe closes, that
process ends, and the kernel ends everything in the host and removes the cable. So nothing can be
left over, and two runs beside each other do not meet.

The cable is a pair of veth interfaces, each sending through a token bucket (tc-tbf) at the link's
rate: 1 Gbit/s in one direction and 1 Gbit/s in the other.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from patience import patient  # noqa: E402  (after the path)

SKIPPED = 77  # the exit code of what this machine cannot do
HOSTS = ("host-a", "host-b")
LINK = "link0"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
NAMESPACES = ("--net", "--uts", "--mount", "--ipc", "--pid")
TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}

# What a host's first process does: learn its number in the host around it (there /proc still shows
# the numbers of that one), make the host its own, say that it is up, and wait for the end.
FIRST_PROCESS = """set -e
read -r number rest < /proc/self/stat
mount -t proc proc /proc
mount -t tmpfs tmpfs /dev/shm
hostname "$0"
ip link set lo up
echo 1 > /proc/sys/net/ipv4/tcp_timestamps
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 || true
echo "$number"
exec cat"""

# Bytes of each packet that are not the sender's: Ethernet 14, IPv4 20, TCP 20, its time stamps 12.
# The kernel counts a packet of up to 64 KB that it cuts into frames later as one, with one header.
HEADER_BYTES = 66
# The link's rate is that of frames: each has an Ethernet header and carries, at most, the MTU less
# the headers of IP and TCP.
MTU = 1500
SEGMENT_BYTES = MTU - 52
PAYLOAD_SHARE = SEGMENT_BYTES / (MTU + 14)


class CannotRun(Exception):
    """What this machine lacks, in one sentence."""


@dataclass(frozen=True)
class Traffic:
    """What has crossed the cable in one direction."""

    bytes: int
    packets: int
    resent: int  # segments that TCP sent once more: here because an answer was late, none is lost

    @property
    def payload(self):
        """Bytes without the headers of Ethernet, IP and TCP."""
        return self.bytes - HEADER_BYTES * self.packets

    @property
    def resent_bytes(self):
        """At most so many bytes of the payload came twice."""
        return self.resent * SEGMENT_BYTES

    def __sub__(self, before):
        return Traffic(self.bytes - before.bytes, self.packets - before.packets,
                       self.resent - before.resent)


def environment():
    """This process's, where an administrator's tools are found by everybody."""
    return dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def missing_tool():
    for tool, package in TOOLS.items():
        if not shutil.which(tool, path=environment()["PATH"]):
            return f"'{tool}' is not installed (package {package})"
    return None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


class TwoHosts:
    """Both hosts, up while the `with` block runs."""

    def __init__(self, gbit_per_second=1.0):
        self.gbit_per_second = gbit_per_second
        # An ordinary user may do all this in a user namespace, where the system allows those.
        self._as_user = os.geteuid() != 0
        self._processes = []  # the unshare commands; each ends when its host has ended
        self._inits = []      # host-a's first process, as numbered here; host-b's, in host-a

    def __enter__(self):
        try:
            missing = missing_tool()
            if missing:
                raise CannotRun(missing)
            map_user = ("--user", "--map-root-user") if self._as_user else ()
            self._boot(HOSTS[0], ["unshare", *map_user, *NAMESPACES, "--fork"])
            self._boot(HOSTS[1], self.command(0, ["unshare", *NAMESPACES, "--fork"]))
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        """Switches both off."""
        for process in reversed(self._processes):
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()  # the host goes with --kill-child
                process.wait()
            process.stdout.close()
            process.stderr.close()
        self._processes.clear()

    def _boot(self, name, unshare):
        process = subprocess.Popen(
            [*unshare, "--kill-child", "sh", "-c", FIRST_PROCESS, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment())
        self._processes.append(process)
        number = process.stdout.readline().strip()
        if not number:
            process.stdin.close()
            raise CannotRun(f"cannot make {name} of namespaces: {last_line(process.stderr.read())}")
        self._inits.append(number)

    def _join(self):
        """Lays the cable. A bucket of 256 KB lets frames pass that the kernel cuts late (64 KB)."""
        setup = [(0, f"ip link add {LINK} type veth peer name {LINK} netns {self._inits[1]}")]
        for host, address in enumerate(ADDRESSES):
            setup += [(host, f"ip addr add {address}/24 dev {LINK}"),
                      (host, f"ip link set {LINK} mtu {MTU} up"),
                      (host, f"tc qdisc add dev {LINK} root tbf rate {self.gbit_per_second:g}gbit "
                             "burst 256kb limit 64mb")]
        for host, command in setup:
            done = self.run(host, command.split(), timeout=patient(20))
            if done.returncode != 0:
                raise CannotRun(f"'{command}' failed: {last_line(done.stderr)}")

    @property
    def first_process(self):
        """The number of host-a's first process, with which both hosts end."""
        return self._inits[0]

    def command(self, host, command):
        """The command line that runs a command on host 0 or 1 as root there, in /."""
        for number in reversed(range(host + 1)):
            command = [*self._enter(number), *command]
        return list(command)

    def _enter(self, host):
        """The words that run what follows on a host: host-a as seen from here, b from host-a."""
        user = ("--user", "--preserve-credentials") if self._as_user and host == 0 else ()
        return ["nsenter", "--target", self._inits[host], *user, *NAMESPACES, "--wd=/"]

    def run(self, host, command, **options):
        """A finished command on a host: its exit code and output."""
        options.setdefault("env", environment())
        return subprocess.run(self.command(host, command), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              **options)

    def sent(self, host):
        """What has crossed the cable from this host to the other so far."""
        interfaces = self._lines(1 - host, "/proc/net/dev")
        received = next(line.split(":")[1].split() for line in interfaces if f"{LINK}:" in line)
        names, values = (line.split() for line in self._lines(host, "/proc/net/snmp")
                         if line.startswith("Tcp:"))
        return Traffic(bytes=int(received[0]), packets=int(received[1]),
                       resent=int(values[names.index("RetransSegs")]))

    def _lines(self, host, path):
        return self.run(host, ["cat", path], timeout=patient(20)).stdout.splitlines()

    def remote_shell(self):
        """A program that does what ssh does, for `HOST COMMAND...` on host-a: runs it on host-b.

        It lies in memory that belongs to the hosts, and goes with them; on both, because Open MPI
        looks for it on all.
        """
        enter = " ".join(self._enter(1))
        for host in range(len(HOSTS)):
            path = self.write(host, "remote_shell",
                              f'#!/bin/sh\nshift\nexec {enter} /bin/sh -c "$*"\n')
        return path

    def write(self, host, name, text):
        """Writes a file that can be executed into a host's own memory; its path there."""
        path = f"/dev/shm/{name}"
        command = ["sh", "-c", 'printf %s "$1" > "$0" && chmod +x "$0"', path, text]
        done = self.run(host, command, timeout=patient(20))
        if done.returncode != 0:
            raise CannotRun(f"cannot write on {HOSTS[host]}: {last_line(done.stderr)}")
        return path


def run_tests():
    """Runs the tests of the calling file, or says why this machine cannot."""
    try:
        with TwoHosts():
            pass
    except CannotRun as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
