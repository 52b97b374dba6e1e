"""One operator of each class: the oracle against ONNX Runtime's own f32 run and against onnx.reference.ReferenceEvaluator.

usage: operators.py BENCH_OPERATOR [--markdown FILE]

All three are timed in turns on the same inputs in one run: the oracle on all its threads, ONNX Runtime with as many, the evaluator as it is.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import TensorProto, helper

THREADS = len(os.sched_getaffinity(0))
SLOW = 20.0  # seconds after which the evaluator is not asked again

# name, operator, input shapes, attributes, work and its unit (multiply-adds, or bytes read and written in f32)
CASES = [
    ("MatMul 1024³", "MatMul", [(1024, 1024), (1024, 1024)], {}, 1024**3, "GMAC/s"),
    ("Conv 3×3 64→64 at 56²", "Conv", [(1, 64, 56, 56), (64, 64, 3, 3), (64,)], {"pads": [1, 1, 1, 1]}, 64 * 64 * 9 * 56 * 56, "GMAC/s"),
    ("LayerNormalization 1024×768", "LayerNormalization", [(1024, 768), (768,), (768,)], {}, 8 * 1024 * 768, "GB/s"),
    ("Softmax 1024×1024", "Softmax", [(1024, 1024)], {}, 8 * 1024**2, "GB/s"),
    ("Attention 12 heads × 512 × 64", "Attention", [(1, 12, 512, 64)] * 3, {}, 2 * 12 * 512 * 512 * 64, "GMAC/s"),
    ("Gelu 4M", "Gelu", [(1 << 22,)], {}, 8 << 22, "GB/s"),
    ("ReduceSum 16M", "ReduceSum", [(4096, 4096)], {"keepdims": 0}, 4 << 24, "GB/s"),
    ("Resize cubic 1×3×256² × 2", "Resize", [(1, 3, 256, 256)], {"mode": "cubic"}, 5 * 4 * 3 * 256 * 256, "GB/s"),
    ("LSTM 64 steps, 128→128", "LSTM", [(64, 1, 128), (1, 512, 128), (1, 512, 128)], {"hidden_size": 128}, 64 * 512 * 256, "GMAC/s"),
]


def model_of(operator, shapes, attributes, names, opset):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip(names, shapes)]
    wired, constants = list(names), []
    if operator == "Resize":
        wired = [names[0], "", "scales"]
        constants = [helper.make_tensor("scales", TensorProto.FLOAT, [4], [1.0, 1.0, 2.0, 2.0])]
    node = helper.make_node(operator, wired, ["y"], **attributes)
    graph = helper.make_graph([node], "bench", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def best(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
        if times[-1] > SLOW:
            break
    return min(times)


def measure(program, operator, shapes, attributes, folder):
    rng = np.random.default_rng(1)
    names = [f"x{k}" for k in range(len(shapes))]
    scale = 0.1 if operator == "LSTM" else 1.0
    feed = {name: (scale * rng.standard_normal(shape)).astype(np.float32) for name, shape in zip(names, shapes)}
    model = model_of(operator, shapes, attributes, names, 23)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **feed)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    session.run(None, feed)
    runtime = best(lambda: session.run(None, feed), 7)
    lines = subprocess.run([program, folder / "model.onnx", folder / "inputs.npz", "5"], check=True, capture_output=True, text=True).stdout
    oracle = {line.split()[0]: 1e-3 * float(line.split()[1]) for line in lines.splitlines()}
    runtime = min(runtime, best(lambda: session.run(None, feed), 7))
    evaluator = onnx.reference.ReferenceEvaluator(model)
    reference = best(lambda: evaluator.run(None, feed), 3)
    return oracle, runtime, reference


def main(arguments):
    if not arguments or (len(arguments) == 3 and arguments[1] != "--markdown") or len(arguments) == 2:
        sys.exit(__doc__)
    head = ["operator", "value", "+ bound", "+ variance", "speed (+ bound)", "ONNX Runtime", "ratio", "evaluator", "ratio"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, operator, shapes, attributes, work, unit in CASES:
            oracle, runtime, reference = measure(arguments[0], operator, shapes, attributes, Path(folder))
            rows.append(
                [name]
                + [f"{1e3 * oracle[want]:.1f} ms" for want in ("value", "bound", "variance")]
                + [f"{1e-9 * work / oracle['bound']:.2f} {unit}"]
                + [f"{1e3 * runtime:.2f} ms", f"{oracle['bound'] / runtime:.1f} ×"]
                + [f"{1e3 * reference:.1f} ms", f"{reference / oracle['bound']:.1f} × slower"]
            )
            print("  ".join(f"{cell:>14}" if k else f"{cell:<30}" for k, cell in enumerate(rows[-1])), flush=True)
    if len(arguments) == 3:
        lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
        Path(arguments[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
