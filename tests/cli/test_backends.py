"""`vernier backends --measure`: the arithmetic card of every back end that is here."""
import json
import pathlib
import sys

import jsonschema
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.command import ROOT, run  # noqa: E402

FUNCTIONS = ["exp", "log", "tanh", "erf", "sigmoid", "sqrt", "reciprocal", "rsqrt", "sin", "cos", "gelu"]


def schema(name):
    return json.loads((ROOT / "docs" / name).read_text())


@pytest.fixture(scope="module")
def measured():
    done = run("backends", "--measure", "--json", "-", timeout=300)
    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stdout)
    jsonschema.validate(parsed, schema("backends.schema.json"))
    return {b["name"]: b for b in parsed["backends"] if b["available"]}


def test_products_are_results_of_reveal(measured):
    for backend in measured.values():
        for field in ("measured", "measured_addend"):
            jsonschema.validate({"schema": "vernier-reveal-1", "version": "0", "results": [backend[field]]}, schema("reveal.schema.json"))


def test_every_function_has_a_row(measured):
    for backend in measured.values():
        assert [(f["dtype"], f["function"]) for f in backend["functions"]] == [(t, f) for t in ("f32", "f16", "bf16") for f in FUNCTIONS]
        for f in backend["functions"]:
            assert (f["why"] is None) == (f["sha256"] is not None) == (f["max_ulp"] is not None), f
            assert f["why"] is None or f["why"].startswith("not measured: ")
            assert f["why"] or f["inputs"] == (1 << 20 if f["dtype"] == "f32" else 65536)


def test_the_mutant_is_what_it_was_built_as(measured):
    card = {r["id"]: r["finding"] for r in measured["mutant"]["measured"]["card"]}
    assert sorted(card, key=lambda p: int(p[1:])) == [f"P{k}" for k in range(1, 25)]
    assert card["P14"] == "rounded before they are added" and card["P5"].startswith("cannot be seen")
    assert card["P17"].startswith("not measured: ")
    addend = {r["id"]: r["finding"] for r in measured["mutant"]["measured_addend"]["card"]}
    assert addend["P17"] == "the addend joins the sum before it is stored" and addend["P19"] == "added last"
    assert addend["P18"] == "alpha times the sum is rounded, then the addend is added"
    rows = {(f["function"], f["dtype"]): f for f in measured["mutant"]["functions"]}
    for name in ("sqrt", "reciprocal"):  # one IEEE operation each
        for dtype in ("f32", "f16", "bf16"):
            f = rows[name, dtype]
            assert 0.49 < f["max_ulp_normal"] <= 0.5 and f["monotone"] is True, f
    assert rows["tanh", "f32"]["symmetric"] is True and rows["cos", "f32"]["symmetry"] == "even"
    assert [d["id"] for d in measured["mutant"]["divisions"]] == ["P25"] * 4
    assert all(d["finding"].startswith("the rounded quotient") for d in measured["mutant"]["divisions"])


def test_a_worker_without_arithmetic_is_told(measured):
    """The null worker answers zero: no tree, no function, no symmetry."""
    null = measured["null"]
    assert null["measured"]["card"] == [] and null["measured"]["reason"]
    rows = {(f["function"], f["dtype"]): f for f in null["functions"]}
    assert rows["exp", "f16"]["max_ulp"] == "inf" and rows["sigmoid", "f32"]["max_ulp"] > 1000 and rows["tanh", "f32"]["symmetric"] is False
    assert all("not the rounded quotient" in d["finding"] for d in null["divisions"])
