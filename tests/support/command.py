"""How Python tests run the command: one place for the path, the report and the schema check."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VERNIER_BUILD", ROOT / "build"))
VERNIER = BUILD / "vernier"


def run(*args, timeout=300, **kwargs):
    """Runs the command; returns the finished process with text output."""
    return subprocess.run([str(VERNIER), *map(str, args)], capture_output=True, text=True, timeout=timeout, **kwargs)


def report(*args, timeout=300):
    """Runs the command with --json -, checks the report against the schema, returns (exit status, report)."""
    import jsonschema

    done = run(*args, "--json", "-", timeout=timeout)
    assert done.stdout, f"exit {done.returncode}: {done.stderr}"
    parsed = json.loads(done.stdout)
    jsonschema.validate(parsed, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    assert parsed["summary"]["exit"] == done.returncode
    return done.returncode, parsed
