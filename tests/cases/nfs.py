# SPDX-License-Identifier: BSD-3-Clause
"""An NFS client of libnfs, for nfs.sh: nfs.py VERSION EXPORT

Reads one command a line, its words separated by spaces, and answers each with one line: what it
found, "ok", or the name of an errno. `open KEY PATH` keeps a file's handle, that `get KEY` reads by.
"""
import ctypes
import ctypes.util
import errno
import hashlib
import os
import sys

lib = ctypes.CDLL(ctypes.util.find_library("nfs"))
for name in ("nfs_init_context", "nfs_parse_url_dir", "nfs_readdir"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.nfs_get_error.restype = ctypes.c_char_p
PIECE = 2048  # libnfs fails to encode longer writes of version 4


class Url(ctypes.Structure):
    _fields_ = [("server", ctypes.c_char_p), ("path", ctypes.c_char_p)]


class Entry(ctypes.Structure):
    _fields_ = [("next", ctypes.c_void_p), ("name", ctypes.c_char_p)]


# dev, ino, mode, nlink, uid, gid, rdev, size, ...
Stat = ctypes.c_uint64 * 32


def check(result):
    if result < 0:
        raise OSError(-result, "")
    return result


class Client:
    def __init__(self, version, export):
        self.nfs = ctypes.c_void_p(lib.nfs_init_context())
        text = f"nfs://127.0.0.1{export}/?version={version}&autoreconnect=-1"
        url = lib.nfs_parse_url_dir(self.nfs, text.encode())
        url = ctypes.cast(url, ctypes.POINTER(Url)).contents
        if lib.nfs_mount(self.nfs, url.server, url.path):
            raise SystemExit(lib.nfs_get_error(self.nfs).decode())
        self.held = {}

    def call(self, function, *args):
        args = [a.encode() if isinstance(a, str) else a for a in args]
        return check(getattr(lib, "nfs_" + function)(self.nfs, *args))

    def at(self, path, flags):
        handle = ctypes.c_void_p()
        self.call("open", path, flags, ctypes.byref(handle))
        return handle

    def all_of(self, handle):
        data, buf = b"", ctypes.create_string_buffer(PIECE)
        while True:
            at, size = ctypes.c_uint64(len(data)), ctypes.c_uint64(PIECE)
            n = self.call("pread", handle, at, size, buf)
            if not n:
                return data
            data += buf.raw[:n]

    # ---- commands ----
    def do_open(self, key, path):
        self.held[key] = self.at(path, 0)

    def do_get(self, key):
        self.call("fstat64", self.held[key], ctypes.byref(Stat()))
        return self.all_of(self.held[key]).decode().strip()

    def do_close(self, key):
        self.call("close", self.held.pop(key))

    def do_sum(self, path):
        handle = self.at(path, 0)
        data = self.all_of(handle)
        self.call("close", handle)
        return hashlib.sha256(data).hexdigest()

    def do_put(self, local, path):
        """Copies a local file there."""
        handle = ctypes.c_void_p()
        self.call("creat", path, 0o644, ctypes.byref(handle))
        self.call("close", handle)  # which version 4 has open for reading only
        handle = self.at(path, os.O_WRONLY)
        with open(local, "rb") as f:
            at = 0
            while piece := f.read(PIECE):
                size = ctypes.c_uint64(len(piece))
                same = self.call("pwrite", handle, ctypes.c_uint64(at), size, piece)
                assert same == len(piece)
                at += same
        self.call("close", handle)

    def do_list(self, path):
        handle, names = ctypes.c_void_p(), []
        self.call("opendir", path, ctypes.byref(handle))
        while entry := lib.nfs_readdir(self.nfs, handle):
            names.append(ctypes.cast(entry, ctypes.POINTER(Entry)).contents.name.decode())
        lib.nfs_closedir(self.nfs, handle)
        return " ".join(sorted(n for n in names if n not in (".", "..")))

    def do_stat(self, path):
        st = Stat()
        self.call("lstat64", path, ctypes.byref(st))
        return f"{st[1]} {st[2]:o} {st[3]} {st[4]} {st[5]} {st[7]}"

    def do_readlink(self, path):
        buf = ctypes.create_string_buffer(8192)
        self.call("readlink", path, buf, len(buf))
        return buf.value.decode()

    def do_chmod(self, path, mode):
        self.call("chmod", path, int(mode, 8))

    def do_truncate(self, path, size):
        self.call("truncate", path, ctypes.c_uint64(int(size)))


def main():
    client = Client(*sys.argv[1:])
    print("ready", flush=True)
    for line in sys.stdin:
        name, *args = line.split()
        try:
            run = getattr(client, "do_" + name, None)
            answer = run(*args) if run else client.call(name, *args)
        except OSError as e:
            # libnfs calls several of the protocol's errors EFAULT, and names them in its message.
            stale = b"ERR_STALE" in (lib.nfs_get_error(client.nfs) or b"")
            answer = "ESTALE" if stale else errno.errorcode[e.errno]
        print("ok" if answer in (None, 0) else answer, flush=True)


main()
