"""node_tests.py OUT -- writes every test of the installed onnx package's backend suite into OUT, once.

OUT/cases.txt lists the cases, one KIND/NAME a line; each is a folder in the suite's own form: model.onnx, test_data_set_K/input_J.pb and
output_J.pb. Node tests are Python functions that draw from NumPy's global generator as they are loaded: the seed is 0. Of the large networks
("light") the package has the expected output only; their inputs are the ramp that its own runner feeds them.
OUT/stamp names what the files came from; when it still holds nothing is written.
"""

import hashlib
import os
import pathlib
import shutil
import sys
import warnings

DISK_KINDS = ("simple", "pytorch-converted", "pytorch-operator")


def stamp_of():
    from importlib.metadata import version

    own = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    packages = " ".join(f"{name}-{version(name)}" for name in ("onnx", "numpy", "ml_dtypes"))
    return f"{packages} {own}\n"


def message_of(value, declared):
    """One value as the message that its declared type asks for."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    kind = declared.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, declared.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, declared.name)
    if kind != "tensor_type":
        raise SystemExit(f"node_tests.py: {declared.name} is a {kind}: the reader of the C side has no such message")
    if isinstance(value, TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value), declared.name)


def write_set(folder, infos, values, stem):
    infos = list(infos)
    if len(values) > len(infos):
        raise SystemExit(f"node_tests.py: {folder}: {len(values)} values for {len(infos)} declared {stem}s")
    for j, value in enumerate(values):
        (folder / f"{stem}_{j}.pb").write_bytes(message_of(value, infos[j]).SerializeToString())


def write_case(out, kind, name, model, data_sets):
    folder = out / kind / name
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for k, (inputs, outputs) in enumerate(data_sets):
        data = folder / f"test_data_set_{k}"
        data.mkdir()
        write_set(data, model.graph.input, inputs, "input")
        write_set(data, model.graph.output, outputs, "output")
    return f"{kind}/{name}"


def node_cases(out):
    import numpy as np

    np.random.seed(0)
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows and divisions by zero that the tests mean
        cases = load_model_tests(kind="node")
    return [write_case(out, "node", c.name, c.model, c.data_sets) for c in sorted(cases, key=lambda c: c.name)]


def disk_cases(out, data):
    names = []
    for kind in DISK_KINDS:
        for folder in sorted((data / kind).iterdir()):
            if (folder / "model.onnx").exists():
                shutil.copytree(folder, out / kind / folder.name)
                names.append(f"{kind}/{folder.name}")
    return names


def light_cases(out, data):
    import numpy as np
    import onnx
    from onnx import numpy_helper

    names = []
    for path in sorted((data / "light").glob("light_*.onnx")):
        model = onnx.load(str(path))
        given = {i.name for i in model.graph.initializer}
        folder = out / "light" / f"test_{path.stem}"
        sets = folder / "test_data_set_0"
        sets.mkdir(parents=True)
        shutil.copyfile(path, folder / "model.onnx")
        for j, info in enumerate(i for i in model.graph.input if i.name not in given):
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
            n = int(np.prod(shape))
            ramp = (np.arange(n).reshape(shape) / n).astype(np.float32)
            (sets / f"input_{j}.pb").write_bytes(numpy_helper.from_array(ramp, info.name).SerializeToString())
        for j in range(len(model.graph.output)):
            shutil.copyfile(path.with_name(f"{path.stem}_output_{j}.pb"), sets / f"output_{j}.pb")
        names.append(f"light/test_{path.stem}")
    return names


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: node_tests.py OUT")
    out = pathlib.Path(sys.argv[1])
    try:
        import ml_dtypes  # noqa: F401
        import numpy  # noqa: F401
        import onnx
    except ImportError as why:
        raise SystemExit(f"node_tests.py: {why}; tools/setup installs the project's Python environment") from why
    stamp = stamp_of()
    if (out / "stamp").exists() and (out / "stamp").read_text() == stamp:
        print(f"{len((out / 'cases.txt').read_text().splitlines())} cases are there already")
        return
    if out.exists():
        if not (out / "stamp").exists() and any(out.iterdir()):
            raise SystemExit(f"node_tests.py: {out} is there and was not written by this script: remove it, or name another folder")
        shutil.rmtree(out)
    fresh = out.with_name(out.name + f".new-{os.getpid()}")
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    fresh.mkdir(parents=True)
    # The slowest first: they begin while the many small ones fill the other processors.
    names = light_cases(fresh, data) + disk_cases(fresh, data) + node_cases(fresh)
    (fresh / "cases.txt").write_text("".join(n + "\n" for n in names))
    (fresh / "stamp").write_text(stamp)
    fresh.rename(out)
    print(f"{len(names)} cases written")


if __name__ == "__main__":
    main()
