"""The eleven weaknesses of the old cross-back-end check, one test each: the old rule, written out here as it was, is wrong; the judge is right.

The old rule: run every back end, per output max_rel = max |b - c| / (|c| + 1e-6) against one back end on the CPU taken as the truth, suspect if
max_rel > 2e-3; nothing else is looked at.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.command import report, run  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
PASSES = {"exact", "replayed", "explained", "spec-open"}


def old_rule(reference, actual, tolerance=2e-3):
    """suspect?, as the old check decides: pairs are zipped, a comparison with NaN is false."""
    worst = 0.0
    for c, b in zip(reference, actual):
        for x, y in zip(np.ravel(c).astype(np.float64), np.ravel(b).astype(np.float64)):
            relative = abs(y - x) / (abs(x) + 1e-6)
            if relative > worst:
                worst = relative
    return bool(worst > tolerance), float(worst)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model(path, nodes, inputs, outputs, inits=()):
    info = [helper.make_tensor_value_info(k, TYPES[v.dtype], v.shape) for k, v in inputs.items()]
    ends = [helper.make_tensor_value_info(k, TensorProto.FLOAT, None) for k in outputs]
    graph = helper.make_graph(nodes, "g", info, ends, [numpy_helper.from_array(v, k) for k, v in dict(inits).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), str(path))
    return path


def judge(folder, nodes, inputs, actual, *more, second=None):
    """Exit status and rows of `judge` on one dump."""
    path = model(folder / "m.onnx", nodes, inputs, [name for n in nodes for name in n.output])
    np.savez(folder / "in.npz", **inputs)
    np.savez(folder / "out.npz", **actual)
    args = ["judge", "--model", path, "--inputs", folder / "in.npz", "--actual", folder / "out.npz", *more]
    if second is not None:
        np.savez(folder / "out2.npz", **second)
        args += ["--actual", folder / "out2.npz"]
    code, parsed = report(*args)
    return code, {r["output"]: r for r in parsed["results"]}


def product():
    x, w = numbers(1, 6, 48), numbers(2, 48, 10)
    return {"x": x, "w": w}, (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)


MATMUL = [helper.make_node("MatMul", ["x", "w"], ["y"])]


def test_a_nan_reads_as_clean(tmp_path):
    inputs, y = product()
    bad = y.copy()
    bad[2, 3] = np.nan
    assert old_rule([y], [bad]) == (False, 0)
    code, rows = judge(tmp_path, MATMUL, inputs, {"y": bad})
    assert code == 1 and rows["y"]["verdict"] == "bug" and rows["y"]["cause"] == "nan-produced"
    assert rows["y"]["evidence"]["first_divergence"]["at"] == "[2,3]"


def test_b_missing_outputs_and_lengths_are_zipped_away(tmp_path):
    x = numbers(3, 4, 6)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["x"], ["n"])]
    due = [np.maximum(x, 0), -x]
    assert old_rule(due, due[:1]) == (False, 0)  # the second output was never returned
    assert old_rule(due, [due[0], due[1][:2]]) == (False, 0)  # half of it was
    code, rows = judge(tmp_path, nodes, {"x": x}, {"r": due[0]})
    assert code == 1 and rows["n"]["cause"] == "output-missing" and rows["r"]["verdict"] in PASSES
    code, rows = judge(tmp_path, nodes, {"x": x}, {"r": due[0], "n": due[1][:2]})
    assert code == 1 and rows["n"]["cause"] == "shape"


def test_c_near_zero_references_inflate_the_relative_error(tmp_path):
    """A correct f32 sum that cancels: thousands of times the tolerance in the old figure, a fraction of the bound in ours."""
    k = 2048
    x, w = numbers(4, 4, k), numbers(5, k, 4)
    w[-1] = 0
    exact = x.astype(np.float64) @ w.astype(np.float64)
    x[:, -1] = 1
    w[-1] = -(exact[0]).astype(np.float32)  # the first row cancels up to the rounding of this number
    exact = x.astype(np.float64) @ w.astype(np.float64)
    terms = np.float32(x)[:, :, None] * np.float32(w)[None]
    actual = np.zeros((4, 4), np.float32)
    for i in range(k):
        actual = (actual + terms[:, i]).astype(np.float32)  # plain f32, one after the other
    suspect, worst = old_rule([exact], [actual])
    assert suspect and worst > 0.1
    code, rows = judge(tmp_path, MATMUL, {"x": x, "w": w}, {"y": actual})
    assert code == 0 and rows["y"]["verdict"] == "explained" and rows["y"]["evidence"]["error_over_bound"] < 0.1


def test_d_one_tolerance_for_every_operator(tmp_path):
    """An addition that is off by 1e-3 passes the old rule, and so does a whole output rounded to bf16 nearly; equality is due in both."""
    x = np.abs(numbers(6, 8, 8)) + 1
    due = x + x
    off = due.copy()
    off[5, 1] *= np.float32(1.001)
    assert old_rule([due], [off])[0] is False
    code, rows = judge(tmp_path, [helper.make_node("Add", ["x", "x"], ["y"])], {"x": x}, {"y": off})
    assert code == 1 and rows["y"]["verdict"] == "bug"
    # the other way round: an f32 Sigmoid in its tail is a hundred percent off by the very text of the standard, and explained
    t = np.float32([[-17.5, -30, -60, 2]])
    sigmoid = np.float64(1) / (1 + np.exp(-t.astype(np.float64)))
    coarse = sigmoid.astype(np.float32)
    coarse[0, 0] += np.float32(2**-25)
    assert old_rule([sigmoid], [coarse], tolerance=1e-6)[0] is True
    code, rows = judge(tmp_path, [helper.make_node("Sigmoid", ["x"], ["y"])], {"x": t}, {"y": coarse})
    assert code == 0 and rows["y"]["verdict"] == "explained"


def test_e_no_coordinate_bits_ulp_rms_count(tmp_path):
    """The old figure is one number; ours says where, which bits, how many ulp, how many elements, and how much of the output."""
    inputs, y = product()
    bad = y.copy()
    bad[4, 7] += 1
    bad[5, 2] += 2
    assert isinstance(old_rule([y], [bad])[1], float)
    _, rows = judge(tmp_path, MATMUL, inputs, {"y": bad})
    e = rows["y"]["evidence"]
    assert e["outside"] == 2 and e["elements"] == 60 and e["first_divergence"]["at"] == "[4,7]"
    assert e["first_divergence"]["actual"] == pytest.approx(float(bad[4, 7]), rel=1e-8)
    assert int(e["first_divergence"]["bits"][1], 16) == int(bad[4, 7].view(np.uint32))
    assert e["ulp_max"] > 1e5 and e["rms_ratio"] > 1e3 and e["impact"] > 0.1


def chain(folder):
    """Three operators; the last forgives: a Sign hides what the first has done."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "dense"), helper.make_node("Relu", ["a"], ["r"], "act"), helper.make_node("Sign", ["r"], ["y"], "last")]
    path = folder / "chain.onnx"
    x = numbers(7, 6, 48)
    model(path, nodes, {"x": x}, ["y"], {"w": numbers(8, 48, 10)})
    np.savez(folder / "x.npz", x=x)
    return path


def test_f_end_outputs_only(tmp_path):
    path = chain(tmp_path)
    code, parsed = report("check", path, "-b", "mutant,operands=bf16", "--inputs", tmp_path / "x.npz")
    isolated = {r["node"]: r for r in parsed["results"] if r["mode"] == "isolated"}
    graph_pass = parsed["drift"]["mutant,operands=bf16"]["max_abs"] == 0
    assert graph_pass  # the ends are equal: nothing for the old rule to see
    assert code == 1 and isolated["dense"]["cause"] == "operands-bf16" and isolated["act"]["verdict"] in PASSES


def test_g_a_race_looks_like_drift(tmp_path):
    inputs, y = product()
    first, second = y.copy(), y.copy()
    first[0, 0] = np.nextafter(first[0, 0], np.float32(9))
    second[3, 3] = np.nextafter(second[3, 3], np.float32(-9))
    assert old_rule([y], [first])[0] is False and old_rule([y], [second])[0] is False
    code, rows = judge(tmp_path, MATMUL, inputs, {"y": first}, second={"y": second})
    assert code == 1 and rows["y"]["verdict"] == "nondeterministic" and rows["y"]["cause"] == "order-nondeterminism"


def test_h_the_reference_is_assumed_right(tmp_path):
    """The CPU result is the wrong one: the old rule accuses whoever is right and clears whoever copies the fault."""
    inputs, right = product()
    wrong = right * np.float32(1.01)
    assert old_rule([wrong], [right])[0] is True and old_rule([wrong], [wrong])[0] is False
    assert judge(tmp_path, MATMUL, inputs, {"y": right})[0] == 0
    code, rows = judge(tmp_path, MATMUL, inputs, {"y": wrong})
    assert code == 1 and rows["y"]["verdict"] == "bug"


def test_i_one_crash_ends_all(tmp_path):
    """The old check runs all back ends in its own process: the first that dies takes the rest along. Here it is one verdict of one task."""
    path = chain(tmp_path)
    code, parsed = report("check", path, "-b", "null,exit=4", "-b", "mutant", "--inputs", tmp_path / "x.npz")
    by_backend = {}
    for r in parsed["results"]:
        if r["mode"] == "isolated":
            by_backend.setdefault(r["backend"], set()).add(r["verdict"])
    assert by_backend["null,exit=4"] == {"crashed"} and by_backend["mutant"] <= PASSES
    assert code == 3


def test_j_no_identity_of_build_driver_kernel(tmp_path):
    """An old line holds a device name. Every row here belongs to a named build, its settings and its environment."""
    path = chain(tmp_path)
    _, parsed = report("check", path, "-b", "mutant", "-b", "mutant,association=pairwise", "--inputs", tmp_path / "x.npz")
    plain, pairwise = (b["identity"] for b in parsed["backends"])
    assert plain["framework"] == "mutant" and plain["version"] and plain["cpu_features"]
    assert plain["settings"]["association"] == "sequential" and pairwise["settings"]["association"] == "pairwise"
    assert any("sha256" in json.dumps(v) for v in plain.values()) and isinstance(parsed["backends"][0]["environment"], dict)


def test_k_only_one_back_end_equals_green(tmp_path):
    """With nothing to compare with, the old check returns no suspects. One back end is enough here, and none is not a pass."""
    assert old_rule([], []) == (False, 0)
    path = chain(tmp_path)
    assert report("check", path, "-b", "mutant,result=bf16", "--inputs", tmp_path / "x.npz")[0] == 1
    none = run("check", path)
    assert none.returncode == 2 and "no back end given" in none.stderr


@pytest.mark.parametrize("case", json.loads((HERE.parent / "data" / "comparison_cases.json").read_text())["cases"], ids=lambda c: c["case"].replace(" ", "-"))
def test_the_element_comparison_goldens(tmp_path, case):
    """`vernier compare` with a criterion counts what the golden file says, to the last digit."""
    for name in ("reference", "candidate"):
        np.save(tmp_path / f"{name}.npy", np.array([int(b, 16) for b in case[f"{name}_bits"]], np.uint32).view(np.float32))
    mode = case["mode"]
    rule = ["--exact"] if mode["kind"] == "exact-bits" else ["--atol", mode["absolute"], "--rtol", mode["relative"]]
    done = run("compare", tmp_path / "reference.npy", tmp_path / "candidate.npy", *rule)
    due = case["expected"]
    words = done.stdout.replace("(", " ").replace(")", " ").split()
    number = lambda *key: float(words[[words[k : k + len(key)] for k in range(len(words))].index(list(key)) + len(key)])  # noqa: E731
    assert number("failures") == due["failures"] and number("not", "finite") == due["non_finite_failures"]
    assert number("max", "abs") == due["max_absolute"] and number("max", "rel") == due["max_relative"] and number("rms") == due["rms"]
    assert done.returncode == (1 if due["failures"] else 0)
    first = due["first_divergence"]
    assert ("first" in words) == (first is not None)
    if first:
        at = words.index("first")
        assert int(words[at + 2].rstrip(":")) == first["flat_index"]
        for key, value in (("absolute_error", words[at + 4]), ("relative_error", words[at + 6])):
            assert (np.isnan(float(value)) if first[key] is None else float(value) == first[key])
