"""Bad input to the command: one clear line, exit 2, nothing written."""
import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.command import run  # noqa: E402


def matmul(path, opset=17, op="MatMul", dims=(4, 8)):
    graph = helper.make_graph(
        [helper.make_node(op, ["A", "B"], ["Y"])], "g",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, list(dims)), helper.make_tensor_value_info("B", TensorProto.FLOAT, [8, 3])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), str(path))
    return path


@pytest.fixture
def files(tmp_path):
    model = matmul(tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 8), np.float32), rng.standard_normal((8, 3), np.float32)
    np.savez(tmp_path / "in.npz", A=a, B=b)
    np.savez(tmp_path / "out.npz", Y=a @ b)
    return tmp_path, model


def refused(done, *words):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("vernier: "), done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def test_usage_errors():
    refused(run("check"), "exactly one model")
    refused(run("check", "x.onnx", "--seed", "soon", "-b", "ort"), "--seed", "soon")
    refused(run("check", "x.onnx", "--wat"), "unknown option '--wat'")
    refused(run("check", "x.onnx", "--memory", "lots", "-b", "ort"), "--memory")
    refused(run("judge", "--model", "x"), "judge needs")
    refused(run("frobnicate"), "unknown command 'frobnicate'")


def test_unknown_back_end_names_the_known(files):
    _, model = files
    refused(run("check", model, "-b", "tensorrt"), "unknown back end 'tensorrt'", "openvino", "mutant")
    refused(run("check", model, "-b", "openvino,precison=f32"), "precison")


def test_not_a_model(tmp_path):
    for name, content in {"text.onnx": b"hello, this is no model\n" * 20, "empty.onnx": b"", "json.onnx": b'{"graph": []}', "zeros.onnx": bytes(4096)}.items():
        (tmp_path / name).write_bytes(content)
        refused(run("check", tmp_path / name, "-b", "null"), name)
    refused(run("check", tmp_path / "absent.onnx", "-b", "null"), "absent.onnx")


def test_truncated_at_any_byte(files):
    folder, model = files
    whole = model.read_bytes()
    for cut in range(1, len(whole), 7):
        (folder / "cut.onnx").write_bytes(whole[:cut])
        refused(run("judge", "--model", folder / "cut.onnx", "--inputs", folder / "in.npz", "--actual", folder / "out.npz"), "cut.onnx")


def test_unknown_operator_is_unsupported_by_name(files):
    folder, _ = files
    model = matmul(folder / "odd.onnx", op="Frobnicate")
    done = run("judge", "--model", model, "--inputs", folder / "in.npz", "--actual", folder / "out.npz")
    assert done.returncode == 3 and "unsupported" in done.stdout and "Frobnicate" in done.stdout


def test_inputs_of_wrong_name_type_or_shape(files):
    folder, model = files
    a, b = np.zeros((4, 8), np.float32), np.zeros((8, 3), np.float32)
    for given, words in [({"A": a}, ("'B'", "missing")), ({"A": a, "B": b, "C": b}, ("'C'", "no input")), ({"A": a.astype(np.float64), "B": b}, ("'A'", "f64", "f32")),
                         ({"A": a[:3], "B": b}, ("'A'", "[3,8]", "[4,8]"))]:
        np.savez(folder / "bad.npz", **given)
        refused(run("judge", "--model", model, "--inputs", folder / "bad.npz", "--actual", folder / "out.npz"), *words)


def test_shapes_that_do_not_fit(files):
    folder, _ = files
    model = matmul(folder / "misfit.onnx", dims=(4, 7))
    np.savez(folder / "misfit.npz", A=np.zeros((4, 7), np.float32), B=np.zeros((8, 3), np.float32))
    refused(run("judge", "--model", model, "--inputs", folder / "misfit.npz", "--actual", folder / "out.npz"), "MatMul")


def test_nan_and_inf_inputs_are_judged(files):
    folder, model = files
    a, b = np.ones((4, 8), np.float32), np.ones((8, 3), np.float32)
    a[1, 2], a[2, 3] = np.nan, np.inf
    np.savez(folder / "nan.npz", A=a, B=b)
    with np.errstate(invalid="ignore"):
        np.savez(folder / "right.npz", Y=a @ b)
    wrong = a @ b
    wrong[1] = 0
    np.savez(folder / "wrong.npz", Y=wrong)
    assert run("judge", "--model", model, "--inputs", folder / "nan.npz", "--actual", folder / "right.npz").returncode == 0
    assert run("judge", "--model", model, "--inputs", folder / "nan.npz", "--actual", folder / "wrong.npz").returncode == 1


def test_missing_and_misshapen_outputs(files):
    folder, model = files
    np.savez(folder / "none.npz", Z=np.zeros(3, np.float32))
    np.savez(folder / "form.npz", Y=np.zeros((3, 4), np.float32))
    for name, cause in (("none", "output-missing"), ("form", "shape")):
        done = run("judge", "--model", model, "--inputs", folder / "in.npz", "--actual", folder / f"{name}.npz")
        assert done.returncode == 1 and cause in done.stdout, done.stdout


def test_full_disk_leaves_nothing(files):
    folder, model = files
    args = ("judge", "--model", model, "--inputs", folder / "in.npz", "--actual", folder / "out.npz")
    refused(run(*args, "--json", "/dev/full/r.json"), "/dev/full/r.json")
    old = folder / "r.json"
    old.write_text("old")
    (folder / "locked").mkdir()
    assert run(*args, "--json", old).returncode == 0 and old.read_text() != "old"
    assert not list(folder.glob("*.tmp"))
    with open("/dev/full", "w") as full:
        import subprocess

        from support.command import VERNIER

        done = subprocess.run([str(VERNIER), *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "standard output" in done.stderr


def test_compare_says_that_it_has_no_verdict(files):
    folder, _ = files
    same, differ = run("compare", folder / "out.npz", folder / "out.npz"), None
    assert same.returncode == 0 and "all bits equal" in same.stdout
    np.savez(folder / "other.npz", Y=np.load(folder / "out.npz")["Y"] * np.float32(1.5))
    differ = run("compare", folder / "out.npz", folder / "other.npz")
    assert differ.returncode == 3 and "no verdict" in differ.stdout and "max ulp" in differ.stdout
