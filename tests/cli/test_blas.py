"""Back end `blas`: every form of MatMul and Gemm that goes to xGEMM or xGEMV is judged, other operators are refused by name, kernels are told."""
import pathlib
import re
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402
from support.command import report, run  # noqa: E402

PASSES = {"exact", "replayed", "explained"}
FORMS = {  # shapes of MatMul: batches that are broadcast on either side, vectors, sums of nothing
    "square": ([9, 17], [17, 11]), "batch": ([2, 3, 4, 5], [2, 3, 5, 6]), "left spread": ([4, 5], [2, 3, 5, 6]), "right spread": ([2, 3, 4, 5], [5, 6]),
    "crossed": ([3, 1, 4, 5], [2, 5, 6]), "row": ([1, 300], [300, 40]), "column": ([40, 300], [300, 1]), "vector left": ([30], [30, 7]),
    "vector right": ([7, 30], [30]), "two vectors": ([30], [30]), "vector and batch": ([5], [2, 5, 6]), "one number": ([1, 1], [1, 1]),
    "no row": ([0, 3], [3, 4]),
}


def products(path, op, cases, dtype=TensorProto.FLOAT):
    """cases: (name, shapes, attributes); one node and its own operands each."""
    nodes, inputs, outputs = [], [], []
    for i, (name, shapes, attributes) in enumerate(cases):
        names = [f"{letter}{i}" for letter in "abc"[: len(shapes)]]
        nodes.append(models.node(op, names, f"y{i}", name, **attributes))
        inputs += [models.info(n, dtype, shape) for n, shape in zip(names, shapes)]
        outputs.append(models.info(f"y{i}", dtype))
    return models.save(path, nodes, inputs, outputs)


def product(path, op, shapes, dtype=TensorProto.FLOAT):
    return products(path, op, [("product", shapes, {})], dtype)


def verdicts(path, spec, *more):
    code, parsed = report("check", path, "-b", spec, "--no-in-situ", "--no-graph", *more)
    return code, parsed


def all_pass(parsed, cases):
    found = {r["node"]: r["verdict"] for r in parsed["results"]}
    assert len(found) == len(cases) and {n: v for n, v in found.items() if v not in PASSES} == {}


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE], ids=["f32", "f64"])
@pytest.mark.parametrize("vectors", ["auto", "never"])
def test_every_form_of_matmul(tmp_path, dtype, vectors):
    cases = [(name.replace(" ", "-"), shapes, {}) for name, shapes in FORMS.items()]
    code, parsed = verdicts(products(tmp_path / "m.onnx", "MatMul", cases, dtype), f"blas,gemv={vectors}")
    all_pass(parsed, cases)
    assert code == 0


@pytest.mark.parametrize("vectors", ["auto", "never"])
def test_every_form_of_gemm(tmp_path, vectors):
    cases = []
    for m, k, n in [(6, 13, 5), (1, 40, 9), (9, 40, 1)]:
        for bits in range(4):
            left, right = ([k, m] if bits & 1 else [m, k]), ([n, k] if bits & 2 else [k, n])
            for bias, scale in ((None, {}), ([n], {}), ([m, 1], {"beta": 0.5}), ([m, n], {"alpha": 2.5, "beta": -3.0}), ([1], {"beta": 0.0})):
                attributes = {"transA": bits & 1, "transB": bits >> 1, **scale}
                cases.append((f"g{len(cases)}", [left, right] + ([bias] if bias else []), attributes))
    code, parsed = verdicts(products(tmp_path / "m.onnx", "Gemm", cases), f"blas,gemv={vectors}")
    all_pass(parsed, cases)
    assert code == 0


def test_a_sum_of_nothing_is_zero(tmp_path):
    """Some libraries leave the output as it was; the poison would stay. The verdict says that zeros show little."""
    code, parsed = verdicts(product(tmp_path / "m.onnx", "MatMul", ([3, 0], [0, 4])), "blas")
    assert [r["verdict"] for r in parsed["results"]] == ["uninformative"] and code == 3


def test_other_operators_and_types_are_refused_by_name(tmp_path):
    code, parsed = verdicts(models.mlp(tmp_path / "m.onnx"), "blas", "--shape", "x=4x32")
    by_op = {}
    for r in parsed["results"]:
        by_op.setdefault(r["op"], set()).add(r["verdict"])
    assert by_op["MatMul"] <= PASSES and by_op["Add"] == by_op["Relu"] == {"unsupported"}
    code, parsed = verdicts(product(tmp_path / "h.onnx", "MatMul", ([4, 5], [5, 6]), TensorProto.FLOAT16), "blas")
    assert [r["verdict"] for r in parsed["results"]] == ["unsupported"] and "f16" in str(parsed["results"])


@pytest.mark.parametrize("spec,words", [("blas,gemv=maybe", "auto never"), ("blas@/venv", "no Python environment"), ("blas:gpu", "no device 'gpu'")])
def test_bad_specs_are_one_line(tmp_path, spec, words):
    done = run("check", product(tmp_path / "m.onnx", "MatMul", ([2, 3], [3, 2])), "-b", spec)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 2 and len(lines) == 1 and words in lines[0], done.stderr


@pytest.mark.parametrize("library,words", [("atlas", "not one of openblas, blis, mkl, netlib"), ("/nowhere/libx.so", "/nowhere/libx.so"),
                                           ("/lib64/ld-linux-x86-64.so.2", "cblas_sgemm")])
def test_a_library_that_cannot_be_used_is_told(tmp_path, library, words):
    done = run("check", product(tmp_path / "m.onnx", "MatMul", ([2, 3], [3, 2])), "-b", f"blas,lib={library}")
    assert done.returncode == 3 and words in done.stdout, done.stdout


def test_the_kernels_of_another_processor_are_told(tmp_path):
    """OPENBLAS_CORETYPE chooses kernels; Nehalem's need no more than x86-64-v2. Elsewhere the name is not known and OpenBLAS says so itself."""
    code, parsed = verdicts(product(tmp_path / "m.onnx", "MatMul", ([20, 200], [200, 20])), "blas,env.OPENBLAS_CORETYPE=Nehalem")
    [backend] = parsed["backends"]
    identity = backend["identity"]
    assert code == 0 and identity["framework"] == "openblas" and re.match(r"0\.\d+\.\d+", identity["version"])
    assert identity["settings"]["kernels"] and identity["library"]["sha256"]
    assert backend["environment"]["OPENBLAS_CORETYPE"]["value"] == "Nehalem"
    if "avx" in identity["cpu_features"]:
        assert identity["settings"]["kernels"] == "Nehalem"


def test_orders_of_gemv_and_gemm_differ():
    """A row times a matrix: gemv sums in another order than gemm of one row, and each is replayed."""
    import json
    done = run("reveal", "matmul", "-b", "blas", "-b", "blas,gemv=never", "--m", 1, "--k", 256, "--n", 64, "--json", "-")
    vector, matrix = json.loads(done.stdout)["results"]
    assert vector["coverage"] == matrix["coverage"] == 1, (vector, matrix)
