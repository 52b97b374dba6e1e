"""tools/specials: the page is the one that the tables give, and the tables say what they must."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def specials():
    spec = importlib.util.spec_from_file_location("vernier_specials", ROOT / "tools" / "specials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "specials.py"), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_changed_table_is_seen(specials, tmp_path, monkeypatch, capsys):
    for name in ("specials.tsv", "empties.tsv", "specials_followed.tsv"):
        (tmp_path / name).write_text((ROOT / "tests" / "oracle" / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(specials, "TABLES", tmp_path)
    monkeypatch.setattr(specials, "PAGE", tmp_path / "specials.md")
    assert specials.main([]) == 0
    assert specials.main(["--check"]) == 0
    changed = (tmp_path / "specials.tsv").read_text(encoding="utf-8").replace("\tnan", "\tinf").replace("{nan}", "{1}", 1)
    (tmp_path / "specials.tsv").write_text(changed, encoding="utf-8")
    assert specials.main(["--check"]) == 1
    assert "tools/specials" in capsys.readouterr().err


def test_every_row_has_a_source(specials):
    rows = specials.read("specials.tsv", specials.COLUMNS)
    assert len(rows) >= 400
    for row in rows:
        assert re.search(r"ONNX|IEEE 754|C17|contrib|text|element|exact|sqrt|log", row["source"]), row
        assert row["opset"].isdigit() and row["expected"]


def test_open_rows_have_two_readings(specials):
    for row in specials.read("specials.tsv", specials.COLUMNS):
        for entry in row["expected"].split("; "):
            named = specials.readings(entry)
            assert named is None or len({name for name, _ in named}) >= 2, row


def test_followers_name_operators_of_the_table(specials):
    operators = {row["operator"] for row in specials.read("specials.tsv", specials.COLUMNS)}
    rows = specials.read("specials_followed.tsv", specials.FOLLOWED)
    assert rows
    for row in rows:
        assert set(row["operator"].split(", ")) <= operators, row
