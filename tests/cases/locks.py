# SPDX-License-Identifier: BSD-3-Clause
"""Locks of files, between processes: flock(2), those of fcntl(2), and OFD locks.

Works in the current directory, prints nothing, and fails with a traceback. Each Peer is a process
of its own that does what it is told: `p.flock("a", EX)` waits for the result, `p.begin(...)` does
not, and `p.result()` then has it. A result is None, or a value, or the name of an errno.
"""
import errno
import fcntl
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time

SH, EX, UN = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN
RD, WR, NONE = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
NAMES = errno.errorcode | {errno.EDEADLK: "EDEADLK", errno.EAGAIN: "EAGAIN"}
FLOCK = "@hhqqi0q"  # struct flock: type, whence, start, len, pid


class Peer:
    ends = set()

    def __init__(self):
        self.end, other = socket.socketpair()
        Peer.ends.add(self.end)
        self.pid = os.fork()
        if self.pid:
            other.close()
            return
        for end in Peer.ends:  # a peer ends when nobody has its other end
            end.close()
        self.files = {}
        self.serve(other)

    def serve(self, end):
        stream = end.makefile("rb")
        signal.signal(signal.SIGUSR1, lambda *_: self.interrupted())
        while True:
            try:
                name, args = pickle.load(stream)
            except (EOFError, OSError):
                os._exit(0)
            try:
                answer = getattr(self, "do_" + name)(*args)
            except OSError as e:
                answer = NAMES[e.errno]
            end.sendall(pickle.dumps(answer))

    @staticmethod
    def interrupted():
        # Without it Python would begin the interrupted call again.
        raise OSError(errno.EINTR, "interrupted")

    # ---- told ----
    def begin(self, name, *args):
        self.end.sendall(pickle.dumps((name, args)))

    def waits(self, seconds=0.2):
        return not select.select([self.end], [], [], seconds)[0]

    def result(self, seconds=20):
        assert not self.waits(seconds), "no answer: it is not woken"
        return pickle.loads(self.end.recv(65536))

    def __getattr__(self, name):
        def call(*args):
            self.begin(name, *args)
            return self.result()

        return call

    def finish(self):
        Peer.ends.remove(self.end)
        self.end.close()
        os.waitpid(self.pid, 0)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.finish()

    # ---- done, in the process ----
    def do_open(self, key, name, flags=os.O_RDWR):
        self.files[key] = os.open(name, flags | os.O_CREAT, 0o644)

    def do_dup(self, key, of):
        self.files[key] = os.dup(self.files[of])

    def do_close(self, key):
        os.close(self.files.pop(key))

    def do_write(self, key, data):
        return os.pwrite(self.files[key], data, 0)

    def do_seek(self, key, to):
        os.lseek(self.files[key], to, os.SEEK_SET)

    def do_truncate(self, key, size):
        os.ftruncate(self.files[key], size)

    def do_flock(self, key, how, wait=False):
        fcntl.flock(self.files[key], how if wait else how | fcntl.LOCK_NB)

    def do_lock(self, key, how, start=0, length=0, whence=0, wait=False, ofd=False):
        command = (
            (fcntl.F_OFD_SETLKW if ofd else fcntl.F_SETLKW)
            if wait
            else (fcntl.F_OFD_SETLK if ofd else fcntl.F_SETLK)
        )
        request = struct.pack(FLOCK, how, whence, start, length, 0)
        fcntl.fcntl(self.files[key], command, request)

    def do_ofd(self, key, how, start=0, length=0, wait=False):
        self.do_lock(key, how, start, length, 0, wait, True)

    def do_asked(self, key, how, start=0, length=0, ofd=False):
        """What would be in the way: (type, start, length, pid), or None."""
        request = struct.pack(FLOCK, how, 0, start, length, 0)
        command = fcntl.F_OFD_GETLK if ofd else fcntl.F_GETLK
        how, _, start, length, pid = struct.unpack(
            FLOCK, fcntl.fcntl(self.files[key], command, request)
        )
        return None if how == NONE else (how, start, length, pid)

    def do_fork_and_exit(self):
        """A child that has all files and goes at once."""
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

    def do_fork_locks(self, key, how):
        """Whether a child that inherited the file may lock it."""
        child = os.fork()
        if not child:
            try:
                self.do_lock(key, how)
            except OSError:
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def same(got, want=None):
    assert got == want, f"{got}, not {want}"


def peers(n, name, flags=os.O_RDWR):
    """n processes that have `name` open as "f"."""
    made = [Peer() for _ in range(n)]
    for p in made:
        same(p.open("f", name, flags))
    return made


def finish(*all_of_them):
    for p in all_of_them:
        p.finish()


BUSY = "EAGAIN"

# ---- flock -------------------------------------------------------------------------------------


def flock_kinds():
    a, b = peers(2, "flock")
    same(a.flock("f", SH))
    same(b.flock("f", SH))
    same(b.flock("f", UN))
    same(b.flock("f", EX), BUSY)
    same(b.flock("f", SH))
    same(a.flock("f", UN))
    same(b.flock("f", EX))  # up, when nobody else has it
    same(a.flock("f", SH), BUSY)
    same(b.flock("f", SH))  # and down
    same(a.flock("f", SH))
    same(b.flock("f", EX), BUSY)
    same(a.flock("f", UN))
    same(a.flock("f", UN))
    finish(a, b)


def flock_descriptions():
    """It belongs to the open file, not to the process or the descriptor."""
    a, b = peers(2, "flock")
    same(a.open("again", "flock"))
    same(a.dup("dup", "f"))
    same(a.flock("f", EX))
    same(a.flock("again", EX), BUSY)
    same(a.flock("dup", EX))
    same(a.fork_and_exit())
    same(a.close("again"))
    same(a.close("f"))
    same(b.flock("f", SH), BUSY)
    same(a.close("dup"))
    same(b.flock("f", EX))
    same(a.open("read", "flock", os.O_RDONLY))
    same(b.flock("f", UN))
    same(a.flock("read", EX))  # for reading will do
    finish(a, b)


def flock_waits(end):
    a, b = peers(2, "flock")
    same(a.flock("f", EX))
    b.begin("flock", "f", EX, True)
    assert b.waits()
    end(a)
    same(b.result())
    finish(b)


# ---- fcntl -------------------------------------------------------------------------------------


def fcntl_ranges():
    a, b = peers(2, "fcntl")
    same(a.lock("f", WR, 100, 100))
    same(b.asked("f", RD, 0, 0), (WR, 100, 100, a.pid))
    same(b.lock("f", RD, 199, 1), BUSY)
    same(b.lock("f", WR, 200, 10))
    same(b.lock("f", WR, 0, 100))
    same(a.lock("f", NONE, 120, 10))  # in two
    same(b.asked("f", WR, 100, 100), (WR, 100, 20, a.pid))
    same(b.asked("f", WR, 120, 80), (WR, 130, 70, a.pid))
    same(b.lock("f", WR, 120, 10))
    same(b.lock("f", NONE))
    same(a.lock("f", RD, 120, 20))  # other kind over the end of it
    same(b.lock("f", RD, 125, 10))
    same(b.lock("f", RD, 140, 1), BUSY)
    same(a.lock("f", WR, 120, 20), BUSY)
    same(b.lock("f", NONE))
    same(a.lock("f", WR, 120, 20))
    same(b.asked("f", WR, 0, 0), (WR, 100, 100, a.pid))  # in one
    same(a.asked("f", WR, 0, 0))  # none's own is in the way
    finish(a, b)


def fcntl_ends():
    """To the end, however far that is; from the position, the size; backwards."""
    a, b = peers(2, "fcntl-ends")
    same(a.truncate("f", 1000))
    same(a.lock("f", WR, 500, 0))
    same(b.lock("f", WR, 1 << 60, 1), BUSY)
    same(b.lock("f", WR, 0, 500))
    same(b.asked("f", WR, 600, 5), (WR, 500, 0, a.pid))
    same(a.lock("f", NONE))
    same(a.lock("f", WR, -100, 10, 2))
    same(b.asked("f", WR, 501, 499), (WR, 900, 10, a.pid))
    same(a.lock("f", NONE))
    same(a.seek("f", 700))
    same(a.lock("f", WR, 5, -5, 1))
    same(b.asked("f", WR, 600, 0), (WR, 700, 5, a.pid))
    same(a.lock("f", WR, 10, -11), "EINVAL")
    same(a.lock("f", WR, -1, 1), "EINVAL")
    same(a.lock("f", WR, (1 << 63) - 1, 1))
    same(a.lock("f", WR, (1 << 63) - 1, 2), "EOVERFLOW")
    finish(a, b)


def fcntl_modes():
    (a,) = peers(1, "fcntl")
    same(a.open("r", "fcntl", os.O_RDONLY))
    same(a.open("w", "fcntl", os.O_WRONLY))
    same(a.lock("r", WR), "EBADF")
    same(a.lock("w", RD), "EBADF")
    same(a.lock("r", RD))
    same(a.lock("w", WR))
    finish(a)


def fcntl_processes():
    """It belongs to the process: gone with the first descriptor that it closes, not inherited."""
    a, b = peers(2, "fcntl")
    same(a.lock("f", WR))
    same(a.open("other", "fcntl", os.O_RDONLY))
    same(a.lock("f", WR))
    same(a.fork_locks("f", WR), False)
    same(a.fork_and_exit())
    same(b.lock("f", RD), BUSY)
    same(a.close("other"))
    same(b.lock("f", WR))
    finish(a, b)


def fcntl_waits(end):
    a, b, c = peers(3, "fcntl")
    same(a.lock("f", WR, 0, 10))
    b.begin("lock", "f", WR, 5, 10, 0, True)
    c.begin("lock", "f", WR, 0, 5, 0, True)
    assert b.waits() and c.waits(0)
    end(a)
    same(b.result())
    same(c.result())
    finish(b, c)


def fcntl_upgrade():
    """Two that read and both want to write: the second is told, and keeps what it had."""
    a, b = peers(2, "fcntl")
    same(a.lock("f", RD))
    same(b.lock("f", RD))
    a.begin("lock", "f", WR, 0, 0, 0, True)
    assert a.waits()
    same(b.lock("f", WR, 0, 0, 0, True), "EDEADLK")
    assert a.waits()
    same(b.lock("f", NONE))
    same(a.result())
    finish(a, b)


def fcntl_deadlock():
    a, b, c = peers(3, "fcntl")
    for n, p in enumerate((a, b, c)):
        same(p.lock("f", WR, n, 1))
    a.begin("lock", "f", WR, 1, 1, 0, True)
    assert a.waits()
    b.begin("lock", "f", WR, 2, 1, 0, True)
    assert b.waits()
    same(c.lock("f", WR, 0, 1, 0, True), "EDEADLK")
    same(c.lock("f", NONE))
    same(b.result())
    same(b.lock("f", NONE))
    same(a.result())
    finish(a, b, c)


def fcntl_deadlock_of_files():
    a, b = peers(2, "one")
    for p in (a, b):
        same(p.open("g", "two"))
    same(a.lock("f", WR))
    same(b.lock("g", WR))
    a.begin("lock", "g", RD, 0, 0, 0, True)
    assert a.waits()
    same(b.lock("f", RD, 0, 0, 0, True), "EDEADLK")
    b.finish()
    same(a.result())
    finish(a)


def interrupted(what, *args):
    a, b = peers(2, "signal")
    same(a.flock("f", EX))
    same(a.ofd("f", WR))
    b.begin(what, *args)
    assert b.waits()
    os.kill(b.pid, signal.SIGUSR1)
    same(b.result(), "EINTR")
    same(a.flock("f", UN))
    same(a.ofd("f", NONE))
    b.begin(what, *args)  # nothing is left of the first try
    same(b.result())
    finish(a, b)


# ---- OFD ---------------------------------------------------------------------------------------


def ofd_descriptions():
    a, b = peers(2, "ofd")
    same(a.open("again", "ofd"))
    same(a.dup("dup", "f"))
    same(a.ofd("f", WR, 0, 10))
    same(a.ofd("again", RD, 9, 1), BUSY)
    same(a.asked("again", RD, 0, 0, True), (WR, 0, 10, -1))
    same(a.ofd("dup", WR, 0, 20))
    same(a.ofd("again", WR, 20, 1))
    same(b.asked("f", RD, 0, 20), (WR, 0, 20, -1))
    same(b.lock("f", RD, 0, 1), BUSY)  # the two kinds see each other
    same(a.lock("f", RD, 0, 1), BUSY)  # also of one process
    same(a.fork_and_exit())
    same(a.close("again"))
    same(a.close("f"))
    same(b.ofd("f", RD, 0, 1), BUSY)
    same(b.ofd("f", WR, 20, 1))
    same(a.close("dup"))
    same(b.ofd("f", WR, 0, 20))
    finish(a, b)


def ofd_upgrade():
    (a,) = peers(1, "ofd")
    same(a.open("g", "ofd"))
    same(a.ofd("f", RD))
    same(a.ofd("g", RD, 0, 1))
    same(a.ofd("f", WR), BUSY)
    same(a.ofd("f", WR, 1, 5))
    same(a.ofd("g", RD, 0, 6), BUSY)
    same(a.ofd("g", NONE))
    same(a.ofd("f", WR))
    finish(a)


def ofd_waits(end):
    a, b = peers(2, "ofd")
    same(a.ofd("f", WR, 0, 10))
    b.begin("ofd", "f", RD, 5, 10, True)
    assert b.waits()
    end(a)
    same(b.result())
    finish(b)


# ---- all of them -------------------------------------------------------------------------------


def kinds_apart():
    """flock and fcntl do not see each other, and neither stops who does not ask."""
    a, b = peers(2, "mandatory")
    os.chmod("mandatory", 0o2644)  # what once made locks mandatory
    same(a.flock("f", EX))
    same(b.lock("f", WR))
    same(a.write("f", b"a"), 1)
    same(b.write("f", b"b"), 1)
    same(b.truncate("f", 0))
    with open("mandatory", "w") as f:
        f.write("c")
    os.unlink("mandatory")
    finish(a, b)


def names_do_not_matter():
    a, b = peers(2, "named")
    os.link("named", "linked")
    same(a.flock("f", EX))
    same(a.lock("f", WR))
    same(b.open("l", "linked"))
    os.rename("named", "renamed")
    same(b.flock("l", SH), BUSY)
    same(b.lock("l", RD), BUSY)
    os.unlink("linked")
    os.unlink("renamed")
    same(b.flock("f", SH), BUSY)
    same(b.lock("f", RD), BUSY)
    same(b.open("new", "named"))  # the same name, another file
    same(b.flock("new", EX))
    same(b.lock("new", WR))
    a.finish()
    same(b.flock("f", EX))
    same(b.lock("f", WR))
    finish(b)


def not_only_files():
    os.mkdir("d")
    os.mkfifo("fifo")
    for name, flags in (("d", os.O_RDONLY | os.O_DIRECTORY), ("fifo", os.O_RDWR)):
        fds = [os.open(name, flags) for _ in range(2)]
        fcntl.flock(fds[0], EX)
        try:
            fcntl.flock(fds[1], SH | fcntl.LOCK_NB)
            raise AssertionError("two have it: " + name)
        except BlockingIOError:
            pass
        for fd in fds:
            os.close(fd)
    os.rmdir("d")
    os.unlink("fifo")


def contended():
    """A counter that several processes count up under each kind of lock."""
    rounds, processes = 200, 4

    def count(lock, unlock):
        fd = os.open("counter", os.O_RDWR)
        for _ in range(rounds):
            lock(fd)
            n = int(os.pread(fd, 20, 0)) + 1
            os.pwrite(fd, b"%-20d" % n, 0)
            unlock(fd)
        os._exit(0)

    def ofd(fd, how):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack(FLOCK, how, 0, 0, 0, 0))

    for lock, unlock in (
        (lambda fd: fcntl.flock(fd, EX), lambda fd: fcntl.flock(fd, UN)),
        (lambda fd: fcntl.lockf(fd, EX), lambda fd: fcntl.lockf(fd, UN)),
        (lambda fd: ofd(fd, WR), lambda fd: ofd(fd, NONE)),
    ):
        with open("counter", "w") as f:
            f.write("0")
        started = [os.fork() or count(lock, unlock) for _ in range(processes)]
        for pid in started:
            same(os.waitpid(pid, 0)[1], 0)
        with open("counter") as f:
            same(int(f.read()), rounds * processes)


def hold():
    """Locks `held` in all three ways and sleeps; says when it has them."""
    fd = os.open("held", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(fd, EX)
    fcntl.lockf(fd, EX, 10, 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(FLOCK, WR, 0, 10, 10, 0))
    print("held", flush=True)
    time.sleep(600)


def free():
    """Nobody has a lock on `held`."""
    (a,) = peers(1, "held")
    same(a.flock("f", EX))
    same(a.asked("f", WR))
    same(a.lock("f", WR))
    finish(a)


def main():
    flock_kinds()
    flock_descriptions()
    for unlock in (
        lambda p: (same(p.flock("f", UN)), p.finish()),
        lambda p: (same(p.close("f")), p.finish()),
        Peer.finish,
        Peer.kill,
    ):
        flock_waits(unlock)
    fcntl_ranges()
    fcntl_ends()
    fcntl_modes()
    fcntl_processes()
    for unlock in (
        lambda p: (same(p.lock("f", NONE)), p.finish()),
        lambda p: (same(p.close("f")), p.finish()),
        Peer.finish,
        Peer.kill,
    ):
        fcntl_waits(unlock)
    fcntl_upgrade()
    fcntl_deadlock()
    fcntl_deadlock_of_files()
    ofd_descriptions()
    ofd_upgrade()
    for unlock in (
        lambda p: (same(p.ofd("f", NONE)), p.finish()),
        lambda p: (same(p.close("f")), p.finish()),
        Peer.finish,
        Peer.kill,
    ):
        ofd_waits(unlock)
    interrupted("flock", "f", EX, True)
    interrupted("lock", "f", WR, 0, 0, 0, True)
    interrupted("ofd", "f", WR, 0, 0, True)
    kinds_apart()
    names_do_not_matter()
    not_only_files()
    contended()


{"hold": hold, "free": free}.get(sys.argv[1] if len(sys.argv) > 1 else "", main)()
