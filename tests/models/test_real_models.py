"""Real exported models through the whole pipeline, on both back ends: a defensible verdict for every node, nothing silently left out.

The quick tier takes the models of data/models.tsv with at most 15 MB; VERNIER_TEST_FULL=1 takes all. They are fetched as `vernier models get`
does, once. VERNIER_TEST_MODELS="a b" takes those only.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.command import ROOT, report  # noqa: E402

NEITHER = ("uninformative", "unsupported", "crashed", "timeout", "not-run")
BACKENDS = ("ort", "openvino,precision=f32")
FULL = bool(os.environ.get("VERNIER_TEST_FULL"))
ONLY = os.environ.get("VERNIER_TEST_MODELS", "").split()


def listed():
    done = subprocess.run([ROOT / "tools" / "models", "list", "--tsv"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [row for row in rows if (row[0] in ONLY if ONLY else FULL or row[1] != "bench")]


def fetch(name):
    done = subprocess.run([ROOT / "tools" / "models", "get", name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name, shapes", [pytest.param(row[0], row[3], id=row[0]) for row in listed()])
def test_every_node_has_a_verdict(name, shapes):
    arguments = ["check", fetch(name), "--seed", "1"]
    for spec in BACKENDS:
        arguments += ["-b", spec]
    for shape in shapes.split(" "):
        arguments += [] if shape == "-" else ["--shape", shape]
    status, found = report(*arguments, timeout=3600 if FULL else 600)
    assert status in (0, 1, 3)

    rows = found["results"]
    for spec in BACKENDS:
        judged = {row["node"] for row in rows if row["backend"] == spec and row["mode"] == "isolated"}
        assert len(judged) >= found["model"]["judged"], f"{spec}: {len(judged)} of {found['model']['judged']} nodes have an isolated row"

    silent = [row for row in rows if row["verdict"] in NEITHER and not (row["words"] or row["note"] or row["cause"])]
    assert not silent, f"{len(silent)} rows are undecided without a reason, first: {silent[0]['node']}"

    # The f32 setting is kept: OpenVINO's operands are not rounded behind its back.
    rounded = [row for row in rows if row["backend"] == BACKENDS[1] and (row["cause"] or "").startswith("operands-")]
    assert not rounded, f"{len(rounded)} rows, first: {rounded[0]['node']} {rounded[0]['cause']}"
