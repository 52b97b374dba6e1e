"""Rows of mode `with-weights`: a product as one with the operators that unpack its weights; which products have them, and what they show."""
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402
from support.command import report  # noqa: E402

PASSES = {"exact", "replayed", "explained", "spec-open"}
CODES = np.random.default_rng(5).integers(-127, 128, (64, 24)).astype(np.int8)
SCALE = np.linspace(0.002, 0.01, 24, dtype=np.float32)


def unpacked(path, codes):
    """x times (codes as f32, times a scale per column)."""
    return models.save(path, [models.node("Cast", "q", "f", "wide", to=1), models.node("Mul", "f s", "w", "scaled"), models.node("MatMul", "x w", "y", "dense")],
                       [models.info("x", shape=[6, 64])], [models.info("y")], {"q": codes, "s": SCALE})


def with_weights(parsed):
    return [r for r in parsed["results"] if r["mode"] == "with-weights"]


def test_packed_weights_are_judged_with_their_product(tmp_path):
    code, parsed = report("check", unpacked(tmp_path / "m.onnx", CODES), "-b", "mutant")
    found = with_weights(parsed)
    assert code == 0 and [(r["node"], r["op"]) for r in found] == [("dense", "MatMul")]
    assert found[0]["verdict"] in PASSES and found[0]["evidence"]["elements"] == 6 * 24


def test_quantised_activations_are_named_there(tmp_path):
    code, parsed = report("check", unpacked(tmp_path / "m.onnx", CODES), "-b", "mutant,activations=int8-32")
    found = with_weights(parsed)
    assert code == 1 and len(found) == 1
    assert found[0]["verdict"] == "contract-mismatch" and found[0]["cause"] == "activations-int8"
    assert "Cast+Mul+MatMul" in found[0]["words"] and "groups of 32" in found[0]["words"]


@pytest.mark.parametrize("build", [lambda p: unpacked(p, CODES.astype(np.float32)), models.mlp], ids=["f32 codes", "plain weights"])
def test_nothing_packed_nothing_asked(tmp_path, build):
    _, parsed = report("check", build(tmp_path / "m.onnx"), "-b", "mutant")
    assert parsed["results"] and not with_weights(parsed)


def test_a_worker_that_dies_is_a_row(tmp_path):
    code, parsed = report("check", unpacked(tmp_path / "m.onnx", CODES), "-b", "null,signal=ABRT")
    assert code == 3 and [r["verdict"] for r in with_weights(parsed)] == ["crashed"]
