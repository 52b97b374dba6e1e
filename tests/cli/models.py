"""Small ONNX models for the tests of `check`, written into a folder by name."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
U8, I32 = TensorProto.UINT8, TensorProto.INT32


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def info(name, dtype=F32, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs.split() if isinstance(inputs, str) else inputs, outputs.split() if isinstance(outputs, str) else outputs, name, **attributes)


def graph(nodes, inputs, outputs, inits=None, name="g"):
    return helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(v, k) for k, v in (inits or {}).items()])


def save(path, nodes, inputs, outputs, inits=None, opset=17, functions=(), domains=()):
    model = helper.make_model(graph(nodes, inputs, outputs, inits), opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)],
                              ir_version=10, functions=list(functions))
    onnx.save(model, str(path))
    return path


def mlp(path):
    """Two products with a bias and a rectifier between: what every back end has."""
    return save(path, [node("MatMul", "x w1", "a", "dense"), node("Add", "a b1", "s", "bias"), node("Relu", "s", "r", "act"), node("MatMul", "r w2", "y", "head")],
                [info("x", shape=["n", 32])], [info("y", shape=["n", 9])], {"w1": numbers(1, 32, 40), "b1": numbers(2, 40), "w2": numbers(3, 40, 9)})


def with_unsupported(path):
    """Shrink in the middle: the oracle has it, the mutant does not."""
    return save(path, [node("Abs", "x", "a", "before"), node("Shrink", "a", "s", "sine"), node("Neg", "s", "y", "after"), node("Exp", "x", "z", "beside")],
                [info("x", shape=[3, 5])], [info("y", shape=[3, 5]), info("z", shape=[3, 5])])


def with_unknown(path):
    """An operator that nobody knows: what depends on it cannot be judged, what does not can."""
    return save(path, [node("Abs", "x", "a", "before"), node("Frobnicate", "a", "f", "odd"), node("Neg", "f", "y", "after"), node("Exp", "x", "z", "beside")],
                [info("x", shape=[3, 5])], [info("y"), info("z", shape=[3, 5])])


def duplicates(path):
    """The same weights on the same input three times; a fourth product with other data."""
    w = numbers(5, 8, 8)
    return save(path, [node("MatMul", "x w", "a", "one"), node("MatMul", "x v", "b", "two"), node("MatMul", "x w", "c", "three"), node("MatMul", "x u", "d", "four"),
                       node("Concat", "a b c d", "y", "join", axis=0)],
                [info("x", shape=[4, 8])], [info("y", shape=[16, 8])], {"w": w, "v": w.copy(), "u": numbers(6, 8, 8)})


def branches(path):
    """If on the sign of a sum; both branches read x from outside."""
    then = graph([node("Mul", "x two", "t", "double")], [], [info("t")], {"two": np.float32([2])}, "then")
    other = graph([node("Neg", "x", "e", "turn")], [], [info("e")], None, "else")
    return save(path, [node("ReduceSum", "x", "sum", "total", keepdims=0), node("Greater", "sum zero", "positive", "test"),
                       helper.make_node("If", ["positive"], ["y"], "choice", then_branch=then, else_branch=other)],
                [info("x", shape=[2, 3])], [info("y", shape=[2, 3])], {"zero": np.float32(0)})


def loop(path, trips=3):
    """v = v * x + 1, a few times."""
    body = graph([node("Identity", "go", "on", "keep"), node("Mul", "v x", "m", "times"), node("Add", "m one", "w", "plus")],
                 [info("i", I64, []), info("go", BOOL, []), info("v", shape=[4])], [info("on", BOOL, []), info("w", shape=[4])], {"one": np.float32([1])}, "body")
    return save(path, [helper.make_node("Loop", ["count", "yes", "x"], ["y"], "again", body=body)], [info("x", shape=[4])], [info("y", shape=[4])],
                {"count": np.int64(trips), "yes": np.bool_(True)})


def data_dependent(path):
    """The shape of what follows NonZero depends on the data."""
    return save(path, [node("Relu", "x", "r", "act"), node("NonZero", "r", "where", "find"), node("Transpose", "where", "index", "turn", perm=[1, 0]),
                       node("Cast", "index", "y", "number", to=F32)], [info("x", shape=[3, 7])], [info("y", shape=["k", 2])])


def unused_outputs(path):
    """Optional outputs left out, in the middle and at the end, and a node whose result nobody reads."""
    return save(path, [node("MaxPool", "x", "p", "pool", kernel_shape=[2, 2]), node("LayerNormalization", ["p", "g", "b"], ["n", "", "d"], "norm"),
                       node("Exp", "x", "nobody", "dead"), node("Add", "n d", "y", "sum")],
                [info("x", shape=[1, 2, 5, 5])], [info("y", shape=[1, 2, 4, 4])], {"g": numbers(7, 4), "b": numbers(8, 4)})


def many(path, count=130):
    """More operators than one pack holds, each with data of its own."""
    nodes, inits, last = [], {}, "x"
    for k in range(count):
        inits[f"c{k}"] = np.float32([1 + k / 64])
        nodes.append(node("Add", [last, f"c{k}"], [f"v{k}"], f"add{k}"))
        last = f"v{k}"
    return save(path, nodes, [info("x", shape=[6])], [info(last, shape=[6])], inits)
