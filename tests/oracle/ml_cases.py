"""One-node models of ai.onnx.ml with random attributes and data: `cases(full)` yields Case objects, by operator and seed.

A case whose back end is known to leave the text stands here with `differs`, the reason of docs/claims-ml.md: its result must then be outside.
"""
import dataclasses
import itertools

import numpy as np
from onnx import TensorProto as T
from onnx import helper

TYPES = {np.dtype("float32"): T.FLOAT, np.dtype("float64"): T.DOUBLE, np.dtype("int64"): T.INT64, np.dtype("int32"): T.INT32,
         np.dtype("float16"): T.FLOAT16}
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
CLASS_OUT = {"Y": T.INT64, "Z": T.FLOAT}
TEXT_OUT = {"Y": T.STRING, "Z": T.FLOAT}


@dataclasses.dataclass
class Case:
    name: str
    op: str
    attrs: dict
    feeds: dict
    outputs: dict  # name -> element type; a string: the declared type of a sequence of maps
    version: int = 1
    differs: dict = dataclasses.field(default_factory=dict)  # output -> reason

    def model(self):
        node = helper.make_node(self.op, list(self.feeds), list(self.outputs), name="n", domain="ai.onnx.ml", **self.attrs)
        inputs = [helper.make_value_info(k, type_of(v)) for k, v in self.feeds.items()]
        outputs = [helper.make_value_info(k, output_type(t)) for k, t in self.outputs.items()]
        graph = helper.make_graph([node], "g", inputs, outputs)
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", self.version)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def type_of(value):
    if isinstance(value, dict):
        key, element = next(iter(value.items()))
        element_type = T.STRING if isinstance(element, str) else T.INT64 if isinstance(element, int) else T.FLOAT
        return helper.make_map_type_proto(T.STRING if isinstance(key, str) else T.INT64, helper.make_tensor_type_proto(element_type, []))
    return helper.make_tensor_type_proto(TYPES.get(value.dtype, T.STRING), value.shape)


def output_type(t):
    if t in ("maps of int64", "maps of string"):
        key = T.INT64 if t == "maps of int64" else T.STRING
        return helper.make_sequence_type_proto(helper.make_map_type_proto(key, helper.make_tensor_type_proto(T.FLOAT, [])))
    return helper.make_tensor_type_proto(t, None)


def floats(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def listed(a):
    return [float(x) for x in np.asarray(a, np.float32).ravel()]


def unit(rng, n, f):
    """Rows and weights whose product is a probability."""
    return rng.uniform(0.05, 1, (n, f)).astype(np.float32)


def linear(rng, seed):
    n, f, c = int(rng.integers(1, 9)), int(rng.integers(1, 40)), int(rng.integers(2, 6))
    for post in POSTS:
        x = floats(rng, n, f) if post != "PROBIT" else unit(rng, n, f)
        w = floats(rng, c, f) if post != "PROBIT" else (unit(rng, c, f) / f)
        b = floats(rng, c, scale=0.1) if post != "PROBIT" else floats(rng, c, scale=0.001)
        attrs = dict(coefficients=listed(w), intercepts=listed(b), post_transform=post)
        yield Case(f"linear-classifier-{post}-{seed}", "LinearClassifier", dict(attrs, classlabels_ints=list(range(10, 10 + c))), {"X": x},
                   CLASS_OUT)
        yield Case(f"linear-classifier-text-{post}-{seed}", "LinearClassifier",
                   dict(attrs, classlabels_strings=[f"k{i}" for i in range(c)]), {"X": x}, TEXT_OUT)
        yield Case(f"linear-regressor-{post}-{seed}", "LinearRegressor", dict(attrs, targets=c), {"X": x}, {"Y": T.FLOAT})
        one = dict(coefficients=listed(w[0]), intercepts=listed(b[:1]), post_transform=post, classlabels_ints=[0, 1])
        if post != "PROBIT":  # ML-D1: half of that output is not written
            yield Case(f"linear-two-labels-{post}-{seed}", "LinearClassifier", one, {"X": x}, CLASS_OUT)
        single = dict(coefficients=listed(w[0]), intercepts=listed(b[:1]), post_transform=post)
        ignored = post in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
        yield Case(f"linear-regressor-one-{post}-{seed}", "LinearRegressor", single, {"X": x}, {"Y": T.FLOAT},
                   differs={"Y": "ML-D2"} if ignored else {})
    for kind in (np.float64, np.int64, np.int32):
        x = (floats(rng, n, f, scale=30)).astype(kind)
        attrs = dict(coefficients=listed(floats(rng, c, f)), intercepts=listed(floats(rng, c)), classlabels_ints=list(range(c)))
        yield Case(f"linear-classifier-{np.dtype(kind)}-{seed}", "LinearClassifier", attrs, {"X": x}, CLASS_OUT)


def scale(rng, seed):
    n, f = int(rng.integers(1, 7)), int(rng.integers(1, 50))
    for kind, wide in itertools.product((np.float32, np.float64, np.int64, np.int32), (False, True)):
        x = np.clip(rng.standard_normal((n, f)) * (1e9 if wide else 10), -2e9, 2e9).astype(kind)
        size = f if seed % 2 else 1
        yield Case(f"scaler-{np.dtype(kind)}-{wide}-{seed}", "Scaler", dict(offset=listed(floats(rng, size, scale=5)), scale=listed(floats(rng, size))),
                   {"X": x}, {"Y": T.FLOAT})
        for norm in ("MAX", "L1", "L2"):
            overflows = kind is np.int32 and wide and norm == "L2"
            y = (x // 2**17).astype(kind) if kind is np.int32 and wide and not overflows else x
            yield Case(f"normalizer-{norm}-{np.dtype(kind)}-{wide}-{seed}", "Normalizer", dict(norm=norm), {"X": y}, {"Y": T.FLOAT},
                       differs={"Y": "ML-D5"} if overflows else {})
            yield Case(f"normalizer-{norm}-positive-{np.dtype(kind)}-{wide}-{seed}", "Normalizer", dict(norm=norm), {"X": np.abs(y)},
                       {"Y": T.FLOAT}, differs={"Y": "ML-D5"} if overflows else {})
    yield Case(f"normalizer-vector-{seed}", "Normalizer", dict(norm="L2"), {"X": floats(rng, f)}, {"Y": T.FLOAT})
    yield Case(f"normalizer-zeros-{seed}", "Normalizer", dict(norm="L1"), {"X": np.zeros((2, 3), np.float32)}, {"Y": T.FLOAT})


def text(*values):
    return np.array(values, object)


def features(rng, seed):
    n, f = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    for kind in (np.float32, np.float64, np.int64, np.int32):
        x = (rng.standard_normal((n, f)) * 100).astype(kind)
        index = rng.integers(0, f, int(rng.integers(1, 7)))
        yield Case(f"extract-{np.dtype(kind)}-{seed}", "ArrayFeatureExtractor", {}, {"X": x, "I": index}, {"Y": TYPES[x.dtype]})
        cut = int(rng.integers(1, f + 3))
        parts = dict(inputdimensions=[f, cut])
        other = np.clip(rng.standard_normal((n, f)) * 1e9, -2e9, 2e9).astype(kind)
        yield Case(f"vectorize-{np.dtype(kind)}-{seed}", "FeatureVectorizer", parts, {"X": x, "B": other}, {"Y": T.FLOAT})
        if kind is not np.int32:  # the back end has no kernel for it
            yield Case(f"one-hot-{np.dtype(kind)}-{seed}", "OneHotEncoder", dict(cats_int64s=[1, 2, -1, 5, 2]),
                       {"X": (rng.standard_normal((n, f)) * 3).astype(kind)}, {"Y": T.FLOAT})
    vector = floats(rng, f)
    yield Case(f"extract-vector-{seed}", "ArrayFeatureExtractor", {}, {"X": vector, "I": np.array([[0, f - 1]])}, {"Y": T.FLOAT})
    words = text(*(f"w{i}" for i in range(f)))
    yield Case(f"extract-text-{seed}", "ArrayFeatureExtractor", {}, {"X": words, "I": np.array([f - 1, 0])}, {"Y": T.STRING})
    yield Case(f"binarizer-{seed}", "Binarizer", dict(threshold=0.25), {"X": floats(rng, n, f)}, {"Y": T.FLOAT})
    holes = floats(rng, n, f)
    holes[rng.random((n, f)) < 0.4] = np.nan
    yield Case(f"imputer-nan-{seed}", "Imputer", dict(imputed_value_floats=listed(floats(rng, f)), replaced_value_float=float("nan")), {"X": holes},
               {"Y": T.FLOAT})
    numbers = rng.integers(-2, 3, (n, f))
    yield Case(f"imputer-int-{seed}", "Imputer", dict(imputed_value_int64s=[2**40], replaced_value_int64=1), {"X": numbers}, {"Y": T.INT64})
    yield Case(f"one-hot-text-{seed}", "OneHotEncoder", dict(cats_strings=["a", "", "c"]), {"X": text("c", "q", "")}, {"Y": T.FLOAT})


def labels(rng, seed):
    n = int(rng.integers(1, 12))
    numbers = rng.integers(-1, 6, (n, 2))
    words = np.array([f"w{i}" for i in numbers.ravel()], object).reshape(n, 2)
    pool = [f"w{i}" for i in range(5)]
    yield Case(f"category-text-{seed}", "CategoryMapper", dict(cats_strings=pool, cats_int64s=[7, -3, 0, 2**40, 5], default_int64=-9), {"X": words},
               {"Y": T.INT64})
    yield Case(f"category-int-{seed}", "CategoryMapper", dict(cats_strings=["é", "", "w2", "w3", "w1"], cats_int64s=[0, 1, 2, 3, 1]),
               {"X": numbers}, {"Y": T.STRING})
    yield Case(f"label1-text-{seed}", "LabelEncoder", dict(classes_strings=["w1", "w0", "w1"], default_int64=4), {"X": words}, {"Y": T.INT64})
    yield Case(f"label1-int-{seed}", "LabelEncoder", dict(classes_strings=pool, default_string="?"), {"X": numbers}, {"Y": T.STRING})
    sources = {"int64s": (numbers, [0, 1, 2, 3]), "strings": (words, pool[:4]), "floats": (numbers.astype(np.float32), [0.0, 1.0, 2.0, 3.5])}
    results = {"int64s": ([5, 6, 7, 8], T.INT64), "strings": (["a", "b", "", "d"], T.STRING), "floats": ([0.1, 0.2, 0.3, 0.4], T.FLOAT)}
    for version, (s, (x, keys)), (r, (values, out)) in itertools.product((2, 4), sources.items(), results.items()):
        yield Case(f"label{version}-{s}-{r}-{seed}", "LabelEncoder", {f"keys_{s}": keys, f"values_{r}": values}, {"X": x}, {"Y": out}, version)
    repeated = {"keys_int64s": [1, 2, 1], "values_int64s": [10, 20, 30]}
    x = np.array([1, 2, 3])
    yield Case(f"label2-repeated-{seed}", "LabelEncoder", repeated, {"X": x}, {"Y": T.INT64}, 2)
    yield Case(f"label4-repeated-{seed}", "LabelEncoder", repeated, {"X": x}, {"Y": T.INT64}, 4, differs={"Y": "ML-D3"})
    nan = {"keys_floats": [0.0, float("nan")], "values_int64s": [1, 2]}
    x = np.array([0.0, np.nan, 1.0], np.float32)
    yield Case(f"label2-nan-{seed}", "LabelEncoder", nan, {"X": x}, {"Y": T.INT64}, 2, differs={"Y": "ML-D4"})
    yield Case(f"label4-nan-{seed}", "LabelEncoder", nan, {"X": x}, {"Y": T.INT64}, 4)
    tensors = {"keys_tensor": helper.make_tensor("k", T.STRING, [3], [b"w0", b"w1", b"w4"]), "values_tensor": helper.make_tensor("v", T.INT16, [3], [4, 5, 6]),
               "default_tensor": helper.make_tensor("d", T.INT16, [1], [-7])}
    yield Case(f"label4-tensor-{seed}", "LabelEncoder", tensors, {"X": words}, {"Y": T.INT16}, 4)


def maps(rng, seed):
    keys = [int(k) for k in rng.choice(50, 4, replace=False)]
    numbers = {k: float(np.float32(rng.standard_normal() * 5)) for k in keys}
    for to, out in (("TO_FLOAT", T.FLOAT), ("TO_INT64", T.INT64)):
        for form in (dict(map_form="DENSE"), dict(map_form="SPARSE", max_map=50)):
            yield Case(f"cast-{to}-{form['map_form']}-{seed}", "CastMap", dict(cast_to=to, **form), {"X": numbers}, {"Y": out})
    yield Case(f"dict-int-{seed}", "DictVectorizer", dict(int64_vocabulary=keys + [99]), {"X": numbers}, {"Y": T.FLOAT})
    yield Case(f"dict-text-{seed}", "DictVectorizer", dict(string_vocabulary=["q", "b", "a"]), {"X": {"a": 1.5, "b": -2.0}}, {"Y": T.FLOAT})
    n, c = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    yield Case(f"zip-int-{seed}", "ZipMap", dict(classlabels_int64s=list(range(3, 3 + c))), {"X": floats(rng, n, c)}, {"Z": "maps of int64"})
    yield Case(f"zip-text-{seed}", "ZipMap", dict(classlabels_strings=[f"k{i}" for i in range(c)]), {"X": floats(rng, n, c)},
               {"Z": "maps of string"})


def svm(rng, seed):
    n, f = int(rng.integers(1, 8)), int(rng.integers(1, 12))
    x = floats(rng, n, f)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        params = [float(np.float32(rng.uniform(0.05, 0.6))), float(np.float32(rng.uniform(-1, 1))), float(rng.integers(1, 5))]
        supports = int(rng.integers(1, 15))
        attrs = dict(kernel_type=kernel, kernel_params=params, coefficients=listed(floats(rng, supports)), rho=listed(floats(rng, 1)),
                     support_vectors=listed(floats(rng, supports, f)), n_supports=supports)
        yield Case(f"svm-regressor-{kernel}-{seed}", "SVMRegressor", attrs, {"X": x}, {"Y": T.FLOAT})
        yield Case(f"svm-one-class-{kernel}-{seed}", "SVMRegressor", dict(attrs, one_class=1), {"X": x}, {"Y": T.FLOAT})
        for classes, post, proba in ((2, "NONE", False), (2, "LOGISTIC", False), (2, "SOFTMAX", False), (3, "NONE", False), (4, "SOFTMAX", False),
                                     (3, "LOGISTIC", False), (2, "NONE", True), (3, "NONE", True), (4, "LOGISTIC", True), (3, "SOFTMAX_ZERO", True),
                                     (3, "PROBIT", True)):
            per_class = [int(v) for v in rng.integers(1, 5, classes)]
            total, pairs = sum(per_class), classes * (classes - 1) // 2
            attrs = dict(kernel_type=kernel, kernel_params=params, vectors_per_class=per_class, rho=listed(floats(rng, pairs)),
                         coefficients=listed(floats(rng, classes - 1, total)), support_vectors=listed(floats(rng, total, f)), post_transform=post)
            if proba:
                attrs.update(prob_a=listed(-rng.uniform(0.3, 2, pairs)), prob_b=listed(floats(rng, pairs, scale=0.3)))
            name = f"svm-classifier-{kernel}-{classes}-{post}-{'p' if proba else 's'}-{seed}"
            yield Case(name, "SVMClassifier", dict(attrs, classlabels_ints=list(range(classes))), {"X": x}, CLASS_OUT)
        kind = (np.float64, np.int64, np.int32)[seed % 3]
        yield Case(f"svm-classifier-{kernel}-{np.dtype(kind)}-{seed}", "SVMClassifier", dict(attrs, classlabels_ints=list(range(classes))),
                   {"X": (x * 4).astype(kind)}, CLASS_OUT)
    linear_attrs = dict(coefficients=listed(floats(rng, 3, f)), rho=listed(floats(rng, 1)), classlabels_strings=["a", "b", "c"],
                        kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
    for post in POSTS[:4]:
        yield Case(f"svm-linear-{post}-{seed}", "SVMClassifier", dict(linear_attrs, post_transform=post), {"X": x}, TEXT_OUT)
    yield Case(f"svm-linear-regressor-{seed}", "SVMRegressor", dict(coefficients=listed(floats(rng, f)), rho=listed(floats(rng, 1)), kernel_type="LINEAR",
                                                               kernel_params=[0.0, 0.0, 0.0]), {"X": x}, {"Y": T.FLOAT})


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(rng, trees, features_, classes, prefix, modes=MODES[:4], positive=False, one_id=None, unit_sum=False, decimals=1):
    """Attributes of random trees; every leaf votes for each class, or for the one that is asked for."""
    a = {k: [] for k in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
                         "nodes_falsenodeids", "nodes_missing_value_tracks_true")}
    v = {f"{prefix}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        todo, count = [(0, 0)], 1
        nodes = {}
        while todo:
            node, depth = todo.pop()
            if depth < 3 and (depth == 0 or rng.random() < 0.7):
                nodes[node] = (count, count + 1)
                todo += [(count, depth + 1), (count + 1, depth + 1)]
                count += 2
            else:
                nodes[node] = None
        for node in sorted(nodes):
            leaf = nodes[node] is None
            a["nodes_treeids"].append(tree)
            a["nodes_nodeids"].append(node)
            a["nodes_featureids"].append(int(rng.integers(0, features_)))
            a["nodes_modes"].append("LEAF" if leaf else str(rng.choice(modes)))
            a["nodes_values"].append(0.0 if leaf else float(np.float32(np.round(rng.standard_normal(), decimals))))
            a["nodes_truenodeids"].append(0 if leaf else nodes[node][0])
            a["nodes_falsenodeids"].append(0 if leaf else nodes[node][1])
            a["nodes_missing_value_tracks_true"].append(int(rng.integers(0, 2)))
            for c in range(classes) if leaf and one_id is None else [one_id] if leaf else []:
                w = rng.standard_normal() if not positive else rng.uniform(0.05, 1)
                v[f"{prefix}_treeids"].append(tree)
                v[f"{prefix}_nodeids"].append(node)
                v[f"{prefix}_ids"].append(c)
                v[f"{prefix}_weights"].append(float(np.float32(w / trees if unit_sum else w)))
    return {**a, **v}


def grid(rng, n, f, holes=False):
    x = np.round(rng.standard_normal((n, f)), 1).astype(np.float32)
    if holes:
        x[rng.random((n, f)) < 0.2] = np.nan
    return x


def trees_old(rng, seed):
    n, f, trees = int(rng.integers(1, 12)), int(rng.integers(1, 6)), int(rng.integers(1, 30))
    for post in POSTS:
        positive = post == "PROBIT"
        for classes in (3, 5):
            attrs = forest(rng, trees, f, classes, "class", positive=positive, unit_sum=positive)
            if seed % 2:
                attrs["base_values"] = listed(rng.uniform(0, 0.01, classes))
            yield Case(f"tree-classifier-{classes}-{post}-{seed}", "TreeEnsembleClassifier",
                       dict(attrs, post_transform=post, classlabels_int64s=list(range(5, 5 + classes))), {"X": grid(rng, n, f, seed % 3 == 0)},
                       CLASS_OUT)
        for sign in (True, False):
            if post == "PROBIT":
                continue  # ML-D1: half of that output is not written
            attrs = forest(rng, trees, f, 2, "class", positive=sign, one_id=0, unit_sum=sign)
            yield Case(f"tree-binary-{sign}-{post}-{seed}", "TreeEnsembleClassifier", dict(attrs, post_transform=post, classlabels_int64s=[5, 7]),
                       {"X": grid(rng, n, f)}, CLASS_OUT)
        for agg in ("SUM", "AVERAGE", "MIN", "MAX"):
            targets = int(rng.integers(2, 4))
            attrs = forest(rng, trees, f, targets, "target", positive=positive, unit_sum=positive and agg == "SUM")
            attrs.update(n_targets=targets, aggregate_function=agg, post_transform=post)
            if seed % 2 and not positive:
                attrs["base_values"] = listed(floats(rng, targets))
            yield Case(f"tree-regressor-{agg}-{post}-{seed}", "TreeEnsembleRegressor", attrs, {"X": grid(rng, n, f)}, {"Y": T.FLOAT})
    for agg in ("SUM", "AVERAGE", "MIN", "MAX"):
        attrs = forest(rng, trees, f, 1, "target", modes=MODES)
        attrs.update(n_targets=1, aggregate_function=agg)
        yield Case(f"tree-regressor-one-{agg}-{seed}", "TreeEnsembleRegressor", attrs, {"X": grid(rng, n, f)}, {"Y": T.FLOAT})
    attrs = forest(rng, trees, f, 1, "target", modes=MODES)
    attrs.update(n_targets=1, post_transform="LOGISTIC")
    yield Case(f"tree-regressor-one-LOGISTIC-{seed}", "TreeEnsembleRegressor", attrs, {"X": grid(rng, n, f)}, {"Y": T.FLOAT},
               differs={"Y": "ML-D2"})
    for kind in (np.float64, np.int64, np.int32):
        attrs = forest(rng, trees, f, 3, "class", decimals=6)
        x = (rng.standard_normal((n, f)) * 2).astype(kind)
        yield Case(f"tree-classifier-{np.dtype(kind)}-{seed}", "TreeEnsembleClassifier", dict(attrs, classlabels_int64s=[1, 2, 3]), {"X": x}, CLASS_OUT)
    attrs = forest(rng, trees, f, 1, "target", decimals=6)
    yield Case(f"tree-regressor-f64-{seed}", "TreeEnsembleRegressor", dict(attrs, n_targets=1), {"X": rng.standard_normal((n, f))}, {"Y": T.FLOAT})


def stump(votes, **more):
    """One node and two leaves: x0 <= 0.05 goes to leaf 1. votes: (leaf, class, weight)."""
    return dict(nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_values=[0.05, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * len(votes),
                class_nodeids=[v[0] for v in votes], class_ids=[v[1] for v in votes], class_weights=[v[2] for v in votes], **more)


def recorded(rng, seed):
    """Fixed cases: conventions that are readings, and differences of ONNX Runtime with their reasons."""
    if seed:
        return
    x = np.array([[1, 2], [-3, 0.5], [0, 0], [0.1, 0.2]], np.float32)
    two, one = [(1, 0, 0.25), (2, 0, 0.75)], [(1, 1, 0.25), (2, 1, 0.75)]
    signed = [(1, 0, -0.25), (2, 0, 0.75)]
    tree = "TreeEnsembleClassifier"
    yield Case("tree-one-label", tree, stump(two, classlabels_int64s=[5]), {"X": x}, CLASS_OUT)
    yield Case("tree-one-label-signed", tree, stump(signed, classlabels_int64s=[5]), {"X": x}, CLASS_OUT)
    yield Case("tree-class-one-only", tree, stump(one, classlabels_int64s=[5, 7]), {"X": x}, CLASS_OUT)
    yield Case("tree-binary-base", tree, stump(two, classlabels_int64s=[5, 7], base_values=[0.1]), {"X": x}, CLASS_OUT)
    yield Case("tree-binary-two-bases", tree, stump(two, classlabels_int64s=[5, 7], base_values=[0.1, 0.2]), {"X": x}, CLASS_OUT,
               differs={"Y": "ML-D7", "Z": "ML-D7"})
    both = [(1, 0, 0.25), (1, 1, 0.5), (2, 0, 0.75), (2, 1, 0.125)]
    yield Case("tree-two-classes", tree, stump(both, classlabels_int64s=[5, 7]), {"X": x}, CLASS_OUT, differs={"Y": "ML-D8"})
    apart = [(1, 0, 0.25), (2, 1, 0.75)]
    yield Case("tree-two-classes-apart", tree, stump(apart, classlabels_int64s=[0, 1]), {"X": x}, CLASS_OUT, differs={"Y": "ML-D8", "Z": "ML-D8"})
    equal = [(1, 1, 0.25), (1, 0, 0.25), (2, 1, 0.75), (2, 2, 0.25)]
    yield Case("tree-equal-votes", tree, stump(equal, classlabels_strings=["a", "b", "c"]), {"X": x}, TEXT_OUT)
    hole = np.array([[np.nan, 0.0]], np.float32)
    unequal = stump(both, classlabels_int64s=[0, 1, 2])
    unequal["nodes_modes"] = ["BRANCH_NEQ", "LEAF", "LEAF"]
    yield Case("tree-nan-unequal", tree, unequal, {"X": hole}, CLASS_OUT, differs={"Y": "ML-D9", "Z": "ML-D9"})
    members = dict(
        n_targets=1, tree_roots=[0], nodes_featureids=[0], nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[1], nodes_falseleafs=[1],
        nodes_modes=helper.make_tensor("m", T.UINT8, [1], [6]), nodes_splits=helper.make_tensor("s", T.FLOAT, [1], [0.0]), leaf_targetids=[0, 0],
        leaf_weights=helper.make_tensor("w", T.FLOAT, [2], [1.0, 2.0]),
        membership_values=helper.make_tensor("v", T.FLOAT, [3], [0.0, -1.0, float("nan")]))
    yield Case("tree-member-whole", "TreeEnsemble", members, {"X": np.array([[0], [-1], [1]], np.float32)}, {"Y": T.FLOAT}, 5)
    yield Case("tree-member-fraction", "TreeEnsemble", members, {"X": np.array([[0.5]], np.float32)}, {"Y": T.FLOAT}, 5, differs={"Y": "ML-D11"})
    linear_two = dict(coefficients=[0.5, -0.25, 0.3, 0.2], rho=[0.1], classlabels_ints=[3, 4], kernel_type="LINEAR", kernel_params=[0.0] * 3)
    yield Case("svm-linear-two", "SVMClassifier", linear_two, {"X": np.array([[2, -1]], np.float32)}, CLASS_OUT, differs={"Y": "ML-D10"})
    yield Case("svm-linear-one", "SVMClassifier", dict(linear_two, coefficients=[0.5, -0.25], classlabels_ints=[3]), {"X": x}, CLASS_OUT)
    yield Case("linear-no-labels", "LinearClassifier", dict(coefficients=[0.5, -0.25], intercepts=[0.1]), {"X": x}, CLASS_OUT)
    zeros = dict(coefficients=[0.5, -0.25, 0.1, 0.1, 0.3, 0.3], intercepts=[0.0] * 3, classlabels_ints=[1, 2, 3], post_transform="SOFTMAX_ZERO")
    yield Case("linear-zero-scores", "LinearClassifier", zeros, {"X": np.array([[1, 2], [0, 0]], np.float32)}, CLASS_OUT)


def trees_new(rng, seed):
    n, f, trees, targets = int(rng.integers(1, 12)), int(rng.integers(1, 6)), int(rng.integers(1, 20)), int(rng.integers(1, 4))
    for kind, agg, post in itertools.product((np.float32, np.float64), (0, 1, 2, 3), (0, 1, 2, 3, 4)):
        if targets == 1 and post in (1, 2, 3) or (kind is np.float64 and post):
            continue
        element = TYPES[np.dtype(kind)]
        nodes, leaves, roots, members = [], [], [], []
        for _ in range(trees):
            roots.append(len(nodes))
            todo = [0]
            first = len(nodes)
            nodes.append(None)
            while todo:
                depth = todo.pop()
                at = next(i for i in range(first, len(nodes)) if nodes[i] is None)
                branches = []
                for _side in range(2):
                    if depth < 2 and rng.random() < 0.6:
                        branches.append((len(nodes), 0))
                        nodes.append(None)
                        todo.append(depth + 1)
                    else:
                        low = 0.05 if post == 4 else -1
                        w = rng.uniform(low, 1) / (trees if post == 4 and agg == 1 else 1)
                        branches.append((len(leaves), 1))
                        leaves.append((float(kind(w)), int(rng.integers(0, targets))))
                mode = int(rng.integers(0, 7 if post == 0 else 6))
                nodes[at] = (branches, int(rng.integers(0, f)), mode, float(kind(np.round(rng.standard_normal(), 1))))
        for node in nodes:
            if node[2] == 6:
                members += [float(v) for v in rng.integers(-2, 3, 3)] + [float("nan")]
        attrs = dict(
            n_targets=targets, aggregate_function=agg, post_transform=post, tree_roots=roots,
            nodes_featureids=[x[1] for x in nodes], nodes_truenodeids=[x[0][0][0] for x in nodes], nodes_trueleafs=[x[0][0][1] for x in nodes],
            nodes_falsenodeids=[x[0][1][0] for x in nodes], nodes_falseleafs=[x[0][1][1] for x in nodes],
            nodes_modes=helper.make_tensor("m", T.UINT8, [len(nodes)], [x[2] for x in nodes]),
            nodes_splits=helper.make_tensor("s", element, [len(nodes)], [x[3] for x in nodes]),
            leaf_targetids=[x[1] for x in leaves], leaf_weights=helper.make_tensor("w", element, [len(leaves)], [x[0] for x in leaves]))
        if members:
            attrs["membership_values"] = helper.make_tensor("v", element, [len(members)], members)
        x = np.round(rng.standard_normal((n, f)), 0 if members else 1).astype(kind)  # whole numbers: ML-D11
        yield Case(f"tree-{np.dtype(kind)}-{agg}-{post}-{seed}", "TreeEnsemble", attrs, {"X": x}, {"Y": element}, 5,
                   differs={"Y": "ML-D6"} if post in (1, 2) else {})


def cases(full):
    makers = (linear, scale, features, labels, maps, svm, trees_old, trees_new, recorded)
    for seed in range(12 if full else 2):
        for maker in makers:
            yield from maker(np.random.default_rng([seed, makers.index(maker)]), seed)
