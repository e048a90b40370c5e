# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine with NVDIMMs: QEMU as a child process, and its console as it grows.

The guest (guest/init) runs one script and says with lines that begin with @ how it goes: "@say"
what was seen, "@mark" how far it is, "@fail" why it failed, "@exit" its exit code.
"""
import os
import re
import signal
import socket
import subprocess
import time

MIB = 1 << 20
LABEL = 128 << 10  # of each NVDIMM, behind its memory
TROUBLE = re.compile(r"BUG:|Oops|Kernel panic|general protection fault|rcu: INFO|blocked for more than")


class Failure(Exception):
    """A test that failed; the text says why."""


def make_nvdimm(path, mib):
    """The file of an NVDIMM with that much memory: sparse, nothing on it yet."""
    with open(path, "wb") as f:
        f.truncate(mib * MIB + LABEL)


def copy_nvdimm(source, path):
    subprocess.run(["cp", "--sparse=always", source, path], check=True)


class Machine:
    """One power-on. Use as a context: what still runs at its end is killed."""

    def __init__(self, work, initrd, kernel, part, name=None, nvdimms=(), memory=512, append="",
                 cpu="max", smp=2, persistence="mem-ctrl", accel="tcg", env=None, speed=1.0, ram=None):
        self.name, self.speed, self.process = name or part, speed, None
        base = os.path.join(work, self.name)
        self.console, self.acks, self.control = base + ".console", base + ".acks", base + ".monitor"
        self.errors = base + ".qemu"
        words = {"vm_part": part, **(env or {})}
        line = ("console=ttyS0 rdinit=/init panic=-1 quiet loglevel=4 nokaslr mitigations=off "
                "tsc=reliable no_timer_check cryptomgr.notests random.trust_cpu=on "
                + append + " " + " ".join(f"{k}={v}" for k, v in words.items()))
        self.command = [
            "qemu-system-x86_64", "-name", "pmemfs-" + self.name,
            "-M", f"pc,nvdimm=on,nvdimm-persistence={persistence}" + (",memory-backend=ram" if ram else ""),
            "-accel", "tcg,thread=multi" if accel == "tcg" else accel, "-cpu", cpu, "-smp", str(smp),
            "-m", f"{memory}M,slots={max(1, len(nvdimms))},maxmem=16G",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", "file:" + self.console, "-serial", "file:" + self.acks,
            "-monitor", f"unix:{self.control},server=on,wait=off",
            "-kernel", kernel, "-initrd", initrd, "-append", line]
        if ram:  # a file, so that the content outlives the machine
            self.command += ["-object", "memory-backend-file,id=ram,share=on,"
                             f"mem-path={ram},size={memory}M"]
        for i, n in enumerate(nvdimms):
            n = n if isinstance(n, dict) else {"path": n}
            readonly = n.get("readonly", False)
            self.command += [
                "-object", f"memory-backend-file,id=nv{i},share=on,mem-path={n['path']},"
                f"size={os.path.getsize(n['path'])},readonly={'on' if readonly else 'off'}",
                "-device", f"nvdimm,id=nvdimm{i},memdev=nv{i},label-size=128K,"
                f"unarmed={'on' if n.get('unarmed', readonly) else 'off'}"]

    def __enter__(self):
        for path in (self.console, self.acks, self.control):
            if os.path.exists(path):
                os.unlink(path)
        with open(self.errors, "w") as err:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=err,
                                            stderr=err)
        return self

    def __exit__(self, *exc):
        self.kill()

    # ---- the console ------------------------------------------------------------------------

    def text(self):
        try:
            with open(self.console, errors="replace") as f:
                return f.read().replace("\r", "")
        except FileNotFoundError:
            return ""

    def lines(self, what):
        return re.findall(rf"^@{what} ?(.*)$", self.text(), re.M)

    def fail(self, why):
        with open(self.errors, errors="replace") as f:
            said = f.read().splitlines()
        tail = self.text().splitlines()[-40:]
        raise Failure("\n".join([f"{self.name}: {why}"] + [f"  {x}" for x in self.lines("fail")] +
                                [f"  qemu: {x}" for x in said] + [f"  | {x}" for x in tail]))

    def _until(self, done, what, seconds):
        end = time.time() + seconds * self.speed
        while not done():
            if self.process.poll() is not None and not done():
                self.fail(f"the machine ended before {what}")
            if time.time() > end:
                self.fail(f"no {what} after {seconds * self.speed:.0f} s")
            time.sleep(0.01)

    def wait_mark(self, mark, seconds=120):
        self._until(lambda: mark in self.lines("mark"), f'"@mark {mark}"', seconds)

    def finish(self, seconds=150):
        """Waits for its own switching off; returns what it said."""
        self._until(lambda: self.process.poll() is not None, "end", seconds)
        self.check()
        if self.lines("exit") != ["0"]:
            self.fail("failed")
        return self.lines("say")

    def check(self):
        """Whatever the kernel complained about."""
        found = TROUBLE.search(self.text())
        if found:
            self.fail(f'the guest\'s kernel says "{found[0]}"')

    # ---- from outside -------------------------------------------------------------------------

    def kill(self):
        """The power goes."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if os.path.exists(self.control):
            os.unlink(self.control)

    def acknowledged(self):
        """Of each writer, the number of its last operation that was acknowledged."""
        last = {}
        with open(self.acks, errors="replace") as f:
            text = f.read()
        for line in text[:text.rfind("\n") + 1].splitlines():
            writer, n = (int(w) for w in line.split())
            if n != last.get(writer, -1) + 1:
                raise Failure(f"{self.name}: writer {writer} acknowledged {n} after {last.get(writer)}")
            last[writer] = n
        return last

    def monitor(self):
        return Monitor(self.control)


class Monitor:
    """QEMU's monitor for people: a command, and its answer."""

    PROMPT = b"(qemu) "

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self._answer()

    def _answer(self):
        said = b""
        while not said.endswith(self.PROMPT):
            piece = self.socket.recv(65536)
            if not piece:
                raise Failure("QEMU's monitor is gone")
            said += piece
        return said[:-len(self.PROMPT)].decode(errors="replace")

    def ask(self, command):
        self.socket.sendall(command.encode() + b"\n")
        said = self._answer()
        return said.split("\n", 1)[1] if "\n" in said else ""

    def close(self):
        self.socket.close()
