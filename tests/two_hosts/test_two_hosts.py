"""The two hosts themselves: who they are, what their link counts and carries, and how they end."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

from two_hosts import (ADDRESSES, HOSTS, LINK, PAYLOAD_SHARE, CannotRun, TwoHosts, patient,
                       run_tests)

PORT = 5001
RECEIVE = f"""
import socket, time
server = socket.create_server(("{ADDRESSES[1]}", {PORT}))
print("ready", flush=True)
connection, _ = server.accept()
count = 0
while data := connection.recv(1 << 16):
    count += len(data)
print(count, time.monotonic())
"""
SEND = f"""
import socket, sys, time
print(time.monotonic())
with socket.create_connection(("{ADDRESSES[1]}", {PORT})) as link:
    link.sendall(bytes(int(sys.argv[1])))
"""
# A program that dies without a chance to clean up.
DOOMED = """
from two_hosts import TwoHosts
with TwoHosts() as hosts:
    print(hosts.first_process, flush=True)
    hosts.run(1, ["sleep", "1000"])
"""


def wait_until(happened, seconds=10):
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.02)
    return happened()


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts())

    def output(self, host, *command):
        done = self.hosts.run(host, command, timeout=patient(20))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_each_has_its_own_name_address_processes_and_memory(self):
        for host, name in enumerate(HOSTS):
            self.assertEqual(self.output(host, "hostname"), name)
            self.assertIn(ADDRESSES[host], self.output(host, "ip", "-brief", "address"))
            self.output(host, "touch", f"/dev/shm/of_{name}")
        self.assertEqual(self.output(1, "ls", "/dev/shm"), "of_host-b")
        self.assertEqual(self.output(1, "sh", "-c", "ls -d /proc/[0-9]* | head -1"), "/proc/1")

    def test_this_machine_sees_nothing_of_it(self):
        self.assertFalse(pathlib.Path("/sys/class/net", LINK).exists())
        self.assertNotIn(os.uname().nodename, HOSTS)

    def test_remote_shell_reaches_the_other_host(self):
        shell = self.hosts.remote_shell()
        self.assertEqual(self.output(0, shell, "its-name", "hostname", ";", "echo done"),
                         "host-b\ndone")

    def test_link_counts_every_byte_and_keeps_to_its_rate(self):
        count = 20_000_000
        receiver = subprocess.Popen(self.hosts.command(1, [sys.executable, "-c", RECEIVE]),
                                    stdout=subprocess.PIPE, text=True)
        with receiver:
            self.assertEqual(receiver.stdout.readline(), "ready\n")
            before = self.hosts.sent(0)
            begin = self.output(0, sys.executable, "-c", SEND, str(count))
            arrived, end = receiver.stdout.read().split()
        self.assertEqual(int(arrived), count)
        # To begin and end a connection, and to find the neighbour's address, takes a few frames.
        counted = self.hosts.sent(0) - before
        self.assertAlmostEqual(counted.payload, count, delta=1000 + counted.resent_bytes)
        # Faster than the bucket (256 KB) and the rate allow is impossible; slower is the machine.
        rate = 1e9 / 8 * PAYLOAD_SHARE
        self.assertGreater(float(end) - float(begin), (count - 256 * 1024) / rate * 0.99)


class End(unittest.TestCase):
    def test_nothing_is_left_when_the_block_ends_or_raises(self):
        for error in (None, KeyboardInterrupt, RuntimeError):
            with self.subTest(error):
                try:
                    with TwoHosts() as hosts:
                        init = pathlib.Path("/proc", hosts.first_process)
                        self.assertTrue(init.exists())
                        if error:
                            raise error
                except (KeyboardInterrupt, RuntimeError):
                    pass
                self.assertFalse(init.exists())

    def test_nothing_is_left_of_a_killed_run(self):
        for signal_number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal_number):
                run = subprocess.Popen([sys.executable, "-c", DOOMED], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True,
                                       cwd=pathlib.Path(__file__).parent)
                with run:
                    init = pathlib.Path("/proc", run.stdout.readline().strip())
                    self.assertTrue((init / "stat").exists())
                    run.send_signal(signal_number)
                self.assertTrue(wait_until(lambda init=init: not init.exists()))

    def test_two_runs_beside_each_other_do_not_meet(self):
        with TwoHosts() as one, TwoHosts() as other:
            self.assertEqual(one.run(0, ["hostname"]).stdout, other.run(0, ["hostname"]).stdout)
            one.run(0, ["touch", "/dev/shm/mine"])
            self.assertEqual(other.run(0, ["ls", "/dev/shm"]).stdout, "")

    def test_what_is_missing_is_named(self):
        with (unittest.mock.patch.dict("two_hosts.TOOLS", {"cable-tester": "cables"}),
              self.assertRaisesRegex(CannotRun, "'cable-tester' is not .* cables"), TwoHosts()):
            pass


if __name__ == "__main__":
    run_tests()
