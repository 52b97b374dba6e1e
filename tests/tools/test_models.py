"""tools/models.py: the tables fit together, and nothing that is not the listed file is ever put in place. No network."""

import hashlib
import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def models():
    spec = importlib.util.spec_from_file_location("vernier_models", ROOT / "tools" / "models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables(models):
    rows = models.read_table("models.tsv")
    packages = {row["package"]: row for row in models.read_table("model_packages.tsv")}
    assert len({row["name"] for row in rows}) == len(rows) > 20
    for row in rows:
        assert re.fullmatch(r"[0-9a-f]{64}", row["sha256"])
        assert row["tier"] == ("bench" if int(row["bytes"]) > 15_000_000 else row["tier"])
        assert row["shapes"] == "-" or all(re.fullmatch(r"[^=]+=\d+(x\d+)*", item) for item in row["shapes"].split(" "))
        for package, member in models.parts(row):
            assert packages[package]["licence"] == row["licence"]
            assert not member.startswith("/") and ".." not in member
    assert [row["name"] for row in rows if row["tier"] == "demo"] == ["rapidocr-rec"]


@pytest.fixture
def small(models, tmp_path, monkeypatch):
    """One model in two packages, whose wheels lie ready; pip is not called."""
    parts = [b"front half, " * 1000, b"back half"]
    packages = []
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for k, part in enumerate(parts):
        wheel = wheels / f"part{k}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"part{k}/part.bin", part)
        packages.append({"package": f"part{k}", "version": "1.0", "wheel": wheel.name, "sha256": models.sha256(wheel)})
    whole = b"".join(parts)
    row = {"name": "small", "tier": "test", "file": "small.onnx", "bytes": str(len(whole)), "sha256": hashlib.sha256(whole).hexdigest(),
           "source": "part0:part0/part.bin+part1:part1/part.bin", "shapes": "-", "licence": "MIT", "what": "two halves"}
    monkeypatch.setenv("VERNIER_MODELS", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "read_table", lambda name: packages if name == "model_packages.tsv" else [row])
    calls = []

    def pip(command, **_):
        calls.append(command)
        name = command[-1].split("==")[0]
        target = Path(command[command.index("-d") + 1])
        (target / f"{name}-1.0-py3-none-any.whl").write_bytes((wheels / f"{name}-1.0-py3-none-any.whl").read_bytes())
        return type("Done", (), {"returncode": 0, "stdout": ""})

    monkeypatch.setattr(models.subprocess, "run", pip)
    return type("Small", (), {"row": row, "packages": packages, "whole": whole, "calls": calls, "cache": tmp_path / "cache"})


def test_joins_checks_and_fetches_once(models, small, capsys):
    assert models.main(["get", "small"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == small.cache / "small" / "small.onnx"
    assert path.read_bytes() == small.whole
    assert models.main(["get", "small"]) == 0
    assert len(small.calls) == 2  # one a package, none the second time
    assert [item.name for item in small.cache.iterdir()] == ["small"]


def test_damaged_file_is_fetched_again(models, small, capsys):
    assert models.main(["get", "small"]) == 0
    path = small.cache / "small" / "small.onnx"
    path.write_bytes(b"x" * len(small.whole))
    assert models.main(["get", "small"]) == 0
    assert path.read_bytes() == small.whole
    capsys.readouterr()


@pytest.mark.parametrize("which", ["wheel", "model"])
def test_wrong_hash_leaves_nothing(models, small, capsys, which):
    (small.packages[0] if which == "wheel" else small.row)["sha256"] = "0" * 64
    assert models.main(["get", "small"]) == 2
    assert "SHA-256" in capsys.readouterr().err
    assert [item for item in small.cache.rglob("*") if item.is_file()] == []


def test_usage(models, capsys):
    for arguments in ([], ["get"], ["get", "no-such-model"], ["get", "--tier", "huge"], ["list", "--all"]):
        assert models.main(arguments) == 2
        assert capsys.readouterr().err.startswith("vernier: models: ")


def test_pip_failure_is_one_line(models, small, monkeypatch, capsys):
    failed = type("Done", (), {"returncode": 1, "stdout": "noise\nERROR: no such version"})
    monkeypatch.setattr(models.subprocess, "run", lambda *a, **k: failed)
    assert models.main(["get", "small"]) == 2
    text = capsys.readouterr().err.splitlines()[-1]
    assert "pip download failed: ERROR: no such version" in text


