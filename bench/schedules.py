"""The table of docs/schedules.md: every back end here x shapes x schedule x coverage.

    python bench/schedules.py [--build BUILD] [-b SPEC ...]            prints the table
    python bench/schedules.py --write docs/schedules.md                replaces it there, between the two marks
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCTS = [(64, 64, 64), (200, 200, 200), (512, 512, 512), (1024, 1024, 1024), (7, 1000, 300), (1, 1024, 512), (33, 129, 65)]
MORE = [("matmul", "8x1x64x64", ["--batch", 8, "--m", 1, "--k", 64, "--n", 64]), ("gemm", "33x129x65 + C", ["--bias", "--m", 33, "--k", 129, "--n", 65]),
        ("matmul", "200x200x200, B constant", ["--constant-b", "--m", 200, "--k", 200, "--n", 200]),
        ("matmul", "64x64x64 f16", ["--dtype", "f16", "--m", 64, "--k", 64, "--n", 64]), ("matmul", "64x64x64 bf16", ["--dtype", "bf16", "--m", 64, "--k", 64, "--n", 64]),
        ("conv", "1x3x12x12, 16 of 3x3", ["--channels", 3, "--filters", 16, "--kernel", "3x3", "--pad", 1, "--image", "12x12", "--constant-b"]),
        ("conv", "1x16x12x12, 16 of 3x3, bias", ["--channels", 16, "--filters", 16, "--kernel", "3x3", "--pad", 1, "--image", "12x12", "--bias", "--constant-b"]),
        ("conv", "1x16x12x12, 16 of 3x3, groups 16, bias", ["--channels", 16, "--filters", 16, "--groups", 16, "--kernel", "3x3", "--pad", 1, "--image", "12x12", "--bias", "--constant-b"]),
        ("conv", "1x64x14x14, 64 of 3x3", ["--channels", 64, "--filters", 64, "--kernel", "3x3", "--pad", 1, "--image", "14x14", "--constant-b"]),
        ("conv", "1x64x12x12, 64 of 1x1", ["--channels", 64, "--filters", 64, "--kernel", "1x1", "--image", "12x12", "--constant-b"]),
        ("sum", "64 x 100", ["--m", 64, "--n", 100]), ("sum", "64 x 1000", ["--m", 64, "--n", 1000]), ("sum", "4096 x 256", ["--m", 4096, "--n", 256]),
        ("mean", "64 x 100", ["--m", 64, "--n", 100]), ("sumsquare", "64 x 1000", ["--m", 64, "--n", 1000]), ("l2", "64 x 100", ["--m", 64, "--n", 100]),
        ("cumsum", "64 x 1000", ["--m", 64, "--n", 1000]), ("averagepool", "16 x 49", ["--m", 16, "--n", 49]),
        ("attention", "4 heads, 16 queries, 64 keys of 32", ["--heads", 4, "--m", 16, "--keys", 64, "--head-size", 32]),
        ("attention", "2 heads, 4 queries, 256 keys of 64", ["--heads", 2, "--m", 4, "--keys", 256, "--head-size", 64]),
        ("attention", "4 heads, 1 query, 512 keys of 64", ["--heads", 4, "--m", 1, "--keys", 512, "--head-size", 64]),
        ("attention", "4 heads of 2, 64 queries, 1000 keys of 64", ["--heads", 4, "--kv-heads", 2, "--m", 64, "--keys", 1000, "--head-size", 64]),
        ("matmulnbits", "64x256x48, 4 bits in 32", ["--m", 64, "--k", 256, "--n", 48]),
        ("matmulnbits", "1x256x48, 4 bits in 32", ["--m", 1, "--k", 256, "--n", 48]),
        ("matmulnbits", "64x256x48, 4 bits in 128, zero points", ["--m", 64, "--k", 256, "--n", 48, "--block", 128, "--zero-points"]),
        ("matmulnbits", "64x256x48, 8 bits in 32", ["--m", 64, "--k", 256, "--n", 48, "--bits", 8]),
        ("matmulnbits", "64x256x48, 4 bits in 32, accuracy_level 4", ["--m", 64, "--k", 256, "--n", 48, "--accuracy", 4]),
        *[(kind, f"64 x {n}", ["--m", 64, "--n", n]) for kind in ("softmax", "logsumexp", "rmsnorm", "layernorm") for n in (64, 100, 256)]]
BACKENDS = ["ort", "openvino,precision=f32", "openvino", "onednn", "onednn,layout=plain", "blas", "blas,env.OPENBLAS_CORETYPE=Haswell",
            "blas,env.OPENBLAS_CORETYPE=Sandybridge", "blas,env.OPENBLAS_CORETYPE=Nehalem", "blas,gemv=never", "mutant"]
ONLY = {"blas": {"matmul", "gemm"}}  # kinds that a back end has at all
BEGIN, END = "<!-- table: bench/schedules.py -->", "<!-- end of table -->"


def reveal(build, spec, kind, options):
    done = subprocess.run([str(build / "vernier"), "reveal", kind, "-b", spec, "--json", "-", *map(str, options)], capture_output=True, text=True)
    if not done.stdout:
        return {"error": done.stderr.strip()}
    return json.loads(done.stdout)["results"][0]


def row(spec, kind, shape, found):
    if found.get("error"):
        return f"| {spec} | {kind} | {shape} | not revealed | - | - | {found['error']} |"
    def tree(c):
        return "`" + c["schedule"].replace("|", "\\|") + "`"
    trees = "; ".join(tree(c) + (f" at {c['where']}" if len(found["classes"]) > 1 else "") if c["schedule"] else f"{c['violation']}"
                      for c in found["classes"][:3])
    if len(found["classes"]) > 3:
        trees += f" and {len(found['classes']) - 3} more"
    coverage = "-" if found["coverage"] is None else f"{found['coverage']:.6f}"
    means = {c["mean"] for c in found["classes"] if c["mean"]}
    trees += "".join(", mean `" + m.replace("|", "\\|") + "`" for m in sorted(means))
    arithmetic = (found["arithmetic"] or "-") + (f"; mean {found['mean_arithmetic']}" if means else "") + (f"; {found['form']}" if found["form"] else "")
    return f"| {spec} | {kind} | {shape} | {trees} | {arithmetic} | {coverage} | {found['reason'] or found['notes'] or ''} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("-b", action="append", dest="backends")
    parser.add_argument("--write", type=pathlib.Path)
    args = parser.parse_args()
    lines = ["| back end | operator | shape | schedule | arithmetic | coverage | reason or notes |", "|---|---|---|---|---|---|---|"]
    for spec in args.backends or BACKENDS:
        for m, k, n in PRODUCTS:
            lines.append(row(spec, "matmul", f"{m}x{k}x{n}", reveal(args.build, spec, "matmul", ["--m", m, "--k", k, "--n", n])))
            print(lines[-1], file=sys.stderr)
        for kind, shape, options in MORE:
            if kind not in ONLY.get(spec.split(",")[0], {kind}):
                continue
            lines.append(row(spec, kind, shape, reveal(args.build, spec, kind, options)))
            print(lines[-1], file=sys.stderr)
    table = "\n".join(lines)
    if not args.write:
        print(table)
        return
    text = args.write.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    args.write.write_text(text[:begin] + "\n" + table + "\n" + text[end:])


if __name__ == "__main__":
    main()
