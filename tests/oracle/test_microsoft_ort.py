"""Each com.microsoft operator of the oracle against ONNX Runtime on the CPU: every result lies inside our bound, or follows a named reading.

The operators are those that `vernier backends --operators oracle` lists; one without cases fails. What ONNX Runtime cannot run is listed with
its message (NO_KERNEL, REFUSED); what does not end inside is listed in OTHERWISE with its reason, and a line there that is no
longer true fails. One element of each operator's results is then moved by a little: that must be seen.
VERNIER_FULL=1: more seeds.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from microsoft_cases import GENERATORS, Const  # noqa: E402
from support.command import BUILD, run  # noqa: E402

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

NODE_CASE = BUILD / "tests" / "node_case"
SEEDS = range(int(os.environ.get("VERNIER_SEEDS", 30))) if os.environ.get("VERNIER_FULL") else range(2)

# Operators that the CPU does not have: the message of the session says so.
NO_KERNEL = {"QLinearReduceMean": "Could not find an implementation"}
# Attribute or type combinations that ONNX Runtime's kernel refuses, by operator: (pattern of its message, why the case stays).
ZERO_POINTS = [("Input data type does not match the expected data type", "absent zero points are not accepted by type inference")]
REFUSED = {
    "MultiHeadAttention": [("Packed (KV|QKV of shape .*) not implemented for CPU", "by its kernel")],
    "QLinearAdd": ZERO_POINTS,
    "QLinearMul": ZERO_POINTS,
    "SimplifiedLayerNormalization": [("not a registered function/op", "it stands in the standard's domain there")],
}


def not_integral(case):
    inverse = np.float32(1) / np.asarray(case.inputs[3], np.float32)
    return inverse != np.floor(inverse)


# Cases that need not end inside: operator -> (predicate of the case, verdict, reason). One of them at least must have that verdict.
OTHERWISE = {
    "Inverse": [(lambda case: case.inputs[0].dtype == np.float16, "outside", "every operation is rounded to f16, finding 19")],
    "QLinearSoftmax": [(not_integral, "outside", "the reciprocal of y_scale is cut to an integer, finding 16")],
    "RotaryEmbedding": [(lambda case: "scale" in case.attrs, "unsupported", "the text does not say what is scaled; the CPU kernel ignores it, finding 17")],
}


def registered():
    done = run("backends", "--operators", "oracle")
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^com\.microsoft[. ](\w+)", done.stdout, re.M)
    assert names, done.stdout[:500]
    return sorted(set(names))


def model_of(case):
    """The model, and the arrays that are fed to it."""
    names, inputs, initialisers, feeds = [], [], [], {}
    for k, value in enumerate(case.inputs):
        name = f"x{k}" if value is not None else ""
        names.append(name)
        if isinstance(value, TensorProto):
            copy = TensorProto()
            copy.CopyFrom(value)
            copy.name = name
            initialisers.append(copy)
        elif isinstance(value, Const):
            initialisers.append(numpy_helper.from_array(np.asarray(value.value), name))
        elif value is not None:
            array = np.asarray(value)
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
            feeds[name] = array
    while names and not names[-1]:
        names.pop()
    outputs = ["" if k in case.optional else f"y{k}" for k in range(case.outputs)]
    nodes = [helper.make_node(case.op, names, outputs, name="node", domain=case.domain, **case.attrs)]
    if case.widened:
        initialisers.append(numpy_helper.from_array(np.float32(1), "one"))
        nodes.append(helper.make_node("DequantizeLinear", [outputs[0], "one"], ["wide"]))
        outputs = ["wide"]
    infos = [helper.make_tensor_value_info(name, case.types[k], None) if k in case.types else helper.make_empty_tensor_value_info(name)
             for k, name in enumerate(outputs) if name]
    graph = helper.make_graph(nodes, "case", inputs, infos, initialisers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def typed(model, s):
    """The same model with the types that ONNX Runtime gave its outputs."""
    kinds = {f"tensor({name})": kind for name, kind in (("float", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6), ("int64", 7),
                                                        ("bool", 9), ("float16", 10), ("double", 11), ("uint32", 12), ("uint4", 21), ("int4", 22))}
    for info, out in zip(model.graph.output, s.get_outputs()):
        info.type.tensor_type.elem_type = kinds[out.type]
    return model


def node_case(folder, results):
    np.savez(folder / "out.npz", **results)
    done = subprocess.run([NODE_CASE, folder / "m.onnx", folder / "in.npz", folder / "out.npz"], capture_output=True, text=True, timeout=60)
    return {0: "inside", 1: "outside", 3: "unsupported"}.get(done.returncode, f"exit {done.returncode}"), (done.stdout + done.stderr).strip()


def moved(array):
    """The result with its largest element off: codes by 3, floats by 2^-5 of themselves. None where there is nothing to move."""
    wrong = array.copy()
    flat = wrong.reshape(-1)
    if not flat.size:
        return None
    at = int(np.argmax(np.abs(np.nan_to_num(flat.astype(np.float64), posinf=0, neginf=0))))
    if wrong.dtype.kind == "f":
        if not flat[at]:
            return None
        flat[at] *= wrong.dtype.type(1 + 2.0 ** -5)
    elif wrong.dtype.kind in "iu":
        flat[at] = flat[at] - 3 if flat[at] > 3 else flat[at] + 3
    return wrong


def judge(folder, case, faulty):
    """("inside" | "refused" | "outside" | "unsupported" ..., text); with `faulty`, "seen" or "unseen" for inside: whether a moved
    element of output 0 is outside (bounds for 8-bit activations, or for large scores, may hold it)."""
    model, feeds = model_of(case)
    try:
        s = session(model)
        got = s.run(None, feeds)
    except Exception as error:  # the binding raises classes of its own
        return "refused", str(error).split("\n")[0]
    typed(model, s)
    names = [o.name for o in model.graph.output]
    results = {name: value for name, value in zip(names, got) if isinstance(value, np.ndarray)}
    if len(results) != len(names):
        return "refused", "a result that NumPy cannot hold"
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "in.npz", **feeds)
    verdict, text = node_case(folder, results)
    wrong = moved(results[names[0]]) if faulty and verdict == "inside" else None
    if wrong is not None and node_case(folder, {**results, names[0]: wrong})[0] != "outside":
        return "unseen", text
    return "seen" if wrong is not None else verdict, text


def described(case):
    shapes = [None if v is None else "4-bit" if isinstance(v, TensorProto) else f"{np.asarray(getattr(v, 'value', v)).dtype}"
              f"{list(np.asarray(getattr(v, 'value', v)).shape)}{' const' if isinstance(v, Const) else ''}" for v in case.inputs]
    return f"{case.op} {case.note} {case.attrs} {shapes}"


def all_cases(op):
    for seed in SEEDS:
        rng = np.random.default_rng([seed, *op.encode()])
        for number, case in enumerate(GENERATORS[op](rng, op)):
            yield seed, number, case


def run_all(op, root):
    """All cases of an operator, two at a time."""
    def one(item):
        seed, number, case = item
        folder = root / f"{op}-{seed}-{number}"
        folder.mkdir()
        return item, judge(folder, case, seed == 0)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, all_cases(op)))


def test_every_row_has_cases():
    missing = [op for op in registered() if op not in GENERATORS]
    assert not missing, f"no cases for {missing}: add a generator to microsoft_cases.py"
    stale = [op for op in GENERATORS if op not in registered()]
    assert not stale, f"cases for {stale}, which are not registered"


@pytest.mark.parametrize("op", sorted(GENERATORS))
def test_against_onnxruntime(op, tmp_path):
    failures, verdicts = [], collections.Counter()
    for (seed, number, case), (verdict, text) in run_all(op, tmp_path):
        verdicts[verdict] += 1
        if verdict == "refused" and re.search(NO_KERNEL.get(op, "(?!)"), text):
            continue
        if verdict == "refused" and any(re.search(pattern, text) for pattern, _ in REFUSED.get(op, [])):
            continue
        if verdict not in ("inside", "seen", "unseen") and not any(p(case) and verdict == other for p, other, _ in OTHERWISE.get(op, [])):
            failures.append(f"seed {seed} case {number}: {verdict}: {text}\n    {described(case)}")
    assert not failures, "\n".join(failures[:8]) + f"\n{dict(verdicts)}"
    for _, other, reason in OTHERWISE.get(op, []):
        assert verdicts[other], f"no case is {other} any more ({reason}): take the line off OTHERWISE"
    if op not in NO_KERNEL:
        assert verdicts["seen"], f"no moved element was seen, the comparison says nothing: {dict(verdicts)}"
