"""Ratios against other tools and against the machine, measured in one run.

usage: run.py [PART...] [--json FILE]        parts: machine startup gemm metrics judge schedule operators vit
                                    models (all, in this order)

machine   what was measured on: processor, threads, BLAS settings that the environment carries
startup   `vernier --version`, best of 20
gemm      oracle value, bound and variance of a MatMul 1024^3 against the same library's sgemm
metrics   metrics of two f32 arrays, and equality to fingerprint given the oracle's planes (f32, bf16), against copying
judge     judging a passing operator at --effort quick against its oracle evaluation
schedule  rebuilding summation trees from simulated sums, against the published ways on NumPy (schedule_peer.py)
operators one operator of each class against ONNX Runtime's own run and against onnx.reference.ReferenceEvaluator
vit       `vernier check` of vit_s_focus on both back ends against `polygraphy run ... --onnxrt --onnxrt --onnx-outputs mark all` and one pass
          of onnx.reference.ReferenceEvaluator: seconds and peak memory
models    `vernier check` of every model of data/models.tsv: seconds, peak memory, exit status, verdicts

Peak memory is the high-water mark of the process itself; for vernier the sum over all its processes stands beside it (resident pages that
processes share count more than once).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("VERNIER_BUILD", ROOT / "build"))
VERNIER = BUILD / "vernier"
OTHER = ROOT / ".cache" / "bench" / "bin"
MODEL_TIMEOUT = 1800  # seconds


def status_kb(pid, key):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith(key):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def tree(pid):
    """The process and all below it."""
    found = [pid]
    for parent in found:
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children", encoding="utf-8") as file:
                    found += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return found


def measure(command, timeout=None, **more):
    """Runs a command: {seconds, peak_mb, tree_mb, exit, output}; exit None: ended after `timeout`."""
    with tempfile.TemporaryFile() as log:
        start = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)
        peak = whole = 0
        ended = None
        while ended is None and (timeout is None or time.monotonic() - start < timeout):
            peak = max(peak, status_kb(process.pid, "VmHWM:"))
            whole = max(whole, sum(status_kb(pid, "VmRSS:") for pid in tree(process.pid)))
            try:
                ended = process.wait(0.02)
            except subprocess.TimeoutExpired:
                ended = None
        seconds = time.monotonic() - start
        if ended is None:
            process.kill()
            process.wait()
        log.seek(0)
        output = log.read().decode(errors="replace")
    return {"seconds": seconds, "peak_mb": peak / 1024, "tree_mb": whole / 1024, "exit": ended, "output": output}


def models():
    listed = subprocess.run([ROOT / "tools" / "models", "list", "--tsv"], check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in listed.splitlines()]


def fetch(name):
    return subprocess.run([ROOT / "tools" / "models", "get", name], check=True, capture_output=True, text=True).stdout.strip()


def check(path, shapes, report, timeout=None):
    arguments = [VERNIER, "check", path, "-b", "ort", "-b", "openvino", "--seed", "1", "--json", report]
    for shape in shapes.split(" "):
        if shape != "-":
            arguments += ["--shape", shape]
    return measure(arguments, timeout)


def part_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    settings = {key: value for key, value in os.environ.items() if key.startswith(("OPENBLAS_", "OMP_", "MKL_"))}
    print(f"{name}, {len(os.sched_getaffinity(0))} processors")
    for key, value in sorted(settings.items()):
        print(f"{key}={value} is in the environment and decides which BLAS kernels run")
    return {"processor": name, "processors": len(os.sched_getaffinity(0)), "environment": settings}


def part_startup():
    times = []
    for _ in range(20):
        start = time.perf_counter()
        subprocess.run([VERNIER, "--version"], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    print(f"vernier --version: {1e3 * min(times):.1f} ms")
    return {"milliseconds": 1e3 * min(times)}


def part_program(name):
    done = subprocess.run([BUILD / "bench" / name], check=True, capture_output=True, text=True)
    print(done.stdout, end="")
    return {"output": done.stdout.splitlines()}


def part_schedule():
    ours = subprocess.run([BUILD / "bench" / "bench_schedule"], check=True, capture_output=True, text=True).stdout
    print(ours, end="")
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    peer = subprocess.run([OTHER / "python", ROOT / "bench" / "schedule_peer.py"], check=True, capture_output=True, text=True, env=alone).stdout
    print(peer, end="")
    pattern = r"^NumPy's sum +(\d+) terms.* host +([0-9.]+) ms +sums +([0-9.]+) ms"
    mine = {int(n): (float(host), float(sums)) for n, host, sums in re.findall(pattern, ours, re.MULTILINE)}
    pattern = r"^peer (\w+) +sum +(\d+) terms .* calls +([0-9.]+) ms, +([0-9.]+) ms"
    for way, n, spent, inside in re.findall(pattern, peer, re.MULTILINE):
        if int(n) in mine:
            host, sums = mine[int(n)]
            work = (float(spent) - float(inside)) / host
            print(f"sum of {n} terms, {way}: {work:.0f} x our host time, {float(spent) / (host + sums):.2f} x our time with the sums")
    return {"output": ours.splitlines() + peer.splitlines()}


def part_operators():
    command = [OTHER / "python", ROOT / "bench" / "operators.py", BUILD / "bench" / "bench_operator"]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        sys.exit(f"operators.py ended with {process.returncode}")
    return {"output": lines}


def part_vit():
    name, _, _, shapes = next(row for row in models() if row[0] == "vit-s-focus")
    path = fetch(name)
    feed = "input_image:[1,3,224,224]"
    reference = (
        "import sys, numpy, onnx, onnx.reference\n"
        "evaluator = onnx.reference.ReferenceEvaluator(onnx.load(sys.argv[1]))\n"
        "image = numpy.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(numpy.float32)\n"
        "evaluator.run(None, {'input_image': image})\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "vernier check (ort, openvino)": check(path, shapes, Path(folder) / "report.json"),
            "polygraphy run (ort, ort)": measure(
                [OTHER / "polygraphy", "run", path, "--onnxrt", "--onnxrt", "--onnx-outputs", "mark", "all", "--input-shapes", feed]
            ),
            "ReferenceEvaluator, one pass": measure([OTHER / "python", "-c", reference, path]),
        }
    base = runs["vernier check (ort, openvino)"]
    if base["exit"] not in (0, 1, 3):
        sys.exit(f"vernier check ended with {base['exit']}:\n{base['output'][-2000:]}")
    for label, run in runs.items():
        beside = f" ({run['tree_mb']:.0f} MB with workers)" if run is base else f"   {run['seconds'] / base['seconds']:.2f} x the time of vernier"
        print(f"{label:<32} {run['seconds']:7.1f} s  peak {run['peak_mb']:6.0f} MB{beside}  exit {run['exit']}")
    return {label: {key: value for key, value in run.items() if key != "output"} for label, run in runs.items()}


def part_models():
    results = {}
    print(f"{'model':<24} {'s':>7} {'host MB':>8} {'all MB':>7}  exit  verdicts")
    for name, _, _, shapes in models():
        path = fetch(name)
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            run = check(path, shapes, report, MODEL_TIMEOUT)
            verdicts = json.loads(report.read_text(encoding="utf-8"))["summary"]["verdicts"] if report.exists() else {}
        if run["exit"] is None:
            text = f"no answer in {MODEL_TIMEOUT} s"
        else:
            text = ", ".join(f"{key} {value}" for key, value in verdicts.items() if value) or run["output"].strip().splitlines()[-1][:100]
        print(f"{name:<24} {run['seconds']:7.1f} {run['peak_mb']:8.0f} {run['tree_mb']:7.0f}  {run['exit']!s:>4}  {text}", flush=True)
        results[name] = {key: value for key, value in run.items() if key != "output"} | {"verdicts": verdicts}
    return results


PARTS = {
    "machine": part_machine,
    "startup": part_startup,
    "gemm": lambda: part_program("bench_gemm"),
    "metrics": lambda: part_program("bench_metrics"),
    "judge": lambda: part_program("bench_judge"),
    "schedule": part_schedule,
    "operators": part_operators,
    "vit": part_vit,
    "models": part_models,
}


def main(arguments):
    target = None
    if "--json" in arguments:
        at = arguments.index("--json")
        if at + 1 == len(arguments):
            sys.exit(__doc__)
        target = arguments[at + 1]
        arguments = arguments[:at] + arguments[at + 2 :]
    if any(part not in PARTS for part in arguments):
        sys.exit(__doc__)
    results = {}
    for part in arguments or PARTS:
        print(f"-- {part}", flush=True)
        results[part] = PARTS[part]()
    if target:
        Path(target).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
