#!/usr/bin/env python3
"""Counts false alarms and missed faults of Vernier and of its peers' criteria, and writes docs/detection.md.

usage: bench/detection.py [--program PATH] [--jobs N] [--seeds N] [--names N] [--lines FILE] [--out FILE]
  --program  the built bench_detection (default: build/bench/bench_detection; `make bench` builds it)
  --names    of each fault's runs every N-th is asked for its cause (default 1: all)
  --lines    where the judgements are kept, one a line (default: none)
  --out      the report (default: docs/detection.md; - prints it)
Exit status 1: a correct run was rejected, or more than 1 % of the faults were missed.
"""

import argparse
import collections
import concurrent.futures
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PASS = {"exact", "replayed", "explained", "spec-open"}
RMS_LIMIT = 3  # vn_rms_limit: the largest rms error over the model's sigma of a correct order, claim PRINT-2
FAIL = {"contract-mismatch", "suspect", "bug", "nondeterministic"}
PEERS = [
    "allclose 1e-5 / 1e-5 (both exceeded)",
    "allclose 1e-3 / 1e-3 (both exceeded)",
    "defaults by type, f32 1.3e-6 / 1e-5, f16 1e-3, bf16 1.6e-2",
    "NMSE 5e-4 contractions, 1e-7 else",
    "RMS 1e-3 of the largest",
    "cosine 0.99",
    "Pearson correlation 0.99",
    "per tensor: gamma(n) n max max",
    "\\|b-a\\| / (\\|a\\| + 1e-6) <= 2e-3",
    "error <= 2 x the usual kernel's",
]
# Other ids that say the same of the same fault.
ALSO = {
    "alpha-twice": {"constant-ratio"},
    "sign-flipped": {"constant-ratio"},
    "count-include-pad": {"attribute-ignored:count_include_pad"},
    "coordinate-mode": {"attribute-ignored:coordinate_transformation_mode"},
    "argmax-last": {"attribute-ignored:select_last_index", "tie-order"},
    "interleave-ignored": {"attribute-ignored:interleaved"},
    "softcap-missing": {"attribute-ignored:softcap"},
    "scale-missing": {"attribute-ignored:scale"},
    "gelu-tanh": {"attribute-ignored:approximate"},
    "gelu-erf": {"attribute-ignored:approximate"},
    "no-max-subtraction": {"nan-produced", "inf-produced"},
    "operands-f16": {"operands-tf32-rn"},  # equal on normal numbers
    "broadcast-axis": {"transposed"},
    "winograd-f2": {"winograd-f4"},
    "winograd-f6": {"winograd-f4"},
    "zeros": {"tail-unwritten", "lane-unwritten"},  # what was never written is often zero
    "tail-unwritten": {"zeros"},
    "lane-unwritten": {"zeros"},
    "fast-exp": {"low-order-fit"},
    "coefficients-f16": {"low-order-fit"},
}

Finding = collections.namedtuple("Finding", "verdict cause note over_bound rms z")


class Row:
    """One judgement: a correct run, or a fault on a case."""

    def __init__(self, line):
        f = line.rstrip("\n").split("\t")
        self.corpus, self.op, self.type, self.case, self.name, self.kind, self.changed, self.bits, self.peers = f[:9]
        self.declared, self.portable = (Finding(*f[9 + 6 * k : 15 + 6 * k]) for k in range(2))


def run(program, jobs, seeds, names):
    def part(k):
        command = [program, "--seeds", str(seeds), "--names", str(names), "--part", f"{k}/{jobs}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    lines = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in pool.map(part, range(jobs)):
            if done.returncode:
                sys.exit(done.stderr or f"{program}: exit status {done.returncode}")
            lines += done.stdout.splitlines()
    return lines


def named(row, finding, same):
    """0: not named, 1: by another id for the same, 2: by its id. A pass with a named note counts as named by the note."""
    said = finding.cause if finding.cause not in "-?" else finding.note
    short = said.split(":")[0]
    if short == row.name:
        return 2
    if said in ALSO.get(row.name, ()) or short in ALSO.get(row.name, ()):
        return 1
    return 1 if short in same.get((row.op, row.type, row.case, row.bits), ()) else 0


def loud(r):
    return float(r.declared.rms) > RMS_LIMIT


def why(r):
    if r.declared.verdict == "uninformative":
        return "the check says that it could not have seen it"
    return "above the noise: no fingerprint" if loud(r) else "below the noise"


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"
    yield ""


def judge_row(title, pick, correct, faults, modes):
    alarms = sum(pick(r).verdict in FAIL for r in correct)
    missed = [r for r in faults if pick(r).verdict not in FAIL]
    quiet = [r for r in modes if pick(r).verdict not in FAIL and pick(r).note == "-"]
    return title, f"{alarms} of {len(correct)}", f"{len(missed)} of {len(faults)} ({percent(len(missed), len(faults))})", f"{len(quiet)} of {len(modes)}"


def peer_row(k, correct, faults, modes):
    def count(rows, letter):
        rows = [r for r in rows if r.peers[k] != "-"]
        n = sum(r.peers[k] == letter for r in rows)
        return n, len(rows)

    a, b, c = count(correct, "f"), count(faults, "p"), count(modes, "p")
    return PEERS[k], f"{a[0]} of {a[1]} ({percent(*a)})", f"{b[0]} of {b[1]} ({percent(*b)})", f"{c[0]} of {c[1]}"


def report(rows, command, names):
    correct = [r for r in rows if r.corpus == "correct"]
    shown = [r for r in rows if r.corpus == "fault"]
    opened = [r for r in shown if "spec-open" in (r.declared.verdict, r.portable.verdict)]
    order = [r for r in shown if r.name == "order-nondeterminism"]
    left_out = {id(r) for r in opened + order}
    judged = [r for r in shown if id(r) not in left_out]
    faults = [r for r in judged if r.kind != "arithmetic"]
    modes = [r for r in judged if r.kind == "arithmetic"]
    same = collections.defaultdict(set)
    for r in shown:
        same[r.op, r.type, r.case, r.bits].add(r.name)

    yield "# False alarms and missed faults"
    yield ""
    yield "Written by"
    yield ""
    yield f"    {command}"
    yield ""
    operators, ids = {r.op for r in correct}, {r.name for r in shown}
    yield f"{len(correct)} correct runs of {len(operators)} operators: every order of summation of the mutant (sequential, reversed, pairwise, 8"
    yield "and 16 lanes, blocks of 128, fused multiply-add, 8 and 32 parts) and an f64 accumulator, types f32, f16, bf16 (f64 at one place),"
    yield "products at M of 1, 2, 8, 9, 32, K of 1, 3, 127, 128, 129, 1000, 4096, 16384 and N at and beside multiples of 8, 32 and 64, the other"
    yield f"sums at such lengths. {len(judged)} faulty runs: {len(ids)} faults of the mutant (`vernier-worker-mutant --list`), each on every case whose"
    yield "operator can show it; a run counts only if some element differs from the clean run's. *Faults* are wrong rules, wrong data, wrong"
    yield "integers; *arithmetics* are right functions in an arithmetic that was not declared."
    yield ""
    yield "*declared*: the element type, f32 accumulation, functions within 4 ulp. *portable*: the default of `vernier check`, which lets some"
    yield "arithmetics pass with a note that names them; only those that pass without one count as missed here. The peers' rules compare with the"
    yield "oracle rounded to the type, a kinder reference than any of them has; `-` where a rule does not apply is left out of its count."
    yield ""
    body = [judge_row("**Vernier, declared**", lambda r: r.declared, correct, faults, modes)]
    body.append(judge_row("**Vernier, portable**", lambda r: r.portable, correct, faults, modes))
    body += [peer_row(k, correct, faults, modes) for k in range(len(PEERS))]
    yield from table(["criterion", "false alarms", "missed faults", "missed arithmetics"], body)
    open_names = ", ".join(f"`{n}` ({k})" for n, k in collections.Counter(r.name for r in opened).items()) or "none"
    yield f"Left out of all counts: {len(opened)} runs whose fault is a reading that the operator's text leaves open (verdict `spec-open`, reading"
    yield f"named): {open_names}; and the order of summation that changes from run to run ({len(order)} runs, "
    yield f"{sum(r.declared.verdict == 'nondeterministic' for r in order)} of them `nondeterministic`), which no rule sees that is shown one run."
    yield ""

    yield "## Named by cause"
    yield ""
    yield "Share of the caught runs whose cause is the id of the fault that was made, or another id for the same result (the same bits on the same"
    yield "operands, or a second spelling, listed in bench/detection.py)."
    if names > 1:
        yield f"Asked: one run in {names} of each fault."
    yield ""
    rows_out = []
    for kind in ("arithmetic", "semantic", "data", "integer"):
        of = [r for r in judged if r.kind == kind and r.declared.cause != "?" and (r.declared.verdict in FAIL or r.declared.note != "-")]
        marks = [named(r, r.declared, same) for r in of]
        rows_out.append((kind, len(of), f"{marks.count(2)} ({percent(marks.count(2), len(of))})", f"{len(of) - marks.count(0)} ({percent(len(of) - marks.count(0), len(of))})"))
    yield from table(["kind", "caught and asked", "by its id", "by its id or an equal one"], rows_out)

    rows_out = []
    for name in sorted(ids):
        of = [r for r in judged if r.name == name]
        if not of:
            continue
        caught = [r for r in of if r.declared.verdict in FAIL or r.declared.note != "-"]
        asked = [r for r in caught if r.declared.cause != "?"]
        right = [r for r in asked if named(r, r.declared, same)]
        said = collections.Counter(r.declared.cause if r.declared.cause != "-" else r.declared.note if r.declared.note != "-" else "no name" for r in asked if not named(r, r.declared, same))
        others = ", ".join(f"{c} ({n})" for c, n in said.most_common(3))
        rows_out.append((f"`{name}`", of[0].kind, len({r.op for r in of}), len(of), len(caught), f"{len(right)} of {len(asked)}", others))
    yield from table(["fault", "kind", "operators", "runs", "caught or noted", "named of asked", "else called (most frequent)"], rows_out)

    missed = [r for r in faults if r.declared.verdict not in FAIL]
    yield "## Missed faults, declared contract"
    yield ""
    yield "How far each is below the noise: the largest error over the bound, and the rms error over the predicted noise, which a correct kernel may"
    yield f"bring to {RMS_LIMIT} (claim PRINT-2). What stays below both is a result that some correct kernel could have given. What is inside the bound and"
    yield "above the noise is a gap of the judge: the fingerprint does not speak for that operator (softmax, norms, attention, a root after the sum),"
    yield "or there are too few elements for it, and the bound alone decides."
    yield ""
    yield from table(
        ["fault", "operator", "type", "case", "verdict", "elements changed", "error / bound", "rms / noise", "why"],
        [(f"`{r.name}`", r.op, r.type, r.case.replace("|", "\\|"), r.declared.verdict, r.changed, r.declared.over_bound, r.declared.rms, why(r)) for r in missed],
    )
    quiet = [r for r in modes if r.declared.verdict not in FAIL and r.declared.note == "-"]
    yield "## Arithmetics that pass, declared contract"
    yield ""
    yield "Runs whose error stays inside the bound of what was declared, by id: how many, how many of them are above the noise (a gap, as above; for"
    yield "functions the 4 ulp that were declared are the bound), and their largest error over bound and rms over noise."
    yield ""
    by_name = collections.defaultdict(list)
    for r in quiet:
        by_name[r.name].append(r)

    def largest(of, field):
        values = [float(getattr(r.declared, field)) for r in of]
        values = [v for v in values if v == v]
        return f"{max(values):.3g}" if values else "-"

    yield from table(
        ["arithmetic", "runs", "of", "above the noise", "operators", "largest error / bound", "largest rms / noise"],
        [
            (f"`{n}`", len(of), sum(r.name == n for r in modes), sum(loud(r) for r in of), ", ".join(sorted({r.op for r in of})), largest(of, "over_bound"), largest(of, "rms"))
            for n, of in sorted(by_name.items())
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/bench/bench_detection"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--names", type=int, default=1)
    parser.add_argument("--lines")
    parser.add_argument("--out", default=str(ROOT / "docs/detection.md"))
    a = parser.parse_args()
    lines = run(a.program, a.jobs, a.seeds, a.names)
    if a.lines:
        Path(a.lines).write_text("\n".join(lines) + "\n")
    rows = [Row(line) for line in lines]
    text = "\n".join(line.rstrip() for line in report(rows, f"python3 bench/detection.py --jobs {a.jobs} --seeds {a.seeds} --names {a.names}", a.names))
    if a.out == "-":
        sys.stdout.write(text)
    else:
        Path(a.out).write_text(text)
    alarms = sum(r.corpus == "correct" and (r.declared.verdict in FAIL or r.portable.verdict in FAIL) for r in rows)
    faults = [r for r in rows if r.corpus == "fault" and r.kind != "arithmetic" and r.declared.verdict != "spec-open"]
    missed = sum(r.declared.verdict not in FAIL for r in faults)
    print(f"{sum(r.corpus == 'correct' for r in rows)} correct runs, {alarms} rejected; {len(faults)} faults, {missed} missed", file=sys.stderr)
    return 1 if alarms or missed > 0.01 * len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
