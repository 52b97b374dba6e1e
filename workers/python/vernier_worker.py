"""The worker protocol for back ends written in Python: requests, sessions, shared memory, errors (docs/worker-protocol.md).

A worker is a class with start, identity, load, run, unload; `main` does the rest. Only the standard library is used here, and nothing of the
back end may be imported before `main` has taken descriptor 1 away: libraries print.
"""
import hashlib
import json
import mmap
import os
import sys
import time

import _posixshmem

PROTOCOL = 1
ALIGN = 64

# name -> (number of ONNX TensorProto.DataType, bits of an element, NumPy type whose bits carry it; None: packed below one byte)
DTYPES = {
    "f32": (1, 32, "float32"), "u8": (2, 8, "uint8"), "i8": (3, 8, "int8"), "u16": (4, 16, "uint16"), "i16": (5, 16, "int16"),
    "i32": (6, 32, "int32"), "i64": (7, 64, "int64"), "string": (8, 0, None), "bool": (9, 8, "bool"), "f16": (10, 16, "float16"),
    "f64": (11, 64, "float64"), "u32": (12, 32, "uint32"), "u64": (13, 64, "uint64"), "c64": (14, 64, "complex64"),
    "c128": (15, 128, "complex128"), "bf16": (16, 16, "uint16"), "f8e4m3fn": (17, 8, "uint8"), "f8e4m3fnuz": (18, 8, "uint8"),
    "f8e5m2": (19, 8, "uint8"), "f8e5m2fnuz": (20, 8, "uint8"), "u4": (21, 4, None), "i4": (22, 4, None), "f4e2m1": (23, 4, None),
    "f8e8m0": (24, 8, "uint8"), "u2": (25, 2, None), "i2": (26, 2, None),
}
NAME_OF_NUMBER = {row[0]: name for name, row in DTYPES.items()}


class Refusal(Exception):
    """An answer with "ok": false. kind: unsupported, notfound, usage, memory, error."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Tensor:
    """dtype by name, dims, and either `data` (bytes of the wire: a buffer) or `strings` (a flat list of bytes)."""

    __slots__ = ("dtype", "dims", "data", "strings")

    def __init__(self, dtype, dims, data=None, strings=None):
        self.dtype, self.dims, self.data, self.strings = dtype, tuple(dims), data, strings

    def numpy(self):
        """View as a NumPy array; types that NumPy lacks as unsigned integers of the same width, packed ones as their bytes."""
        import numpy
        if self.strings is not None:
            flat = numpy.empty(len(self.strings), dtype=object)
            flat[:] = [s.decode("utf-8", "surrogateescape") for s in self.strings]
            return flat.reshape(self.dims)
        kind = DTYPES[self.dtype][2]
        if kind is None:
            return numpy.frombuffer(self.data, dtype=numpy.uint8)
        return numpy.frombuffer(self.data, dtype=kind).reshape(self.dims)

    @staticmethod
    def of_numpy(array, dtype=None):
        """Of an array of a NumPy type, or of unsigned integers that carry `dtype`."""
        import numpy
        if array.dtype.kind in "OUS":
            return Tensor("string", array.shape, strings=[s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape")
                                                          for s in array.reshape(-1).tolist()])
        array = numpy.ascontiguousarray(array).reshape(array.shape)
        name = dtype or NUMPY_NAMES.get(array.dtype.name)
        if name is None:
            raise Refusal("unsupported", "a result of NumPy type %s" % array.dtype)
        return Tensor(name, array.shape, data=array.reshape(-1).view(numpy.uint8).data)


NUMPY_NAMES = {row[2]: name for name, row in reversed(list(DTYPES.items())) if row[2]}


class Sequence:
    """A sequence or an optional: `kind`, name of the element type, items."""

    __slots__ = ("kind", "elem", "items")

    def __init__(self, kind, elem, items):
        self.kind, self.elem, self.items = kind, elem, items


class Output:
    """One output that the host asks for. dtype None: open. Else `memory` is the host's, to be filled in place (then `host` is set to True)."""

    __slots__ = ("name", "dtype", "dims", "memory", "host", "value")

    def __init__(self, name):
        self.name, self.dtype, self.dims, self.memory, self.host, self.value = name, None, None, None, False, None

    def put(self, value):
        """Takes the result: into the host's memory if its form is the declared one, else handed over. None: not returned."""
        if isinstance(value, Tensor) and self.memory is not None and value.dtype == self.dtype and value.dims == self.dims:
            self.memory[:] = value.data
            self.host = True
        else:
            self.value = value


# ---- sizes and segments ----

def storage(dtype, count):
    return (count * DTYPES[dtype][1] + 7) // 8


def product(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def attach(name, writable):
    fd = _posixshmem.shm_open(name, os.O_RDWR if writable else os.O_RDONLY, mode=0)
    try:
        return mmap.mmap(fd, 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
    finally:
        os.close(fd)


class Segments:
    """Segments of one request, attached once each."""

    def __init__(self):
        self.open = {}

    def view(self, desc, writable):
        key = (desc["shm"], writable)
        if key not in self.open:
            self.open[key] = memoryview(attach(desc["shm"], writable))
        view, begin, size = self.open[key], desc["offset"], desc["bytes"]
        if begin < 0 or size < 0 or begin + size > len(view):
            raise Refusal("error", "'%s' runs past the end of its segment" % desc.get("name"))
        return view[begin:begin + size]


class Builder:
    """The segment that carries results which the host has no memory for: sizes first, then one segment."""

    def __init__(self, name):
        self.name, self.size, self.parts = name, 0, []

    def describe(self, tensor):
        if tensor.strings is not None:
            offsets, blob = [0], bytearray()
            for s in tensor.strings:
                blob += s
                offsets.append(len(blob))
            data = b"".join(n.to_bytes(8, "little", signed=True) for n in offsets) + blob
        else:
            data = tensor.data if tensor.data is not None else b""
        desc = {"dtype": tensor.dtype, "dims": list(tensor.dims), "shm": self.name, "offset": self.size, "bytes": len(data)}
        self.parts.append((self.size, data))
        self.size = (self.size + len(data) + ALIGN - 1) // ALIGN * ALIGN
        return desc

    def value(self, value):
        if value is None:
            return {"kind": "absent"}
        if isinstance(value, Tensor):
            return {"kind": "tensor", **self.describe(value)}
        return {"kind": value.kind, "elem": value.elem, "items": [self.value(v) for v in value.items]}

    def write(self):
        if not self.parts:
            return
        size = max(self.size, 1)
        fd = _posixshmem.shm_open(self.name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            with mmap.mmap(fd, size) as memory:
                for begin, data in self.parts:
                    memory[begin:begin + len(data)] = data
        except BaseException:
            _posixshmem.shm_unlink(self.name)
            raise
        finally:
            os.close(fd)


def read_value(desc, segments):
    kind = desc.get("kind", "tensor")
    if kind == "absent":
        return None
    if kind in ("sequence", "optional"):
        return Sequence(kind, desc["elem"], [read_value(d, segments) for d in desc["items"]])
    if kind != "tensor":
        raise Refusal("usage", "unknown kind '%s'" % kind)
    dtype, dims = desc["dtype"], desc["dims"]
    if dtype not in DTYPES:
        raise Refusal("usage", "unknown dtype '%s'" % dtype)
    data = segments.view(desc, False)
    count = product(dims)
    if dtype != "string":
        if storage(dtype, count) != len(data):
            raise Refusal("usage", "'%s': bytes do not fit dtype and dims" % desc.get("name"))
        return Tensor(dtype, dims, data=data)
    offsets = memoryview(data[:8 * (count + 1)]).cast("q")
    blob = bytes(data[8 * (count + 1):])
    return Tensor(dtype, dims, strings=[blob[offsets[i]:offsets[i + 1]] for i in range(count)])


# ---- identity ----

INTERESTING_FLAGS = frozenset(
    "sse4_2 avx f16c fma avx2 avx512f avx512bw avx512vl avx512_vnni avx_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 amx_fp16 "
    "asimd asimddp asimdhp bf16 i8mm sve sve2".split())


def cpu_features():
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return [w for w in line.split(":", 1)[1].split() if w in INTERESTING_FLAGS]
    except OSError:
        pass
    return []


def library(path):
    """{"path", "sha256"} of the file that does the work."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for chunk in iter(lambda: f.read(1 << 20), b""):
            digest.update(chunk)
    return {"path": os.path.realpath(path), "sha256": digest.hexdigest()}


# ---- the frame ----

class Frame:
    def __init__(self, worker, reply_fd):
        self.worker, self.reply_fd = worker, reply_fd
        self.started = self.done = False
        self.prefix, self.segments, self.sessions = "", 0, {}
        self.commands = {"hello": self.hello, "load": self.load, "run": self.run, "unload": self.unload, "quit": self.quit}

    def hello(self, rq):
        if rq.get("protocol") != PROTOCOL:
            raise Refusal("usage", "hello: this worker speaks protocol version %d only" % PROTOCOL)
        self.prefix = rq["shm_prefix"]
        options = {"device": rq.get("device") or "", "threads": rq.get("threads") or 0, "cache": rq.get("cache"), **rq.get("options", {})}
        self.worker.start(options)
        self.started = True
        identity = self.worker.identity()
        identity["capabilities"] = {"formats": ["onnx"], "graph": True, "sequences": False, "strings": False, "vjp": False,
                                    **identity.get("capabilities", {})}
        return {"protocol": PROTOCOL, "worker": self.worker.name, "identity": identity}

    def session(self, rq):
        if rq.get("session") not in self.sessions:
            raise Refusal("notfound", "%s: no session %s" % (rq.get("cmd"), rq.get("session")))
        return self.sessions[rq["session"]]

    def load(self, rq):
        if rq["session"] in self.sessions:
            raise Refusal("usage", "load: session %d is open" % rq["session"])
        memory = attach(rq["shm"], False)
        if rq["size"] > len(memory):
            raise Refusal("usage", "load: the segment is smaller than the model")
        model = bytes(memory[:rq["size"]])
        memory.close()
        session, inputs, outputs = self.worker.load(rq.get("format", "onnx"), model, rq.get("folder"))
        self.sessions[rq["session"]] = session
        return {"session": rq["session"], "inputs": inputs, "outputs": outputs}

    def run(self, rq):
        session, segments = self.session(rq), Segments()
        inputs = {d["name"]: read_value(d, segments) for d in rq["inputs"]}
        outputs = []
        for d in rq["outputs"]:
            out = Output(d["name"])
            if "shm" in d:
                out.dtype, out.dims, out.memory = d["dtype"], tuple(d["dims"]), segments.view(d, True)
            outputs.append(out)
        begin = time.perf_counter()
        self.worker.run(session, inputs, outputs)
        seconds = time.perf_counter() - begin
        self.segments += 1
        builder = Builder("%s-%d" % (self.prefix, self.segments))
        told = []
        for out in outputs:
            if out.host:
                told.append({"name": out.name, "kind": "tensor", "host": True})
            elif out.value is not None:
                told.append({"name": out.name, **builder.value(out.value)})
        builder.write()
        return {"seconds": seconds, "outputs": told}

    def unload(self, rq):
        self.session(rq)
        self.worker.unload(self.sessions.pop(rq["session"]))
        return {}

    def quit(self, rq):
        self.done = True
        return {}

    def answer(self, line):
        reply = {}
        try:
            rq = json.loads(line)
            if not isinstance(rq, dict):
                raise Refusal("usage", "request is not a JSON object")
            reply["id"] = rq.get("id")
            command = self.commands.get(rq.get("cmd"))
            if command is None:
                raise Refusal("unsupported", "unknown command '%s'" % rq.get("cmd"))
            if not self.started and rq["cmd"] not in ("hello", "quit"):
                raise Refusal("usage", "%s: say hello first" % rq["cmd"])
            reply.update(command(rq), ok=True)
        except Refusal as e:
            reply.update(ok=False, error={"kind": e.kind, "text": one_line(e)})
        except MemoryError as e:
            reply.update(ok=False, error={"kind": "memory", "text": one_line(e) or "out of memory"})
        except Exception as e:  # whatever a library throws is the answer, not the end
            reply.update(ok=False, error={"kind": "error", "text": "%s: %s" % (type(e).__name__, one_line(e))})
        data = json.dumps(reply, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(self.reply_fd, data):]


def one_line(e):
    return " ".join(str(e).split())[:500]


def main(worker):
    reply_fd = os.dup(1)
    os.dup2(2, 1)
    frame = Frame(worker, reply_fd)
    requests = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    while not frame.done:
        line = requests.readline()
        if not line:
            break
        frame.answer(line)
    sys.stderr.flush()
    os._exit(0)  # libraries with threads of their own are slow, or crash, in a regular exit; nothing is left to save
