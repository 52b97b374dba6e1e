"""Writes docs/specials.md from tests/oracle/specials.tsv, empties.tsv and specials_followed.tsv. Standard library only."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "tests" / "oracle"
PAGE = ROOT / "docs" / "specials.md"
COLUMNS = ("class", "operator", "opset", "attributes", "inputs", "expected", "source")
FOLLOWED = ("operator", "subject", "onnxruntime", "openvino")

TITLES = {
    "functions": "Functions of one argument",
    "classes": "IsNaN, IsInf and logic",
    "arithmetic": "Arithmetic on two operands",
    "integers": "Integers: overflow, zero divisors, shifts",
    "comparisons": "Comparisons and Where",
    "selection": "Max, Min, Clip, Sum, Mean",
    "casts": "Casts",
    "quantise": "Quantisation",
    "reductions": "Reductions",
    "softmax": "Softmax and Hardmax",
    "norms": "Norms",
    "pooling": "Pooling",
    "scans": "Running sums and products",
    "indices": "Indices: ArgMax, TopK, Unique, Gather, Scatter",
    "generators": "Range, shapes, windows",
    "movement": "Movement",
    "resampling": "Resize and GridSample",
    "products": "Products",
    "attention": "Attention",
    "recurrent": "Recurrent layers",
    "others": "Others",
    "empty": "Empty tensors and zero-size dimensions",
    "none": "Operators without a case of an empty tensor",
}

HEAD = """# Special values

Written by `tools/specials` from `tests/oracle/specials.tsv`, `empties.tsv` and `specials_followed.tsv`; do not edit. The tests
`oracle/specials` and `oracle/empty` evaluate every row.

The expected values come from the operators' texts, IEEE 754-2019 and C17 Annex F, never from a program's output. Where the text leaves a
choice, the row is open: the oracle's own value comes first, every other reading is accepted as a whole and gives the verdict `spec-open`.

In the tables: `nan` any NaN; `~0` a zero of either sign; `a/b` either value; `*` no value is given, anything passes; behind `?` what is
explainable besides: `i` an infinity (overflow), `n` a NaN (the formula carried out at an infinity), `z` a zero.
"""


def read(name, columns):
    rows = []
    for number, line in enumerate((TABLES / name).read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise SystemExit(f"{name}:{number}: {len(cells)} columns, expected {len(columns)}")
        rows.append(dict(zip(columns, cells)))
    return rows


def readings(entry):
    """[(name, value)] of an open entry, the oracle's own first; None where the entry is not open."""
    if not entry.startswith("open: "):
        return None
    return [tuple(part.split(" = ", 1)) for part in entry[len("open: ") :].split(" | ")]


def open_texts(rows):
    """{(operator, names of the readings, reason): first row} in order of the table."""
    found = {}
    for row in rows:
        for entry in row["expected"].split("; "):
            named = readings(entry)
            if named:
                found.setdefault((row["operator"], tuple(name for name, _ in named), row["source"]), row)
    return found


def cell(text):
    return text.replace("|", "\\|")


def expected(text):
    """Open entries one reading a line, the others as they stand."""
    parts = []
    for entry in text.split("; "):
        named = readings(entry)
        parts.append("<br>".join(f"{cell(name)}: `{cell(value)}`" for name, value in named) if named else f"`{cell(entry)}`")
    return " ; ".join(parts)


def table(rows):
    lines = ["| operator | opset | attributes | inputs | expected | decided by |", "|---|---|---|---|---|---|"]
    for row in rows:
        attributes = "" if row["attributes"] == "-" else f"`{cell(row['attributes'])}`"
        inputs = "" if row["inputs"] == "-" else f"`{cell(row['inputs'])}`"
        lines.append(
            f"| {row['operator']} | {row['opset']} | {attributes} | {inputs} | {expected(row['expected'])} | {cell(row['source'])} |"
        )
    return lines


def page():
    rows = read("specials.tsv", COLUMNS) + read("empties.tsv", COLUMNS)
    unknown = sorted({row["class"] for row in rows} - set(TITLES))
    if unknown:
        raise SystemExit(f"tools/specials.py has no title for the class {unknown[0]}")
    cases = [row for row in rows if row["class"] != "none"]
    lines = [HEAD, f"{len(cases)} rows, {len({row['operator'] for row in cases})} operators.", "", "## Open texts", ""]
    lines += ["| operator | readings, the oracle's first | why it is open |", "|---|---|---|"]
    for (operator, names, source) in open_texts(cases):
        lines.append(f"| {operator} | {cell(' / '.join(names))} | {cell(source)} |")
    lines += ["", "## Who follows which reading", "", "Observed on one machine, onnxruntime 1.32 and openvino 2026.4, CPU, f32."]
    lines += ["", "| operator | case | onnxruntime | openvino |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(cell(row[name]) for name in FOLLOWED)} |" for row in read("specials_followed.tsv", FOLLOWED)]
    for name, title in TITLES.items():
        chosen = [row for row in rows if row["class"] == name]
        if not chosen:
            continue
        lines += ["", f"## {title}", ""]
        if name == "none":
            lines += ["| operator | reason |", "|---|---|"] + [f"| {row['operator']} | {cell(row['source'])} |" for row in chosen]
        else:
            lines += table(chosen)
    return "\n".join(lines) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print("usage: tools/specials [--check]", file=sys.stderr)
        return 2
    text = page()
    if not arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/specials.md is not what the tables give: tools/specials", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
