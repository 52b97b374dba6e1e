"""`vernier reveal`: schedules of a back end whose order is chosen, of the real ones, of nodes in models; rung 9 of `check`."""
import json
import pathlib
import sys

import jsonschema
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402
from support.command import ROOT, report, run  # noqa: E402


def reveal(*args, exits=(0,), timeout=300):
    done = run("reveal", *args, "--json", "-", timeout=timeout)
    assert done.returncode in exits, f"exit {done.returncode}: {done.stdout[-400:]} {done.stderr}"
    parsed = json.loads(done.stdout)
    jsonschema.validate(parsed, json.loads((ROOT / "docs" / "reveal.schema.json").read_text()))
    return parsed["results"]


@pytest.mark.parametrize("association,schedule,arithmetic", [
    ("sequential", "300||S", "mul+add"), ("reversed", "300||R", "mul+add"), ("pairwise", "300||A", "mul+add"),
    ("lanes8", "300|0+38*8+8*1|A<@1{S}", "mul+add"), ("lanes16", "300|0+19*16+16*1|A<@1{S}", "mul+add"),
    ("blocks128", "300||S<128{S}", "mul+add"), ("fma", "300||S", "fma")])
def test_a_chosen_order_comes_back(association, schedule, arithmetic):
    [found] = reveal("matmul", "-b", f"mutant,association={association}", "--m", 20, "--k", 300, "--n", 20)
    assert found["schedule"] == schedule and found["arithmetic"].split()[0] == arithmetic
    assert found["coverage"] == 1 and found["elements"] == 3 * 400 and len(found["schedule_sha256"]) == 64


def test_equal_schedules_have_equal_identities_and_others_do_not():
    shape = ["--m", 9, "--k", 40, "--n", 11]
    chain, again, lanes, fused = reveal("matmul", *[w for a in ("sequential", "sequential", "lanes8", "fma") for w in ("-b", f"mutant,association={a}")],
                                        *shape)
    assert chain["schedule_sha256"] == again["schedule_sha256"]
    assert len({chain["schedule_sha256"], lanes["schedule_sha256"], fused["schedule_sha256"]}) == 3


@pytest.mark.parametrize("backend", ["ort", "openvino,precision=f32"])
@pytest.mark.parametrize("m,k,n", [(64, 64, 64), (33, 129, 65), (1, 256, 48), (7, 200, 30)])
def test_real_back_ends_replay_to_the_bit(backend, m, k, n):
    [found] = reveal("matmul", "-b", backend, "--m", m, "--k", k, "--n", n, exits=(0, 3))
    assert found["coverage"] == 1 or found["reason"], found
    assert all(c["schedule"] or c["violation"] for c in found["classes"])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
def test_narrow_and_wide_types_replay_to_the_bit(dtype):
    """Operands are numbers of the type: the data of the proof are not shaped like weights in blocks of codes."""
    [found] = reveal("matmul", "-b", "mutant,association=lanes8", "--m", 24, "--k", 96, "--n", 24, "--dtype", dtype)
    assert found["schedule"] == "96|0+12*8+8*1|A<12{S}" and found["coverage"] == 1, found["reason"]


def test_blocks_of_onnx_runtime():
    """MLAS sums K in blocks of 128 in all its kernels for matrices."""
    [found] = reveal("matmul", "-b", "ort", "--m", 200, "--k", 200, "--n", 200)
    assert found["schedule"] == "200||S<128{S}" and found["coverage"] == 1
    text = run("reveal", "matmul", "-b", "ort", "--m", 200, "--k", 200, "--n", 200).stdout
    assert "chain(128) >> chain(72)" in text and "120000 of 120000 elements" in text


@pytest.mark.parametrize("options,schedule", [
    (["--channels", 8, "--filters", 6, "--kernel", "3x3", "--pad", 1, "--image", "9x7"], "72|0+9*8+8*1|A<9{S}"),
    (["--channels", 8, "--filters", 6, "--groups", 2, "--kernel", "2x2", "--stride", 2, "--image", "8x8"], "16|0+2*8+8*1|A"),
    (["--channels", 4, "--filters", 3, "--kernel", "3x3", "--dilation", 2, "--pad", "2x2x2x2", "--image", "9x9", "--bias"], None),
    (["--channels", 16, "--filters", 5, "--kernel", "1x1", "--image", "4x5", "--constant-b"], "16|0+2*8+8*1|A")])
def test_convolutions(options, schedule):
    [found] = reveal("conv", "-b", "mutant,association=lanes8", *options)
    assert found["coverage"] == 1 and (schedule is None or found["schedule"] == schedule)
    assert schedule or found["schedule"].startswith("36+c|")


@pytest.mark.parametrize("backend", ["ort", "openvino,precision=f32"])
def test_real_convolutions_replay_to_the_bit(backend):
    [found] = reveal("conv", "-b", backend, "--channels", 16, "--filters", 16, "--kernel", "3x3", "--pad", 1, "--image", "10x10", "--bias", "--constant-b",
                     exits=(0, 3))
    assert found["coverage"] == 1 or found["reason"], found


@pytest.mark.parametrize("kind,schedule", [("cumsum", "90||S"), ("sumsquare", "90|0+12*8+8*1|A<@1{S}"), ("l2", "90|0+12*8+8*1|A<@1{S}"), ("l1", "90|0+12*8+8*1|A<@1{S}"),
                                           ("mean", "90|0+12*8+8*1|A<@1{S}"), ("averagepool", "90|0+12*8+8*1|A<@1{S}")])
def test_rows(kind, schedule):
    [found] = reveal(kind, "-b", "mutant,association=lanes8", "--m", 40, "--n", 90)
    assert found["coverage"] == 1 and found["schedule"] == schedule


LANES8 = "90|0+12*8+8*1|A<@1{S}"


@pytest.mark.parametrize("kind,form", [("softmax", "y = e/S"), ("logsumexp", "y = log(S) + max"), ("rmsnorm", "v = S/n + eps; r = 1/sqrt(v); y = (d*r)*w"),
                                       ("layernorm", "mean = T/n; d = x - mean; v = S/n + eps; r = 1/sqrt(v); y = (d*r)*w + b")])
def test_sums_inside_larger_operators(kind, form):
    lanes, chain = reveal(kind, "-b", "mutant,association=lanes8", "-b", "mutant", "--m", 40, "--n", 90)
    assert lanes["coverage"] == 1 and lanes["schedule"] == LANES8 and lanes["form"] == form and not lanes["reason"]
    assert lanes["classes"][0]["mean"] == (LANES8 if kind == "layernorm" else None)
    assert chain["schedule"] == "90||S" and len({lanes["schedule_sha256"], chain["schedule_sha256"]}) == 2


@pytest.mark.parametrize("backend", ["ort", "openvino,precision=f32"])
@pytest.mark.parametrize("kind", ["softmax", "logsumexp", "rmsnorm", "layernorm"])
@pytest.mark.parametrize("n", [8, 100])
def test_real_sums_inside_larger_operators(backend, kind, n):
    [found] = reveal(kind, "-b", backend, "--m", 48, "--n", n, exits=(0, 3))
    assert found["coverage"] == 1 or found["reason"], found
    assert all(c["schedule"] or c["violation"] for c in found["classes"])
    text = run("reveal", kind, "-b", backend, "--m", 48, "--n", n).stdout
    assert "no tree" in text or ("\nform  " in text and ("\nmean  " in text) == (kind == "layernorm"))


def test_operands_are_measured():
    [found] = reveal("matmul", "-b", "mutant,operands=tf32-rz", "--m", 8, "--k", 60, "--n", 9, "--card", exits=(0, 3))
    assert "operands=tf32-rz" in found["arithmetic"]
    assert {"P1": "rounded to tf32, toward zero"}.items() <= {c["id"]: c["finding"] for c in found["card"]}.items()


def test_an_addend_has_its_place():
    [found] = reveal("gemm", "-b", "mutant", "--bias", "--m", 6, "--k", 33, "--n", 7)
    assert found["schedule"].startswith("33+c|") and found["coverage"] == 1


def test_integers_have_no_order():
    [found] = reveal("matmul", "-b", "mutant", "--dtype", "u8", "--m", 3, "--k", 5, "--n", 4)
    assert found["classes"][0]["violation"] == "order-free" and found["coverage"] in (None, 1)


NBITS = ["--m", 6, "--k", 160, "--n", 24]


@pytest.mark.parametrize("options", [[], ["--zero-points"], ["--block", 16, "--bits", 8], ["--accuracy", 1], ["--m", 1]])
def test_weights_in_codes_replay_to_the_bit(options):
    """ONNX Runtime dequantises to f32 and multiplies, unless accuracy_level lets it quantise the activations."""
    [found] = reveal("matmulnbits", "-b", "ort", *NBITS, *options, exits=(0, 3))
    assert found["operator"] == "MatMulNBits" and (found["coverage"] == 1 or found["reason"]), found
    assert all(c["schedule"] or c["violation"] for c in found["classes"])


@pytest.mark.parametrize("backend,options", [("ort", ["--accuracy", 4]), ("openvino,precision=f32", [])])
def test_quantised_activations_are_named(backend, options):
    [found] = reveal("matmulnbits", "-b", backend, *NBITS, *options, exits=(0, 3))
    if found["coverage"] == 1:
        return  # a processor whose kernels quantise nothing
    assert found["classes"][0]["violation"] in ("value-dependent", "no-summation-tree") or found["reason"]
    if found["classes"][0]["violation"] == "value-dependent":
        assert "32 terms a scale" in found["reason"] and found["schedule"] is None and found["schedule_sha256"] is None


@pytest.mark.parametrize("backend", ["ort", "openvino,precision=f32"])
@pytest.mark.parametrize("heads,kv_heads,m,keys,size", [(2, 2, 5, 64, 32), (4, 2, 1, 48, 16)])
def test_attention_replays_to_the_bit(backend, heads, kv_heads, m, keys, size):
    [found] = reveal("attention", "-b", backend, "--heads", heads, "--kv-heads", kv_heads, "--m", m, "--keys", keys, "--head-size", size, exits=(0, 3))
    assert found["error"] is None and (found["coverage"] == 1 or found["reason"]), found
    places = [c["where"] for c in found["classes"]]
    assert places[0].startswith("keys: ") and places[-1].startswith("scores: ")
    assert all(c["schedule"] or c["violation"] for c in found["classes"])
    if found["coverage"] == 1:
        assert found["elements"] > 5 * heads * m * size and "read to the bit through exp" in found["notes"]


def test_weights_in_codes_in_a_model(tmp_path):
    k, n, block = 64, 6, 32
    rng = np.random.default_rng(7)
    weights = {"b": rng.integers(0, 256, (n, k // block, block // 2), dtype=np.uint8), "s": rng.random((n, k // block), dtype=np.float32),
               "z": rng.integers(0, 256, (n, 1), dtype=np.uint8)}
    dense = models.node("MatMulNBits", "x b s z", "y", "dense", domain="com.microsoft", K=k, N=n, bits=4, block_size=block)
    model = models.save(tmp_path / "q.onnx", [dense], [models.info("x", shape=[2, 3, k])], [models.info("y")], weights, domains=["com.microsoft"])
    [found] = reveal(model, "--node", "dense", "-b", "ort", exits=(0, 3))
    assert found["operator"] == "MatMulNBits" and "with zero points" in found["shape"] and found["shape"].startswith("6x64x6")
    assert found["coverage"] == 1 or found["reason"]


def test_attention_and_integers_in_a_model(tmp_path):
    model = models.save(tmp_path / "a.onnx", [models.node("Attention", "q k v", "y", "attend"), models.node("MatMulInteger", "a b", "i", "whole")],
                        [*(models.info(x, shape=[1, 2, 8, 8]) for x in "qkv"), models.info("a", models.U8, [3, 9]), models.info("b", models.U8, [9, 4])],
                        [models.info("y"), models.info("i", models.I32)], opset=23)
    [found] = reveal(model, "--node", "attend", "-b", "ort", exits=(0, 3))
    assert found["operator"] == "Attention" and (found["coverage"] == 1 or found["reason"])
    [found] = reveal(model, "--node", "whole", "-b", "ort")
    assert found["classes"][0]["violation"] == "order-free" and found["coverage"] == 1


@pytest.mark.parametrize("op,domain,attributes", [("MultiHeadAttention", "com.microsoft", {"num_heads": 4}), ("Attention", "", {"q_num_heads": 4, "kv_num_heads": 4})])
def test_heads_side_by_side(tmp_path, op, domain, attributes):
    """[batch, length, heads * size]: as heads of their own, the same bits come back."""
    model = models.save(tmp_path / "h.onnx", [models.node(op, "q k v", "y", "attend", domain=domain, **attributes)],
                        [models.info("q", shape=[2, 5, 32]), models.info("k", shape=[2, 12, 32]), models.info("v", shape=[2, 12, 32])], [models.info("y")],
                        opset=23, domains=["com.microsoft"])
    [found] = reveal(model, "--node", "attend", "-b", "ort", exits=(0, 3))
    assert found["operator"] == "Attention" and found["shape"] == "4 heads, 5 queries, 12 keys of 8"
    assert found["coverage"] == 1 or found["reason"]
    assert found["classes"][0]["elements"] >= 1 and found["classes"][0]["where"].startswith("keys: ")


def test_a_node_of_a_model(tmp_path):
    model = models.save(tmp_path / "m.onnx", [models.node("Relu", "x", "r", "first"), models.node("MatMul", "r w", "y", "dense")],
                        [models.info("x", shape=[5, 40])], [models.info("y")], {"w": models.numbers(4, 40, 6)})
    [found] = reveal(model, "--node", "dense", "-b", "mutant,association=lanes8")
    assert found["schedule"].endswith("A<5{S}") and found["coverage"] == 1 and found["node"] == "dense" and found["loads"] > 1
    done = run("reveal", model, "--node", "first", "-b", "mutant")
    assert done.returncode == 3 and "Relu" in done.stdout
    done = run("reveal", model, "--node", "nobody", "-b", "mutant")
    assert done.returncode == 2 and "nobody" in done.stderr


def test_rung_nine_of_check(tmp_path):
    model = models.save(tmp_path / "m.onnx", [models.node("MatMul", "x w", "y", "dense")], [models.info("x", shape=[5, 40])], [models.info("y")],
                        {"w": models.numbers(4, 40, 6)})
    code, parsed = report("check", model, "-b", "mutant,association=lanes8", "--effort", "deep", "--no-in-situ", "--no-graph")
    [row] = parsed["results"]
    assert code == 0 and row["verdict"] == "replayed" and "A<5{S}" in row["evidence"]["schedule"]
    code, parsed = report("check", model, "-b", "mutant,operands=bf16", "--effort", "deep", "--no-in-situ", "--no-graph")
    [row] = parsed["results"]
    assert code == 1 and row["verdict"] == "contract-mismatch" and "operands=bf16" in row["evidence"]["schedule"]


@pytest.mark.parametrize("args,words", [
    (["matmul"], "-b"), (["matmul", "-b", "mutant"], "m is 0"), (["nothing", "-b", "mutant"], "no operator"),
    (["matmul", "-b", "mutant", "--m", "2", "--k", "2", "--n", "2", "--dtype", "q7"], "q7"),
    (["conv", "-b", "mutant", "--kernel", "3y3"], "3y3"), (["matmul", "-b", "nobody", "--m", "2", "--k", "2", "--n", "2"], "nobody"),
    (["sum", "-b", "mutant", "--m", "4", "--n", "99999999999"], "n (terms"), (["missing.onnx", "--node", "a", "-b", "mutant"], "missing.onnx"),
    (["missing.onnx", "-b", "mutant"], "--node"), (["matmulnbits", "-b", "ort", "--m", "2", "--k", "32", "--n", "2", "--bits", "3"], "bits is 3"),
    (["matmulnbits", "-b", "ort", "--m", "2", "--k", "32", "--n", "2", "--block", "20"], "power of two"), (["attention", "-b", "ort", "--m", "2"], "heads is 0"),
    (["gemm", "-b", "mutant", "--m", "2", "--k", "2", "--n", "2", "--batch", "3"], "addend")])
def test_bad_requests_get_one_line(args, words):
    done = run("reveal", *args)
    assert done.returncode in (2, 3) and words in done.stderr + done.stdout
    assert len((done.stderr or done.stdout).strip().splitlines()) == 1


def test_a_picture_has_the_tree_and_the_classes(tmp_path):
    reveal("matmul", "-b", "mutant,association=lanes8", "--m", 300, "--k", 40, "--n", 20, "--svg", tmp_path / "p.svg")
    picture = (tmp_path / "p.svg").read_text()
    assert picture.startswith("<svg ") and "classes of 300 x 20 output elements; a cell is 3 x 1 of them" in picture
    assert "6000 elements at *: 40|" in picture


def test_the_card_of_gemm_has_its_epilogue():
    [found] = reveal("gemm", "-b", "mutant", "--bias", "--m", 6, "--k", 33, "--n", 7, "--card")
    card = {c["id"]: c["finding"] for c in found["card"]}
    assert len(card) == 24 and card["P18"].startswith("alpha times the sum is rounded") and card["P20"].startswith("not measured: ")
    [found] = reveal("matmul", "-b", "mutant,association=blocks128", "--m", 6, "--k", 300, "--n", 7, "--card")
    card = {c["id"]: c["finding"] for c in found["card"]}
    assert card["P20"].startswith("handed on with 23 bits (f32), those of the running sum")
