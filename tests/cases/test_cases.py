"""The judge on recorded cases: verdicts and causes as case.json expects them.

Every case is judged. A case that is known to be judged otherwise stands in misses.tsv with its verdict and the reason; a line there that is no
longer true fails, so the list cannot rot. A legitimate case that is called faulty, or a fault that passes, cannot be put on the list.
"""
import concurrent.futures
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.command import report, run  # noqa: E402

HERE = pathlib.Path(__file__).parent
SEVERITY = ["bug", "nondeterministic", "contract-mismatch", "suspect", "crashed", "timeout", "unsupported", "uninformative", "not-run",
            "spec-open", "explained", "replayed", "exact"]
PASSES = {"exact", "replayed", "explained", "spec-open"}
CASES = sorted(p.parent for folder in ("public", "live", "found") for p in (HERE / folder).glob("*/case.json"))


def arguments(folder, case):
    args = ["judge", "--model", folder / "node.onnx", "--inputs", folder / "inputs.npz", "--actual", folder / "actual.npz"]
    if (folder / "actual_run2.npz").exists():
        args += ["--actual", folder / "actual_run2.npz"]
    if case.get("declared"):
        args += ["--declared", ",".join(f"{k}={v}" for k, v in sorted(case["declared"].items()))]
    return args


def judge(folder):
    case = json.loads((folder / "case.json").read_text())
    done = run(*arguments(folder, case), "--json", "-", timeout=120)
    if done.returncode not in (0, 1, 3):
        return folder, case, f"exit {done.returncode}", None, done.stderr
    worst = min(json.loads(done.stdout)["results"], key=lambda r: SEVERITY.index(r["verdict"]))
    return folder, case, worst["verdict"], worst.get("cause"), worst.get("words")


@pytest.fixture(scope="module")
def judged():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(judge, CASES))


def known_misses():
    rows = {}
    for line in (HERE / "misses.tsv").read_text().splitlines()[1:]:
        name, verdict, reason = line.split("\t")
        assert reason.strip(), name
        rows[name] = verdict
    return rows


def test_no_false_alarm_and_no_missed_fault(judged):
    wrong = []
    for folder, case, verdict, cause, words in judged:
        legitimate = case["expect"]["verdict"][0] in PASSES  # the first one is the preferred one
        listed = f"{folder.parent.name}/{folder.name}" in known_misses() and folder.parent.name != "public"
        if legitimate and verdict not in case["expect"]["verdict"] and verdict not in PASSES:
            wrong.append(f"{folder.name}: {verdict} {cause} on a legitimate case: {words}")
        elif not legitimate and verdict in PASSES and verdict not in case["expect"]["verdict"] and not listed:
            wrong.append(f"{folder.name}: {verdict} on a fault")
    assert not wrong, "\n".join(wrong)


def test_verdicts(judged):
    misses, seen, wrong = known_misses(), set(), []
    for folder, case, verdict, cause, words in judged:
        name = f"{folder.parent.name}/{folder.name}"
        if verdict in case["expect"]["verdict"]:
            if name in misses:
                wrong.append(f"{name}: judged right, take it off misses.tsv")
        elif misses.get(name) != verdict:
            wrong.append(f"{name}: {verdict} {cause} ({words}); expected {case['expect']['verdict']}")
        seen.add(name)
    wrong += [f"{name}: in misses.tsv, no such case" for name in set(misses) - seen]
    assert not wrong, "\n".join(wrong)


def same_cause(cause, wanted):
    if cause in wanted:
        return True
    number = re.fullmatch(r"eps:(.+)", cause or "")
    others = [re.fullmatch(r"eps:(.+)", w) for w in wanted]
    return bool(number) and any(o and abs(float(number[1]) - float(o[1])) <= 0.05 * abs(float(o[1])) for o in others)


def test_operand_precision_is_named(judged):
    """The hypotheses of this build: a planted operand precision is named, whatever the shape."""
    wrong = []
    for folder, case, verdict, cause, _ in judged:
        expect = case["expect"]
        if case.get("kind") == "mode" and (expect.get("cause") or "") in ("operands-bf16", "operands-tf32-rn", "operands-tf32-rna", "operands-tf32-rz"):
            if not same_cause(cause, {expect["cause"], *(expect.get("cause_any") or [])}):
                wrong.append(f"{folder.name}: {verdict} {cause}, expected {expect['cause']}")
    assert not wrong, "\n".join(wrong)


def test_reports_follow_the_schema():
    for folder in CASES[:: max(1, len(CASES) // 12)]:
        report(*arguments(folder, json.loads((folder / "case.json").read_text())))
