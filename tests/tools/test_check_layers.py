"""tools/check_layers: the tree itself is clean, and each kind of forbidden include is found where it stands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(root):
    return subprocess.run([sys.executable, str(ROOT / "tools" / "check_layers"), str(root)], capture_output=True, text=True, check=False)


def test_tree_is_clean():
    done = run(ROOT)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def house(tmp_path):
    """A small tree with the real table: every file in it is allowed."""
    files = {
        "include/vernier/base.h": "",
        "include/vernier/tensor.h": '#include "vernier/base.h"\n',
        "include/vernier/judge.h": '#include "vernier/tensor.h"\n',
        "src/tensor/view.h": "",
        "src/tensor/view.c": '#include "view.h"\n#include "tensor/view.h"\n#include <stdio.h>\n#include "onnx-ml.pb-c.h"\n',
        "src/judge/bound.h": "",
        "src/judge/bound.c": '#include "judge/bound.h"\n#include "vernier/judge.h"\n',
        "src/cli/main.c": '#include "vernier/judge.h"\n',
        "workers/null/main.c": '#include "vernier/tensor.h"\n',
        "tests/support/vn_test.h": "",
        "tests/tensor/test_view.c": '#include "support/vn_test.h"\n#include "tensor/view.h"\n',
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "layers.txt", tmp_path / "docs" / "layers.txt")
    assert run(tmp_path).returncode == 0
    return tmp_path


@pytest.mark.parametrize(
    "file, line",
    [
        ("src/tensor/view.c", '#include "vernier/judge.h"'),  # upwards, by the API
        ("src/tensor/view.c", '#include "judge/bound.h"'),  # upwards, by a private header
        ("src/tensor/view.c", "#include <vernier/judge.h>"),  # the brackets do not hide it
        ("src/tensor/view.c", '#  include "../judge/bound.h"'),  # neither does a path
        ("src/cli/main.c", '#include "judge/bound.h"'),  # the command knows the API only
        ("src/judge/bound.c", '#include "onnx-ml.pb-c.h"'),  # generated code belongs to tensor and graph
        ("workers/null/main.c", '#include "vernier/judge.h"'),  # a worker never sees the judge
        ("tests/tensor/test_view.c", '#include "vernier/judge.h"'),  # a test sees what its room sees
        ("include/vernier/tensor.h", '#include "vernier/judge.h"'),
        ("src/tensor/view.c", '#include "no/such.h"'),
    ],
)
def test_planted_include_is_found(house, file, line):
    path = house / file
    text = path.read_text(encoding="utf-8")
    path.write_text(text + line + "\n", encoding="utf-8")
    done = run(house)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{file}:{text.count(chr(10)) + 1}: ")
    assert done.stdout.count("\n") == 1


def test_room_without_a_line_is_found(house):
    (house / "src" / "attic").mkdir()
    (house / "src" / "attic" / "box.c").write_text("", encoding="utf-8")
    done = run(house)
    assert done.returncode == 1
    assert "attic" in done.stdout


def test_unreadable_table(tmp_path):
    assert run(tmp_path).returncode == 2
