#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the test, each one or a few power-ons of the guest. Called by run."""
import argparse
import fcntl
import os
import random
import re
import shutil
import signal
import sys
import time

from machine import Failure, Machine, copy_nvdimm, make_nvdimm

SIZE = 256  # MiB of the usual NVDIMM


class Bench:
    """What parts are given: machines, and NVDIMMs that have a devdax namespace already."""

    def __init__(self, args):
        self.args, self.scratch = args, args.scratch

    def path(self, name):
        return os.path.join(self.scratch, name)

    def machine(self, part, systemd=False, **how):
        return Machine(self.scratch, self.path("initrd-systemd" if systemd else "initrd"),
                       os.path.join(self.args.guest, "vmlinux"), part, accel=self.args.accel, **how)

    def blank(self, name, mib=SIZE):
        make_nvdimm(self.path(name), mib)
        return self.path(name)

    def devdax(self, name):
        """An NVDIMM whose /dev/dax0.0 is there at boot: made once, by the guest itself."""
        template = os.path.join(self.args.guest, f"template.{SIZE}")
        with open(template + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(template):
                made = self.blank("template")
                with self.machine("template", nvdimms=[made]) as m:
                    m.finish()
                shutil.copyfile(made, template + ".new")
                copy_nvdimm(made, template + ".new")
                os.rename(template + ".new", template)
                os.unlink(made)
        copy_nvdimm(template, self.path(name))
        return self.path(name)

    def say(self, lines):
        for line in lines:
            print("    " + line, flush=True)

    def once(self, part, nvdimms, **how):
        with self.machine(part, nvdimms=nvdimms, **how) as m:
            self.say(m.finish())


def basic(b):
    """mkfs, mount, files, umount, fsck, info on /dev/dax0.0; and again after a reboot."""
    nvdimm = b.devdax("basic.nvdimm")
    for boot in (1, 2):
        b.say([f"boot {boot}"])
        b.once("basic", [nvdimm], name=f"basic{boot}", env={"vm_boot": boot})


WRITERS = 3
FIRST_CUTS = ["load", "recovery", "unmount", "load"]  # later ones by chance


class Cuts:
    """The state of a series of power cuts."""

    def __init__(self, bench, seed):
        self.bench, self.seed, self.rng = bench, seed, random.Random(seed)
        self.nvdimm = bench.devdax("cuts.nvdimm")
        self.now = self.old = None  # directory and last acknowledged operations
        self.rounds = self.operations = self.ahead = self.pieces = self.inside = 0
        self.kinds = {"load": 0, "recovery": 0, "unmount": 0}
        self.midway = {"recovery": 0, "unmount": 0}

    def env(self, kind):
        env = {"vm_seed": self.seed, "vm_kind": kind, "vm_next": f"cut{self.rounds}",
               "vm_check": int(self.rounds % 3 == 2 or kind == "end")}
        for name, what in (("", self.now), ("old_", self.old)):
            env[f"vm_{name}dir" if not name else "vm_old"] = what[0] if what else "none"
            env[f"vm_{name}last"] = ",".join(str(n) for n in what[1]) if what else "none"
        return env

    def power_on(self, kind):
        copy_nvdimm(self.nvdimm, self.nvdimm + ".before")
        return self.bench.machine("cuts", name=f"cuts{self.rounds}", nvdimms=[self.nvdimm],
                                  env=self.env(kind))

    def seen(self, machine):
        """What the machine said before the cut about the cut before."""
        machine.check()
        for words in (m.split() for m in machine.lines("mark") if m.startswith("ahead")):
            self.ahead += int(words[1])
            self.pieces += int(words[2])

    def cut_while_mounting(self):
        with self.power_on("load") as m:
            m.wait_mark("mount")
            time.sleep(self.rng.uniform(0, 0.4))
            m.kill()
            m.check()
            self.midway["recovery"] += "mounted" not in m.lines("mark")
        self.kinds["recovery"] += 1

    def wait_for_daemon(self, m):
        """Most of the time goes by outside of the daemon: stops the machine when it is inside."""
        words = next(x for x in m.lines("mark") if x.startswith("text")).split()
        start, end = (int(x, 16) for x in words[1].split("-"))
        monitor = m.monitor()
        for _ in range(300):
            monitor.ask("stop")
            said = monitor.ask("info registers -a")
            if any(start <= int(ip, 16) < end and level == "3" for ip, level in
                   re.findall(r"RIP=([0-9a-f]+).*?CPL=(\d)", said)):
                self.inside += 1
                return
            monitor.ask("cont")
            time.sleep(self.rng.uniform(0, 0.004))

    def cut_while_writing(self, kind):
        with self.power_on(kind) as m:
            m.wait_mark("go", 240)
            if kind == "unmount":
                time.sleep(self.rng.uniform(0, 0.2))
            else:
                time.sleep(self.rng.uniform(0.3, 4))
                if self.rounds % 4:
                    self.wait_for_daemon(m)
            m.kill()
            self.seen(m)
            last = m.acknowledged()
            if kind == "unmount":
                self.midway[kind] += "unmounted" not in m.lines("mark")
        self.old = self.now
        self.now = (f"cut{self.rounds}", [last.get(w, -1) for w in range(WRITERS)])
        self.operations += sum(n + 1 for n in self.now[1])
        self.kinds[kind] += 1

    def keep_evidence(self):
        """The NVDIMM as it was after the last cut, where its directory outlives the test."""
        if not self.bench.args.evidence:
            return "run with --keep to have the NVDIMM"
        os.makedirs(self.bench.args.evidence, exist_ok=True)
        path = os.path.join(self.bench.args.evidence, "after-the-cut.nvdimm")
        copy_nvdimm(self.nvdimm + ".before", path)
        return f"the NVDIMM as the cut left it: {path}"

    def cut(self):
        kind = (FIRST_CUTS[self.rounds] if self.rounds < len(FIRST_CUTS) else
                self.rng.choices(["load", "recovery", "unmount"], [7, 2, 2])[0])
        if kind == "recovery" and self.now:
            self.cut_while_mounting()
        else:
            self.cut_while_writing("unmount" if kind == "unmount" else "load")
        self.rounds += 1

    def end(self):
        with self.power_on("end") as m:
            m.finish()
            self.seen(m)


def cuts(b):
    """The power goes while it is written to, mounted or unmounted: nothing acknowledged is lost."""
    seed = b.args.seed if b.args.seed is not None else random.randrange(1 << 20)
    c = Cuts(b, seed)
    b.say([f"seed {seed}"])
    start = time.time()
    try:
        for done in range(b.args.rounds):
            c.cut()
            if b.args.rounds > 20 and (done + 1) % 10 == 0:
                b.say([f"{done + 1} cuts, {c.operations} operations acknowledged, "
                       f"{time.time() - start:.0f} s"])
        c.end()
    except Failure as e:
        raise Failure(f"{e}\n{c.keep_evidence()}") from None
    b.say([f"{c.rounds} power cuts: {c.kinds['load']} while writing ({c.inside} in the midst of the daemon's "
           f"code), {c.kinds['recovery']} around the recovering mount ({c.midway['recovery']} before it "
           f"returned), {c.kinds['unmount']} around the unmount ({c.midway['unmount']} before the daemon had "
           "ended)",
           f"{c.operations} operations were acknowledged, none is lost or torn; "
           f"{c.ahead} more had happened, whole, without having been acknowledged, and of {c.pieces} writes "
           "the first of the two pieces that the kernel made of them"])


def operand_addresses(instruction, registers):
    """What the memory operands of an instruction in AT&T's notation are."""
    for offset, base, index, scale in re.findall(
            r"(-?0x[0-9a-f]+|-?\d+)?\((%\w+)?(?:,\s*(%\w+))?(?:,\s*(\d))?\)", instruction):
        address = int(offset or "0", 0)
        for name, factor in ((base, 1), (index, int(scale or "1"))):
            name = name.lstrip("%").upper()
            if name and name not in registers:
                break  # %rip
            address += registers[name] * factor if name else 0
        else:
            yield address & (1 << 64) - 1


def raise_machine_check(machine, start, end, resource):
    """Fails the next load that a user's program makes from the mapping [start, end)."""
    monitor = machine.monitor()
    for command in ("singlestep on", "one-insn-per-tb on"):  # by QEMU's version
        monitor.ask(command)
    limit = time.time() + 60 * machine.speed
    while time.time() < limit:
        monitor.ask("stop")
        text = monitor.ask("info registers")
        if "CPL=3" in text:
            registers = {r: int(v, 16) for r, v in re.findall(r"\b(R\w+) ?=([0-9a-f]{16})", text)}
            instruction = monitor.ask("x/1i $pc").strip().split("\n")[0]
            for address in operand_addresses(instruction, registers):
                if start <= address < end:
                    # An uncorrected error of a data read, action required, address valid.
                    monitor.ask(f"mce 0 1 0xbd80000000000134 0x7 {resource + address - start:#x} 0x8c")
                    for command in ("singlestep off", "one-insn-per-tb off", "cont"):
                        monitor.ask(command)
                    monitor.close()
                    words = instruction.split(":", 1)[-1].split("  ", 1)[-1].split()
                    return " ".join(words), address - start
        monitor.ask("cont")
        time.sleep(0.005)
    machine.fail("no load from the medium was met")


def poison(b):
    """A media error is EIO for the range that has it: bad blocks on fsdax, a machine check on devdax."""
    b.once("poison-fsdax", [b.blank("poison-fsdax.nvdimm")])
    with b.machine("poison-devdax", nvdimms=[b.devdax("poison-devdax.nvdimm")], smp=1,
                   cpu="max,vendor=GenuineIntel,family=6,model=85,stepping=4") as m:
        m.wait_mark("reading")
        words = next(x for x in m.lines("mark") if x.startswith("mapped")).split()
        start, end = (int(x, 16) for x in words[1].split("-"))
        instruction, offset = raise_machine_check(m, start, end, int(words[2], 0))
        b.say([f'machine check for the load "{instruction}" of /dev/dax0.0 at {offset}'])
        b.say(m.finish())


def media(b):
    """Several daxes and an fsdax at once; what is in use, gone or a block device."""
    b.once("media", [b.blank("media.nvdimm", 512)])


def alignment(b):
    """1 GiB and 4 KiB."""
    b.once("alignment", [b.blank("alignment0.nvdimm", 2048), b.blank("alignment1.nvdimm", 64)], memory=768)


def memmap(b):
    """Memory set apart on the kernel's command line, which a warm boot leaves alone."""
    for boot in (1, 2):
        b.once("memmap", [], name=f"memmap{boot}", memory=768, ram=b.path("memmap.ram"),
               append="memmap=128M!256M memmap=128M%384M-1+0xefffffff", env={"vm_boot": boot})


def eadr(b):
    """Caches that are persistent."""
    nvdimm = b.devdax("eadr.nvdimm")
    for boot in (1, 2):
        b.once("eadr", [nvdimm], name=f"eadr{boot}", persistence="cpu", env={"vm_boot": boot})


def read_only(b):
    """An NVDIMM that has become read-only."""
    nvdimm = b.devdax("read-only.nvdimm")
    for boot in (1, 2):
        b.once("read-only", [{"path": nvdimm, "readonly": boot == 2}], name=f"read-only{boot}",
               env={"vm_boot": boot})


def boot(b):
    """mount(8), fsck(8), fstab, a user who owns the device."""
    b.once("boot", [b.devdax("boot.nvdimm")])


def systemd(b):
    """fstab and a mount unit, with the real systemd; switched off and on again."""
    nvdimm = b.devdax("systemd.nvdimm")
    for boot_number in (1, 2):
        b.once("systemd", [nvdimm], name=f"systemd{boot_number}", systemd=True,
               append="systemd.unit=vm.target systemd.show_status=0",
               env={"vm_boot": boot_number, "vm_systemd": 1})


def peer(b):
    """The time of ext4 -o dax for the same work on the same medium, as a ratio."""
    with b.machine("peer", nvdimms=[b.blank("peer.nvdimm")]) as m:
        m.finish(300)
        best = {}
        for fs, what, us in (x.split() for x in m.lines("mark")):
            best.setdefault(what, {}).setdefault(fs, []).append(float(us))
    how = "software emulation, of no meaning for real machines" if b.args.accel == "tcg" else b.args.accel
    b.say([f"time an operation takes, pmemfs : ext4 -o dax, best of 3 ({how}):"])
    for what, times in best.items():
        ours, theirs = min(times["pmemfs"]), min(times["ext4"])
        b.say([f"  {what:24} {ours / theirs:6.2f} : 1   ({ours:.0f} and {theirs:.0f} us)"])


PARTS = [basic, cuts, media, alignment, memmap, eadr, read_only, boot, systemd, poison, peer]


def run_part(bench, part):
    """True if it passed."""
    start = time.time()
    try:
        part(bench)
    except Failure as e:
        print(f"FAIL {part.__name__.replace('_', '-')} ({time.time() - start:.1f})")
        print("\n".join("    " + line for line in str(e).splitlines()), flush=True)
        return False
    print(f"ok {part.__name__.replace('_', '-')} ({time.time() - start:.1f})", flush=True)
    return True


def parse(names):
    p = argparse.ArgumentParser(prog="tests/vm/run")
    p.add_argument("--scratch")
    p.add_argument("--guest")
    p.add_argument("--list", action="store_true")
    p.add_argument("--only", action="append", choices=names)
    p.add_argument("--rounds", type=int, default=100 if os.environ.get("PMEMFS_LONG") == "1" else 4)
    p.add_argument("--seed", type=int)
    p.add_argument("--keep", action="store_true")
    p.add_argument("--evidence")
    p.add_argument("--accel", default="tcg")
    return p.parse_args()


def stop(number, frame):
    raise SystemExit(128 + number)


def main():
    parts = {p.__name__.replace("_", "-"): p for p in PARTS}
    args = parse(list(parts))
    if args.list:
        print("\n".join(parts))
        return 0
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    bench = Bench(args)
    try:
        passed = [run_part(bench, parts[name]) for name in args.only or parts]
    finally:
        if args.keep:
            print(f"consoles: {args.scratch}")
        else:
            shutil.rmtree(args.scratch, ignore_errors=True)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
