"""`cmake --install` into a new folder: a small program compiles against it by pkg-config and runs, and the installed command starts."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERNIER_BUILD", ROOT / "build"))


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def pkg_config(prefix):
    found = list(prefix.rglob("vernier.pc"))
    assert len(found) == 1
    environment = {**os.environ, "PKG_CONFIG_PATH": str(found[0].parent)}

    def ask(*words):
        return run("pkg-config", *words, "vernier", env=environment).split()

    return ask


def test_program_compiles_and_runs(prefix, pkg_config, tmp_path):
    program = tmp_path / "consumer"
    flags = pkg_config("--static", "--cflags", "--libs")
    assert f"-I{prefix}/include" in flags
    run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", ROOT / "tests" / "install" / "consumer.c", "-o", program, *flags)
    assert run(program).startswith(f"vernier {pkg_config('--modversion')[0]}: bf16[2,3], 1, ")


def test_header_is_complete_alone(prefix, pkg_config, tmp_path):
    """Each header compiles as the first and only one."""
    for header in sorted((prefix / "include" / "vernier").glob("*.h")):
        source = tmp_path / "alone.c"
        source.write_text(f"#include <vernier/{header.name}>\n", encoding="utf-8")
        run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *pkg_config("--cflags"), source)


def test_installed_command(prefix):
    assert run(prefix / "bin" / "vernier", "--version").startswith("vernier ")
    assert "rapidocr-rec" in run(prefix / "bin" / "vernier", "models", "list", env={**os.environ, "VERNIER_MODELS": str(prefix / "none")})
    workers = {path.name for path in (prefix / "libexec" / "vernier" / "workers").iterdir()}
    assert {"vernier-worker-null", "vernier-worker-mutant", "vernier-worker-openvino", "python"} <= workers
