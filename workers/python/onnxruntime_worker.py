"""Worker of the back end `onnxruntime`."""
import ctypes
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import vernier_worker as vw  # noqa: E402

PROVIDERS = {
    "cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider",
    "rocm": "ROCMExecutionProvider", "openvino": "OpenVINOExecutionProvider", "dnnl": "DnnlExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider", "coreml": "CoreMLExecutionProvider", "webgpu": "WebGpuExecutionProvider",
}
LEVELS = {"all": "ORT_ENABLE_ALL", "extended": "ORT_ENABLE_EXTENDED", "basic": "ORT_ENABLE_BASIC", "none": "ORT_DISABLE_ALL"}

# ONNX Runtime's spelling of element types -> ours
ELEMENTS = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16",
    "uint32": "u32", "int32": "i32", "uint64": "u64", "int64": "i64", "bool": "bool", "string": "string", "complex64": "c64",
    "complex128": "c128", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1", "uint4": "u4", "int4": "i4", "uint2": "u2",
    "int2": "i2",
}

# What a failure looks like when the model is right and ONNX Runtime has no kernel, operator or version for it: at any time, and while loading.
REFUSALS = ("NOT_IMPLEMENTED", "not supported", "not implemented", "Unsupported", "Could not find an implementation")
LOAD_REFUSALS = REFUSALS + ("is not a registered function/op", "No Op registered", "is invalid", "under development", "No opset import",
                            "registered or supported")
# A bound output of another shape than the result's: refused before anything is written.
MISSHAPEN = ("shape verification failed", "nvalid dimensions", "Invalid rank for output")


def matches(e, texts):
    return any(t in str(e) for t in texts)


def split_type(text):
    """"seq(tensor(float))" -> ("sequence", "f32"), "tensor(float)" -> ("tensor", "f32")."""
    kind = "tensor"
    for prefix, name in (("seq(", "sequence"), ("optional(", "optional")):
        if text.startswith(prefix):
            kind, text = name, text[len(prefix):-1]
            break
    while text.startswith(("seq(", "optional(")):
        text = text[text.index("(") + 1:-1]
    return kind, ELEMENTS.get(text[len("tensor("):-1]) if text.startswith("tensor(") else None


def address(buffer):
    import numpy
    return numpy.frombuffer(buffer, dtype=numpy.uint8).ctypes.data


class Session:
    def __init__(self, session, keep):
        self.session, self.keep = session, keep
        self.inputs = {i.name: split_type(i.type) for i in session.get_inputs()}
        self.outputs = {o.name: split_type(o.type) for o in session.get_outputs()}


class OnnxRuntime:
    name = "onnxruntime"

    def start(self, options):
        try:
            import numpy
            import onnxruntime
            import onnxruntime.capi.onnxruntime_pybind11_state as state
        except ImportError as e:
            raise vw.Refusal("notfound", "%s; install it with: %s -m pip install onnxruntime numpy" % (e, sys.executable)) from e
        self.numpy, self.ort, self.state, self.options = numpy, onnxruntime, state, dict(options)
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)
        device, provider = options.pop("device"), options.pop("provider", None)
        name = provider or device.split(":")[0].lower() or "cpu"
        if name not in PROVIDERS:
            raise vw.Refusal("usage", "no device '%s'; there are: %s" % (name, " ".join(PROVIDERS)))
        self.provider = PROVIDERS[name]
        if self.provider not in onnxruntime.get_available_providers():
            raise vw.Refusal("notfound", "this ONNX Runtime (%s) has no %s; it has: %s" % (
                onnxruntime.__version__, self.provider, " ".join(onnxruntime.get_available_providers())))
        self.device = name
        self.threads = options.pop("threads")
        options.pop("cache")
        self.level = options.pop("optimisation", "all")
        self.deterministic = options.pop("deterministic", "0") == "1"
        if options:
            raise vw.Refusal("usage", "unknown option '%s'" % next(iter(options)))

    def session_options(self, folder):
        so = self.ort.SessionOptions()
        so.graph_optimization_level = getattr(self.ort.GraphOptimizationLevel, LEVELS[self.level])
        so.intra_op_num_threads = self.threads
        so.inter_op_num_threads = 1
        so.execution_mode = self.ort.ExecutionMode.ORT_SEQUENTIAL
        so.log_severity_level = 3
        if self.deterministic:
            so.use_deterministic_compute = True
        if folder:
            so.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        if self.device != "cpu":  # an operator that the device lacks is unsupported, not quietly the CPU's
            so.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        return so

    def identity(self):
        what = {
            "framework": "onnxruntime", "version": self.ort.__version__, "build": self.ort.get_build_info().strip(),
            "device": self.device, "provider": self.provider, "providers": self.ort.get_available_providers(),
            "library": vw.library(self.state.__file__), "python": sys.version.split()[0], "numpy": self.numpy.__version__,
            "threads": self.threads or len(os.sched_getaffinity(0)), "cpu_features": vw.cpu_features(),
            "settings": {"optimisation": self.level, "deterministic": self.deterministic, "execution": "sequential"},
            "capabilities": {"strings": True, "sequences": True},
        }
        try:
            with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as f:
                what["driver"] = f.readline().strip()
        except OSError:
            pass
        return what

    def load(self, form, model, folder):
        if form != "onnx":
            raise vw.Refusal("unsupported", "model format '%s'" % form)
        old = tuple(int(n) for n in self.ort.__version__.split(".")[:2]) < (1, 18)  # cannot be told where external data lies
        keep = None
        try:
            if folder and old:
                keep, model = linked_folder(model, folder)
            session = self.ort.InferenceSession(model, self.session_options(folder), providers=[self.provider])
        except (self.state.NotImplemented, self.state.InvalidGraph) as e:
            raise vw.Refusal("unsupported", vw.one_line(e)) from e
        except (self.state.Fail, self.state.RuntimeException, self.state.InvalidArgument) as e:
            raise vw.Refusal("unsupported" if matches(e, LOAD_REFUSALS) else "error", vw.one_line(e)) from e
        s = Session(session, keep)
        return s, list(s.inputs), list(s.outputs)

    def unload(self, session):
        session.session = None

    def run(self, s, inputs, outputs):
        missing = [o.name for o in outputs if o.name not in s.outputs]
        if missing:
            raise vw.Refusal("error", "the model has no output '%s'" % missing[0])
        plain = all(isinstance(v, vw.Tensor) and v.strings is None for v in inputs.values()) and all(
            s.outputs[o.name][0] == "tensor" and s.outputs[o.name][1] not in (None, "string") for o in outputs)
        try:
            if not plain:
                self.run_values(s, inputs, outputs)
                return
            try:
                self.run_bound(s, inputs, outputs, True)
            except Exception as e:
                if not matches(e, MISSHAPEN):
                    raise
                self.run_bound(s, inputs, outputs, False)  # a result of another shape than declared: not into the host's memory
        except vw.Refusal:
            raise
        except Exception as e:  # the binding throws RuntimeError and classes of its own alike
            raise vw.Refusal("unsupported" if matches(e, REFUSALS) else "error", vw.one_line(e)) from e

    def run_bound(self, s, inputs, outputs, in_place):
        """Tensors only: ONNX Runtime reads and writes shared memory itself, whatever the element type."""
        binding = s.session.io_binding()
        for name, t in inputs.items():
            binding.bind_input(name, "cpu", 0, vw.DTYPES[t.dtype][0], list(t.dims), address(t.data) if len(t.data) else 0)
        mine = []
        for o in outputs:
            direct = in_place and o.memory is not None and s.outputs[o.name][1] == o.dtype and len(o.memory) > 0
            mine.append(direct)
            if direct:
                binding.bind_output(o.name, "cpu", 0, vw.DTYPES[o.dtype][0], list(o.dims), address(o.memory))
            else:
                binding.bind_output(o.name, "cpu", 0)
        s.session.run_with_iobinding(binding)
        if all(mine):
            for o in outputs:
                o.host = True
            return
        for o, direct, value in zip(outputs, mine, binding.get_outputs()):
            if direct:
                o.host = True
                continue
            dtype, dims = vw.NAME_OF_NUMBER[value.element_type()], tuple(value.shape())
            size = vw.storage(dtype, vw.product(dims))
            o.put(vw.Tensor(dtype, dims, data=ctypes.string_at(value.data_ptr(), size) if size else b""))

    def run_values(self, s, inputs, outputs):
        """Strings, sequences, optionals: through NumPy objects."""
        feeds = {name: self.to_python(name, v) for name, v in inputs.items() if v is not None}
        results = s.session.run([o.name for o in outputs], feeds)
        for o, r in zip(outputs, results):
            o.put(self.of_python(r, *s.outputs[o.name]))

    def to_python(self, name, v):
        if isinstance(v, vw.Sequence):
            items = [self.to_python(name, i) for i in v.items]
            return items if v.kind == "sequence" else items[0] if items else None
        if v.strings is None and v.dtype in ("bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "u4", "i4", "f4e2m1", "u2", "i2"):
            raise vw.Refusal("unsupported", "input '%s': %s together with strings or sequences" % (name, v.dtype))
        return v.numpy()

    def of_python(self, r, kind, elem):
        if kind == "optional":
            inner = [] if r is None else [self.of_python(r, "sequence" if isinstance(r, list) else "tensor", elem)]
            return vw.Sequence("optional", elem or "undefined", inner)
        if kind == "sequence":
            return vw.Sequence("sequence", elem or "undefined", [vw.Tensor.of_numpy(self.numpy.asarray(a)) for a in r])
        return vw.Tensor.of_numpy(self.numpy.asarray(r))


def linked_folder(model, folder):
    """A temporary folder that holds the model and links to its external data."""
    keep = tempfile.TemporaryDirectory(prefix="vernier-")
    for name in os.listdir(folder):
        os.symlink(os.path.join(os.path.abspath(folder), name), os.path.join(keep.name, name))
    path = os.path.join(keep.name, "vernier-model.onnx")
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "wb") as f:
        f.write(model)
    return keep, path


if __name__ == "__main__":
    vw.main(OnnxRuntime())
