"""`vernier backends --operators oracle` against the schemas of the pinned onnx package: an operator without a row fails."""
import pathlib
import re
import sys

import pytest
from onnx import defs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.command import run  # noqa: E402

FIRST_OPSET = 7  # of ai.onnx: older versions are there where the suite's own models need them
# Whole domains, by the name in the table. ai.onnx.ml and the previews: every version.
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
LINE = re.compile(r"(?:(?P<domain>[a-z.]+)\.)?(?P<name>\w+) +(?P<since>\d+)-(?P<until>\d*) +(?P<cls>[a-z]+) +(?P<claim>[A-Z0-9][A-Z0-9-]*)")
CLASSES = {"movement", "exact", "rounded", "elementary", "contraction", "reduction", "normalisation", "softmax", "scan", "quantise",
           "composite", "random", "control"}


@pytest.fixture(scope="module")
def table():
    done = run("backends", "--operators", "oracle")
    assert done.returncode == 0, done.stderr
    rows = {}
    for line in done.stdout.splitlines():
        m = LINE.fullmatch(line)
        assert m, f"not NAME VERSIONS CLASS CLAIM: {line!r}"
        assert m["cls"] in CLASSES, line
        rows.setdefault((m["domain"] or "", m["name"]), []).append((int(m["since"]), int(m["until"] or 10**9), m["claim"]))
    return rows


def reachable():
    """(domain, name, since_version) of every schema that a model of the covered opsets can mean, without what was deprecated by then."""
    versions = {}
    for s in defs.get_all_schemas_with_history():
        versions.setdefault((s.domain, s.name), {})[s.since_version] = s
    for (domain, name), by_version in sorted(versions.items()):
        if domain not in DOMAINS:
            continue
        ordered = sorted(by_version)
        for since, following in zip(ordered, ordered[1:] + [10**9]):
            if domain == "" and following <= FIRST_OPSET:
                continue  # replaced before
            if not by_version[since].deprecated:
                # An opset-7 model means the newest version up to 7.
                yield domain, name, max(since, FIRST_OPSET) if domain == "" else since


def test_every_schema_has_a_row(table):
    wanted = list(reachable())
    assert len(wanted) > 500, "the package has lost its schemas"
    missing = [f"{domain or 'ai.onnx'}.{name}-{version}" for domain, name, version in wanted
               if not any(since <= version <= until for since, until, _ in table.get((domain, name), []))]
    assert not missing, f"{len(missing)} of {len(wanted)} schemas have no row: {', '.join(missing)}"


def test_no_other_domain_appears_unseen():
    known = set(DOMAINS)
    assert {s.domain for s in defs.get_all_schemas_with_history()} <= known, "a new domain: decide whether the oracle covers it"


def test_rows_of_one_operator_do_not_overlap(table):
    for key, rows in table.items():
        rows = sorted(rows)
        for (_, until, _), (since, _, _) in zip(rows, rows[1:]):
            assert until < since, f"{key}: {rows}"


def test_every_claim_is_written_down(table):
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    text = "\n".join(p.read_text() for p in sorted(docs.glob("claims*.md")))
    named = {claim for rows in table.values() for _, _, claim in rows}
    missing = sorted(c for c in named if not re.search(rf"\b{re.escape(c)}(?![\w-])", text))
    assert not missing, f"claims that no page of docs/claims*.md holds: {', '.join(missing)}"
