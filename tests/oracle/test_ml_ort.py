"""ai.onnx.ml against ONNX Runtime: random models of each operator; every result must lie inside the oracle's bound or follow one of its readings.

Where ONNX Runtime is known to leave the text (docs/claims-ml.md, ML-D1 ...) the result must be outside: the oracle sees the difference.
"""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
ort = pytest.importorskip("onnxruntime")
import ml_cases  # noqa: E402

BUILD = pathlib.Path(os.environ.get("VERNIER_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
FULL = bool(os.environ.get("VERNIER_FULL"))


def arrays(name, value):
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        element = str if isinstance(values[0], str) else np.int64 if isinstance(values[0], int) else np.float32
        return {f"{name}/keys": np.array(keys, str if isinstance(keys[0], str) else np.int64), f"{name}/values": np.array(values, element)}
    if isinstance(value, list):  # a sequence of maps
        keys = list(value[0])
        return {f"{name}/keys": np.array(keys, str if isinstance(keys[0], str) else np.int64),
                f"{name}/values": np.array([[row[k] for k in keys] for row in value], np.float32)}
    return {name: value.astype(str) if value.dtype == object else value}


def record(case, folder):
    """Runs the case; its files into the folder. Returns the text of a refusal."""
    model = case.model()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, case.feeds)
    except Exception as refusal:  # noqa: BLE001 - the binding raises many types
        return str(refusal)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "in.npz", **{k: v for name, value in case.feeds.items() for k, v in arrays(name, value).items()})
    np.savez(folder / "want.npz", **{k: v for name, value in zip(case.outputs, results) for k, v in arrays(name, value).items()})
    return None


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    ort.set_default_logger_severity(4)
    root = tmp_path_factory.mktemp("ml")
    all_cases = {c.name: c for c in ml_cases.cases(FULL)}
    refused = {name: text for name, c in all_cases.items() if (text := record(c, root / name))}
    folders = [name for name in all_cases if name not in refused]
    lines = []
    for begin in range(0, len(folders), 500):
        done = subprocess.run([str(BUILD / "tests" / "ml_case"), *folders[begin:begin + 500]], cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        lines += [line.split("\t") for line in done.stdout.splitlines()]
    return all_cases, refused, lines


def test_ort_runs_the_cases(judged):
    all_cases, refused, _ = judged
    assert not refused, [f"{n}: {t[:200]}" for n, t in list(refused.items())[:20]]
    assert {c.op for c in all_cases.values()} >= {"TreeEnsemble", "SVMClassifier", "ZipMap", "CastMap", "LabelEncoder", "Normalizer"}


def test_every_output_is_judged(judged):
    all_cases, refused, lines = judged
    seen = {(line[0], line[1]) for line in lines}
    due = {(n, o) for n, c in all_cases.items() if n not in refused for o in c.outputs}
    assert due <= seen, sorted(due - seen)[:10]


def test_results_are_inside_or_follow_a_reading(judged):
    all_cases, _, lines = judged
    wrong = [line for line in lines if line[2] in ("outside", "error") and line[1] not in all_cases[line[0]].differs]
    assert not wrong, "\n".join("  ".join(line) for line in wrong[:40]) + f"\n{len(wrong)} of {len(lines)}"


def test_known_differences_are_seen(judged):
    all_cases, refused, lines = judged
    verdicts = {(line[0], line[1]): line[2] for line in lines}
    known = [(n, o) for n, c in all_cases.items() if n not in refused for o in c.differs]
    assert known
    missed = [key for key in known if verdicts.get(key) != "outside"]
    assert not missed, missed[:20]


def test_open_elements_are_rare(judged):
    _, _, lines = judged
    opened = [line for line in lines if line[2] == "open"]
    assert len(opened) <= len(lines) // 20, opened[:20]
