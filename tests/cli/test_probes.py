"""Rung 8 through a worker: integer ladders on the failing operator's own shape; what they measure, what they prove, and where they stay silent."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402
from support.command import report  # noqa: E402

PASSES = {"exact", "replayed", "explained", "spec-open"}


def product(folder):
    return models.save(folder / "m.onnx", [models.node("MatMul", "x w", "y", "dense")], [models.info("x", shape=[8, 300])], [models.info("y")],
                       {"w": models.numbers(1, 300, 24)})


def convolution(folder):
    return models.save(folder / "m.onnx", [models.node("Conv", "x w b", "y", "dense", pads=[1, 1, 1, 1])], [models.info("x", shape=[1, 16, 10, 9])], [models.info("y")],
                       {"w": models.numbers(2, 8, 16, 3, 3), "b": models.numbers(3, 8)})


def mean(folder):
    return models.save(folder / "m.onnx", [models.node("ReduceMean", "x", "y", "dense", axes=[1])], [models.info("x", shape=[16, 1024])], [models.info("y")])


def scan(folder):
    return models.save(folder / "m.onnx", [models.node("CumSum", "x k", "y", "dense")], [models.info("x", shape=[12, 200])], [models.info("y")], {"k": models.np.int64(1)})


def dense(model, backend, *args):
    """The isolated row, and what rung 8 said in it ("" if it was not asked)."""
    _, parsed = report("check", model, "-b", backend, "--no-in-situ", "--no-graph", *args, timeout=120)
    row = next(r for r in parsed["results"] if r["mode"] == "isolated")
    rungs = row["evidence"]["rungs"]
    return row, rungs.partition("probes: ")[2]


@pytest.mark.parametrize("build", [product, convolution])
@pytest.mark.parametrize("option, says", [
    ("operands=tf32-rna", ["sums exact with 24 bits", "first operand exact with 11 bits, not with 24", "second operand exact with 11 bits, not with 24"]),
    ("operands=bf16", ["sums exact with 24 bits", "first operand exact with 8 bits, not with 11", "second operand exact with 8 bits, not with 11"]),
    ("accumulator=f16", ["sums exact with 11 bits, not with 24"]),
    ("accumulator=bf16", ["sums exact with 8 bits, not with 11"]),
])
def test_the_rung_measures_operands_and_accumulator(tmp_path, build, option, says):
    row, probes = dense(build(tmp_path), f"mutant,{option}")
    assert row["verdict"] not in PASSES
    for text in says:
        assert text in probes and text in row["words"]


@pytest.mark.parametrize("build", [mean, scan])
def test_reductions_and_scans_have_their_ladder(tmp_path, build):
    row, probes = dense(build(tmp_path), "mutant,accumulator=bf16")
    assert row["verdict"] not in PASSES and "sums exact with 8 bits, not with 11" in probes


@pytest.mark.parametrize("build", [product, convolution, mean, scan])
@pytest.mark.parametrize("association", ["sequential", "reversed", "pairwise", "lanes8", "blocks128", "fma"])
def test_every_order_is_exact_on_integers(tmp_path, build, association):
    row, probes = dense(build(tmp_path), f"mutant,association={association}", "--effort", "deep")
    assert row["verdict"] in PASSES and not row["note"]
    assert "sums exact with 24 bits" in probes and "not with" not in probes and "wrong" not in probes


def test_a_passing_operator_is_probed_only_at_effort_deep(tmp_path):
    model = product(tmp_path)
    assert dense(model, "mutant")[1] == "" and dense(model, "mutant", "--effort", "normal")[1] == ""
    assert dense(model, "mutant", "--effort", "deep")[1] != ""


def test_what_is_no_plain_sum_is_left_alone(tmp_path):
    model = models.save(tmp_path / "m.onnx", [models.node("Relu", "x", "y", "dense")], [models.info("x", shape=[4, 8])], [models.info("y")])
    assert dense(model, "mutant", "--effort", "deep")[1] == ""
