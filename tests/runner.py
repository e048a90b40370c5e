# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of a build directory: those that meson knows and the shell cases.

Each test gets a scratch directory in memory, a time limit and no standard input. What it leaves
mounted, attached or running is taken away and counts as its failure. A test passes with exit
code 0 and is skipped with 77; the last line it printed is then the reason. Called by tests/run.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TAIL = 30  # lines of its log shown for a failed test


class Test:
    def __init__(self, name, cmd, timeout, env=None, tier="", alone=False, sanitize=True, files=False):
        self.name, self.cmd, self.timeout = name, cmd, timeout
        self.env = env or {}
        self.tier, self.alone, self.sanitize, self.files = tier, alone, sanitize, files


def meson_tests(build):
    said = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    for t in json.loads(said):
        suites = [s.split(":", 1)[-1] for s in t["suite"]]
        part = next((s for s in suites if s not in ("long", "pmemfs")), "test")
        name = t["name"].removeprefix(part + " ").replace(" ", "-")
        # Targets among the arguments are named relative to the build directory.
        cmd = [os.path.join(build, a) if os.path.isfile(os.path.join(build, a)) else a
               for a in t["cmd"]]
        yield Test(f"{part}/{name}", cmd, t["timeout"], t["env"],
                   tier="long" if "long" in suites else "", alone=not t["is_parallel"])


def header(path):
    """The `# key: value` lines that open a case."""
    found = {}
    with open(path) as f:
        for line in f:
            if not line.startswith("#"):
                break
            m = re.match(r"# (timeout|tier|alone|sanitize|files): (\S+)", line)
            if m:
                found[m[1]] = m[2]
    return found


def shell_cases():
    folder = os.path.join(HERE, "cases")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".sh") or name == "lib.sh":
            continue
        path = os.path.join(folder, name)
        h = header(path)
        yield Test("case/" + name[:-3], ["bash", path], int(h.get("timeout", 120)),
                   tier=h.get("tier", ""), alone=h.get("alone") == "yes",
                   sanitize=h.get("sanitize") != "no", files=h.get("files") == "yes")


def vm_parts(args):
    """The parts of the virtual machine's test, which installs and makes what it needs itself."""
    run = os.path.join(HERE, "vm", "run")
    said = subprocess.run([run, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in said.split():
        yield Test("vm/" + name, [run, "--only", name], 7200 if args.long else 600, sanitize=False)


def mounts_under(folder):
    with open("/proc/mounts") as f:
        points = [line.split()[1].encode().decode("unicode_escape") for line in f]
    return [p for p in reversed(points) if p.startswith(folder + "/")]


def loops_under(folder):
    said = subprocess.run(["losetup", "-nO", "NAME,BACK-FILE"], stdout=subprocess.PIPE, text=True)
    rows = [line.split(None, 1) for line in said.stdout.splitlines()]
    return [r[0] for r in rows if len(r) == 2 and r[1].startswith(folder + "/")]


def users_of(folder):
    """Processes that work in the folder, have a file of it open or mapped, or run from it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        base = f"/proc/{pid}"
        try:
            links = [f"{base}/cwd", f"{base}/exe"]
            links += [f"{base}/fd/{fd}" for fd in os.listdir(f"{base}/fd")]
            named = [os.readlink(link) for link in links if os.path.islink(link)]
            with open(f"{base}/maps") as f:
                named += [line.split(None, 5)[5] for line in f if line.count("/")]
        except (OSError, IndexError):
            continue
        if any((n + "/").startswith(folder + "/") for n in named):
            found.append(int(pid))
    return found


def clean_up(folder):
    """Returns what the test left behind, in words, after taking it away."""
    left = []
    for point in mounts_under(folder):
        left.append(f"left mounted: {point}")
        subprocess.run(["umount", "-l", point])
    for dev in loops_under(folder):
        left.append(f"left attached: {dev}")
        subprocess.run(["losetup", "-d", dev])
    # A daemon is allowed to need a moment after its unmount.
    deadline = time.time() + 5
    while users_of(folder) and time.time() < deadline and not left:
        time.sleep(0.1)
    for pid in users_of(folder):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                left.append(f"left running: {pid} " + f.read().replace("\0", " "))
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return left


def sanitizer_reports(folder):
    found = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("sanitizer."):
            with open(os.path.join(folder, name), errors="replace") as f:
                found.append(f.read())
    return found


class Runner:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.counts = {"ok": 0, "FAIL": 0, "skip": 0}
        self.lock = threading.Lock()
        self.running, self.stopped = set(), False
        self.logs = os.path.join(args.build, "testlog")
        os.makedirs(self.logs, exist_ok=True)

    def environment(self, test, folder):
        env = dict(os.environ, PMEMFS_BUILD=self.args.build, TMPDIR=folder,
                   PMEMFS_LONG="1" if self.args.long else "0")
        env.update(test.env)
        if self.args.on:
            env["PMEMFS_DIR"] = os.path.abspath(self.args.on)
        if self.args.sanitize:
            log = f"log_path={folder}/sanitizer"
            env["PMEMFS_SANITIZE"] = self.args.sanitize
            env["ASAN_OPTIONS"] = f"{log}:detect_stack_use_after_return=1:allocator_may_return_null=1"
            env["LSAN_OPTIONS"] = f"suppressions={HERE}/lsan.supp:print_suppressions=0"
            env["UBSAN_OPTIONS"] = f"{log}:print_stacktrace=1:halt_on_error=1"
            env["TSAN_OPTIONS"] = (f"{log}:halt_on_error=0:second_deadlock_stack=1:"
                                   f"suppressions={os.path.abspath('tests/tsan.supp')}")
        return env

    def command(self, test):
        # Old sanitizers cannot place their shadow with the address randomisation of new kernels.
        return (["setarch", "-R"] if self.args.sanitize else []) + test.cmd

    def execute(self, test, folder, log):
        limit = test.timeout * (5 if self.args.sanitize else 1)
        with open(log, "w") as out:
            p = subprocess.Popen(self.command(test), stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
                                 env=self.environment(test, folder))
            self.running.add(p)
            try:
                code = p.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            problems = [] if code is not None else [f"not done after {limit} s"]
            if code is None:
                for point in mounts_under(folder):  # frees what hangs in the kernel
                    subprocess.run(["umount", "-f", "-l", point], stderr=subprocess.DEVNULL)
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
            self.running.discard(p)
            problems += clean_up(folder) + sanitizer_reports(folder)
            out.write("".join(f"{line}\n" for line in problems))
        return code, problems

    def stop(self, signum, frame):
        """Ends the tests that run, so that each is cleaned up after, and starts no other."""
        self.stopped = True
        for p in list(self.running):
            os.killpg(p.pid, signal.SIGKILL)

    def run(self, test):
        if self.stopped:
            return
        folder = os.path.join(self.scratch, re.sub(r"[^\w.-]", "-", test.name))
        log = os.path.join(self.logs, re.sub(r"[^\w.-]", "-", test.name) + ".log")
        os.mkdir(folder, 0o755)
        start = time.time()
        code, problems = self.execute(test, folder, log)
        self.report(test, code, problems, time.time() - start, log)
        if not self.args.keep:
            shutil.rmtree(folder, ignore_errors=True)

    def report(self, test, code, problems, seconds, log):
        with open(log, errors="replace") as f:
            lines = f.read().splitlines()
        kind = "FAIL" if problems or code not in (0, 77) else "skip" if code == 77 else "ok"
        with self.lock:
            self.counts[kind] += 1
            if kind == "ok":
                print(f"ok {test.name} ({seconds:.1f})", flush=True)
            elif kind == "skip":
                print(f"skip {test.name}: {lines[-1] if lines else 'no reason given'}", flush=True)
            else:
                print(f"FAIL {test.name} ({seconds:.1f}, exit {code})", flush=True)
                for line in lines[-TAIL:]:
                    print(f"    {line}", flush=True)

    def run_all(self, tests):
        together = sorted((t for t in tests if not t.alone), key=lambda t: -t.timeout)
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(self.run, together))
        for test in tests:
            if test.alone:
                self.run(test)


def select(args):
    tests = list(shell_cases())
    if not args.on:
        tests = list(meson_tests(args.build)) + tests + list(vm_parts(args))
    return [t for t in tests
            if re.search(args.filter, t.name) and (args.long or t.tier != "long")
            and (t.sanitize or not args.sanitize) and (t.files or not args.on)]


def parse():
    p = argparse.ArgumentParser(prog="tests/run")
    p.add_argument("--build", required=True)
    p.add_argument("--long", action="store_true")
    p.add_argument("--filter", default="")
    p.add_argument("--list", action="store_true")
    p.add_argument("--sanitize")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--summary")
    p.add_argument("--on")
    p.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    return p.parse_args()


def main():
    args = parse()
    tests = select(args)
    if args.list:
        print("\n".join(t.name for t in tests))
        return 0
    scratch = tempfile.mkdtemp(prefix="pmemfs-tests.", dir="/dev/shm")
    os.chmod(scratch, 0o755)
    runner = Runner(args, scratch)
    signal.signal(signal.SIGINT, runner.stop)
    signal.signal(signal.SIGTERM, runner.stop)
    try:
        runner.run_all(tests)
    finally:
        if args.keep:
            print(f"scratch directories: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    passed, failed, skipped = (runner.counts[k] for k in ("ok", "FAIL", "skip"))
    if args.summary:
        with open(args.summary, "w") as f:
            f.write(f"{passed} {failed} {skipped}\n")
    else:
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or runner.stopped or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main())
