"""Real exported models through the whole pipeline, on both back ends: a defensible verdict for every node, nothing silently left out.

The quick tier takes the models of data/models.tsv with at most 15 MB, those that would take minutes left out (SLOW) and with inputs no larger
than their operators need (SMALL); VERNIER_FULL=1 takes all of them as they are. They are fetched as `vernier models get` does, once.
VERNIER_TEST_MODELS="a b" takes those only.

Every row that does not pass must stand in known.tsv with its reason, and docs/findings.md tells the story. The table is keyed by back end,
operator, verdict and cause, not by node or number, so that it holds on another processor.
"""

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.command import ROOT, report  # noqa: E402

PASSES = ("exact", "replayed", "explained", "spec-open")
BACKENDS = ("ort", "openvino,precision=f32")
FULL = bool(os.environ.get("VERNIER_FULL"))
ONLY = os.environ.get("VERNIER_TEST_MODELS", "").split()

SLOW = {
    "dnsmos-sig-bak-ovr": "18 million activations a layer; its operators are those of dnsmos-p808",
    "dnsmos-bak-ovr": "as dnsmos-sig-bak-ovr",
    "dnsmos-sig": "as dnsmos-sig-bak-ovr",
    "dnsmos-personal": "as dnsmos-sig-bak-ovr",
    "voicefilter-embedder": "80 steps of three layers of 768; voicefilter-lite has the same layers at 512",
}
SMALL = {
    "rapidocr-rec": "x=1x3x48x64",
    "rapidocr-det": "x=1x3x64x96",
    "rapidocr-cls": "x=1x3x48x64",
    "ddddocr-old": "input1=1x1x64x48",
    "aecmos-16k-s1": "input=1x3x60x160",
    "aecmos-16k-s2": "input=1x3x60x160",
    "aecmos-48k": "input=1x3x60x160",
    "plcmos": "degraded_audio=1x1x60x257 rater_embed=1x64",
    "voicefilter-lite": "stacked_logmel=1x4x512 dvec=1x256 h0=3x1x512 c0=3x1x512",
}


def listed():
    done = subprocess.run([ROOT / "tools" / "models", "list", "--tsv"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    if ONLY:
        return [(row[0], row[3]) for row in rows if row[0] in ONLY]
    if FULL:
        return [(row[0], row[3]) for row in rows]
    return [(row[0], SMALL.get(row[0], row[3])) for row in rows if row[1] != "bench" and row[0] not in SLOW]


def fetch(name):
    done = subprocess.run([ROOT / "tools" / "models", "get", name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def known():
    """[(back end, mode, operator, verdict, cause), ...]; the reason is for readers, and must be there."""
    rows = []
    for line in (Path(__file__).parent / "known.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            *key, reason = line.split("\t")
            assert len(key) == 5 and reason.strip(), line
            rows.append(tuple(key))
    return rows


KNOWN = known()


def is_known(row):
    key = (row["backend"].split(",")[0], row["mode"], row["op"], row["verdict"], row["cause"] or "-")
    return any(all(fnmatch.fnmatchcase(have, pattern) for have, pattern in zip(key, patterns)) for patterns in KNOWN)


def uncovered(path, found, spec):
    """Outputs of the top graph that have no isolated row; operators of control flow are judged by their bodies, and a note says so."""
    rows = {row["output"] for row in found["results"] if row["backend"] == spec and row["mode"] == "isolated"}
    flow = " ".join(note for note in found["notes"] if "control flow" in note)
    missing = []
    for node in onnx.load(path, load_external_data=False).graph.node:
        if node.op_type == "Constant" or (node.op_type in ("If", "Loop", "Scan") and f"({node.op_type})" in flow):
            continue
        missing += [f"{node.op_type} {output}" for output in node.output if output and output not in rows]
    return missing


@pytest.mark.parametrize("name, shapes", [pytest.param(*row, id=row[0]) for row in listed()])
def test_every_node_has_a_verdict(name, shapes):
    path = fetch(name)
    arguments = ["check", path, "--seed", "1"]
    for spec in BACKENDS:
        arguments += ["-b", spec]
    for shape in shapes.split(" "):
        arguments += [] if shape == "-" else ["--shape", shape]
    status, found = report(*arguments, *([] if FULL else ["--effort", "quick"]), timeout=3600 if FULL else 600)
    assert status in (0, 1, 3)

    rows = found["results"]
    for spec in BACKENDS:
        missing = uncovered(path, found, spec)
        assert not missing, f"{spec}: {len(missing)} outputs have no isolated row, first: {missing[0]}"

    odd = [row for row in rows if row["verdict"] not in PASSES]
    silent = [row for row in odd if not (row["words"] or row["note"] or row["cause"])]
    assert not silent, f"{len(silent)} rows do not pass and give no reason, first: {silent[0]['node']}"

    new = [row for row in odd if not is_known(row)]
    told = "\n".join(f"{r['backend']} {r['mode']} {r['op']} {r['node']}: {r['verdict']} {r['cause']}: {r['words'] or r['note']}" for r in new[:8])
    assert not new, f"{len(new)} rows are not in known.tsv:\n{told}"

    # The f32 setting is kept: OpenVINO's operands are not rounded behind its back.
    rounded = [row for row in rows if row["backend"] == BACKENDS[1] and (row["cause"] or "").startswith("operands-")]
    assert not rounded, f"{len(rounded)} rows, first: {rounded[0]['node']} {rounded[0]['cause']}"
