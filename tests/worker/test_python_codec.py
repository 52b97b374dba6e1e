"""The codec of Python workers: every kind of value goes in and comes out, refusals are answers, and shared memory is as the protocol says."""
import importlib.util
import json
import mmap
import os
import pathlib
import struct

import _posixshmem
import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "workers" / "python" / "vernier_worker.py"
spec = importlib.util.spec_from_file_location("vernier_worker", PATH)
vw = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vw)


class Echo:
    """Returns its inputs as its outputs, by position."""

    name = "echo"

    def start(self, options):
        self.options = options

    def identity(self):
        return {"framework": "echo", "version": "1", "device": "cpu"}

    def load(self, form, model, folder):
        if model == b"bad":
            raise vw.Refusal("unsupported", "operator\nNonsense")
        if model == b"worse":
            raise MemoryError
        if model == b"worst":
            raise ValueError("what a library says")
        return model, [], []

    def run(self, session, inputs, outputs):
        for out, value in zip(outputs, inputs.values()):
            out.put(value)

    def unload(self, session):
        pass


class Host:
    def __init__(self):
        self.read_fd, write_fd = os.pipe()
        self.frame = vw.Frame(Echo(), write_fd)
        self.prefix = "/vernier-codec-%d" % os.getpid()
        self.made, self.next = [], 0
        self.ask(cmd="hello", protocol=1, shm_prefix=self.prefix, options={"key": "value"}, threads=3)

    def ask(self, **rq):
        self.next += 1
        self.frame.answer(json.dumps({"id": self.next, **rq}))
        reply = json.loads(os.read(self.read_fd, 1 << 16))
        assert reply["id"] == self.next
        return reply

    def segment(self, data):
        name = "%s-h%d" % (self.prefix, len(self.made))
        fd = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
        os.ftruncate(fd, max(len(data), 1))
        memory = mmap.mmap(fd, max(len(data), 1))
        memory[:len(data)] = data
        os.close(fd)
        self.made.append(name)
        return name, memory

    def tensor(self, dtype, dims, data):
        return {"kind": "tensor", "dtype": dtype, "dims": dims, "shm": self.segment(data)[0], "offset": 0, "bytes": len(data)}

    def load(self, model=b"m", session=1):
        return self.ask(cmd="load", session=session, shm=self.segment(model)[0], size=len(model), format="onnx")

    def data(self, desc):
        memory = vw.attach(desc["shm"], False)
        return memory[desc["offset"]:desc["offset"] + desc["bytes"]]

    def close(self):
        for name in self.made:
            _posixshmem.shm_unlink(name)
        for name in os.listdir("/dev/shm"):
            if name.startswith(self.prefix[1:]):
                _posixshmem.shm_unlink("/" + name)


@pytest.fixture
def host():
    h = Host()
    yield h
    h.close()


def test_options_reach_the_worker(host):
    assert host.frame.worker.options == {"device": "", "threads": 3, "cache": None, "key": "value"}


def test_every_dtype_comes_back(host):
    assert host.load()["ok"]
    for dtype, (_, bits, _) in vw.DTYPES.items():
        if dtype == "string":
            continue
        data = bytes(range(1, (5 * bits + 7) // 8 + 1))
        reply = host.ask(cmd="run", session=1, inputs=[{"name": "x", **host.tensor(dtype, [5], data)}], outputs=[{"name": "y"}])
        (y,) = reply["outputs"]
        assert (y["dtype"], y["dims"], host.data(y)) == (dtype, [5], data)
        assert y["shm"].startswith(host.prefix + "-") and y["offset"] % 64 == 0


def test_host_memory_is_used_only_for_the_declared_form(host):
    host.load()
    x = host.tensor("f32", [2], struct.pack("<2f", 1, 2))
    for dims, dtype, size, there in (([2], "f32", 8, True), ([1, 2], "f32", 8, False), ([1], "f32", 4, False), ([2], "i32", 8, False)):
        name, memory = host.segment(b"\xc5" * 256)
        reply = host.ask(cmd="run", session=1, inputs=[{"name": "x", **x}],
                         outputs=[{"name": "y", "dtype": dtype, "dims": dims, "shm": name, "offset": 64, "bytes": size}])
        (y,) = reply["outputs"]
        assert y.get("host", False) == there
        assert memory[:64] == b"\xc5" * 64 and memory[64 + size:] == b"\xc5" * (192 - size)
        assert memory[64:64 + size] == (struct.pack("<2f", 1, 2) if there else b"\xc5" * size)


def test_strings_sequences_optionals_and_nothing(host):
    host.load()
    words = [b"", b"ab", "é".encode()]
    offsets = [0, 0, 2, 4]
    text = {"name": "s", **host.tensor("string", [3], struct.pack("<4q", *offsets) + b"".join(words))}
    one = host.tensor("i64", [], struct.pack("<q", 7))
    sequence = {"name": "q", "kind": "sequence", "elem": "i64", "items": [one, one]}
    some = {"name": "o", "kind": "optional", "elem": "i64", "items": [one]}
    none = {"name": "n", "kind": "optional", "elem": "i64", "items": []}
    nested = {"name": "d", "kind": "optional", "elem": "i64", "items": [{k: v for k, v in sequence.items() if k != "name"}]}
    absent = {"name": "a", "kind": "absent"}
    inputs = [text, sequence, some, none, nested, absent]
    reply = host.ask(cmd="run", session=1, inputs=inputs, outputs=[{"name": "y%d" % i} for i in range(6)])
    y = {o["name"]: o for o in reply["outputs"]}
    assert host.data(y["y0"]) == struct.pack("<4q", *offsets) + b"".join(words)
    assert [y["y%d" % i]["kind"] for i in range(1, 5)] == ["sequence", "optional", "optional", "optional"]
    assert [host.data(i) for i in y["y1"]["items"]] == [struct.pack("<q", 7)] * 2
    assert len(y["y2"]["items"]) == 1 and y["y3"]["items"] == [] and y["y3"]["elem"] == "i64"
    assert y["y4"]["items"][0]["kind"] == "sequence"
    assert "y5" not in y  # nothing was returned


def test_refusals_are_answers(host):
    def kind(reply):
        return reply["error"]["kind"]

    assert kind(host.ask(cmd="dance")) == "unsupported"
    assert kind(host.ask(cmd="run", session=9, inputs=[], outputs=[])) == "notfound"
    assert kind(host.ask(cmd="hello", protocol=2)) == "usage"
    reply = host.load(b"bad")
    assert reply["error"] == {"kind": "unsupported", "text": "operator Nonsense"}
    assert kind(host.load(b"worse")) == "memory"
    assert host.load(b"worst")["error"] == {"kind": "error", "text": "ValueError: what a library says"}
    assert host.load()["ok"]
    assert kind(host.load()) == "usage"  # the session is open
    assert host.ask(cmd="unload", session=1)["ok"]
    assert kind(host.ask(cmd="unload", session=1)) == "notfound"
    x = host.tensor("f32", [2], b"12345678")
    host.load()
    for change, text in (({"bytes": 4}, "bytes do not fit"), ({"dtype": "f33"}, "unknown dtype"), ({"offset": 4096}, "past the end"),
                         ({"kind": "matrix"}, "unknown kind")):
        reply = host.ask(cmd="run", session=1, inputs=[{"name": "x", **x, **change}], outputs=[])
        assert not reply["ok"] and text in reply["error"]["text"]
    host.frame.answer("this is no JSON")
    assert json.loads(os.read(host.read_fd, 4096))["ok"] is False


def test_say_hello_first():
    read_fd, write_fd = os.pipe()
    vw.Frame(Echo(), write_fd).answer('{"id":1,"cmd":"load"}')
    assert json.loads(os.read(read_fd, 4096))["error"] == {"kind": "usage", "text": "load: say hello first"}


def test_numpy_views():
    numpy = pytest.importorskip("numpy")
    x = vw.Tensor("bf16", [2], data=b"\x80\x3f\x00\x40")
    assert x.numpy().dtype == numpy.uint16 and x.numpy().tolist() == [0x3F80, 0x4000]
    back = vw.Tensor.of_numpy(numpy.arange(6, dtype=numpy.int32).reshape(2, 3).T)
    assert (back.dtype, back.dims) == ("i32", (3, 2)) and bytes(back.data) == struct.pack("<6i", 0, 3, 1, 4, 2, 5)
    assert vw.Tensor.of_numpy(numpy.array(1.5)).dims == ()
    assert vw.Tensor.of_numpy(numpy.zeros((0, 3), numpy.float16)).dims == (0, 3)
    assert vw.Tensor.of_numpy(numpy.array(["a", "b"])).strings == [b"a", b"b"]
    with pytest.raises(vw.Refusal):
        vw.Tensor.of_numpy(numpy.zeros(2, numpy.longdouble))
