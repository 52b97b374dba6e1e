"""Random cases for each com.microsoft operator of the oracle: operands, attributes, optional inputs, shapes. Used by test_microsoft_ort.py.

A generator takes a NumPy random generator and yields cases. Inputs are arrays (run-time inputs), Const arrays (initialisers), TensorProto messages (types
that NumPy lacks; initialisers too) or None (left out).
"""
import dataclasses

import numpy as np
from onnx import TensorProto, helper

F32, F16, F64 = np.float32, np.float16, np.float64
U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64


@dataclasses.dataclass
class Const:
    value: object


@dataclasses.dataclass
class Case:
    op: str
    inputs: list
    outputs: int = 1
    attrs: dict = dataclasses.field(default_factory=dict)
    optional: tuple = ()  # positions of outputs that the node leaves out
    note: str = ""
    domain: str = "com.microsoft"
    types: dict = dataclasses.field(default_factory=dict)  # of outputs whose type ONNX Runtime cannot infer
    widened: bool = False  # the result is made f32 by a DequantizeLinear: NumPy has no type for it


GENERATORS = {}


def cases_of(*names):
    def register(fn):
        for name in names:
            GENERATORS[name] = fn
        return fn
    return register


def normal(rng, *shape, dtype=F32, scale=1.0):
    return np.asarray(rng.standard_normal(shape) * scale).astype(dtype)


def wild(rng, *shape, dtype=F32, top=4):
    """As normal; one time in four of another magnitude (up to 10^top), off centre, or with equal values."""
    x = rng.standard_normal(shape)
    kind = int(rng.integers(0, 12))
    if kind == 0:
        x *= 10.0 ** rng.uniform(-3, min(top, 2) if dtype == F16 else top)
    if kind == 1:
        x += rng.uniform(-30, 30) * (1 if top > 1 else 0.1)
    if kind == 2:
        x = np.round(x)
    return np.asarray(x).astype(dtype)


def codes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype=dtype)


def scalar(value, dtype=F32):
    return np.array(value, dtype=dtype)


def scale(rng, low=-7.0, high=-2.0):
    return scalar(2.0 ** rng.uniform(low, high))


def maybe(rng, value):
    return value if rng.random() < 0.5 else None


def weight(rng, value):
    """Half of the time an initialiser: back ends pack those."""
    return Const(value) if rng.random() < 0.5 else value


def sub_byte(dtype, array):
    """A TensorProto of 4-bit integers or small floats from integers or numbers."""
    return helper.make_tensor("", dtype, array.shape, array.flatten().tolist())


# ---- functions of one or two operands ----

@cases_of("Gelu", "QuickGelu", "FastGelu", "BiasGelu")
def gelus(rng, op):
    for shape in ((), (7,), (3, 5), (2, 3, 65), (0, 4)):
        bias = op == "BiasGelu" or (op == "FastGelu" and rng.random() < 0.5)
        if not shape and op in ("BiasGelu", "FastGelu"):
            continue
        x = wild(rng, *shape) * 3
        if x.size:  # where all are far below zero every result drowns in the budget of the tail, and the case says nothing
            x.flat[0] = abs(x.flat[0])
        attrs = {"alpha": float(rng.uniform(0.5, 2))} if op == "QuickGelu" and rng.random() < 0.5 else {}
        yield Case(op, [x] + ([normal(rng, shape[-1])] if bias else []), attrs=attrs)
    edge = np.array([0, -0.0, 1e-30, -1e-30, 88, -88, 1e-40, 5, -5, -12, 12, 1e4, -1e4, 3e38, -3e38], F32)
    yield Case(op, [edge] + ([np.zeros(15, F32)] if op == "BiasGelu" else []))


# ---- normalisation ----

@cases_of("SimplifiedLayerNormalization")
def simplified(rng, op):
    for dtype in (F32, F64, F16):
        for shape in ((3, 16), (2, 3, 33)):
            inputs = [wild(rng, *shape, dtype=dtype), normal(rng, shape[-1], dtype=dtype)]
            yield Case(op, inputs, attrs={"epsilon": 1e-5, "axis": -1}, domain="")  # where ONNX Runtime registers it
    yield Case(op, inputs, attrs={"epsilon": 1e-5})


@cases_of("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norms(rng, op):
    simple = op.startswith("SkipSimplified")
    for dtype in (F32, F32, F32, F16):
        b, s, h = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(2, 70))
        x, skip, gamma = wild(rng, b, s, h, dtype=dtype), wild(rng, b, s, h, dtype=dtype), normal(rng, h, dtype=dtype)
        if not simple and rng.random() < 0.5:
            skip = skip[:1] if rng.random() < 0.5 else skip[0]
        inputs = [x, skip, gamma] + ([] if simple else [maybe(rng, normal(rng, h, dtype=dtype))]) + [maybe(rng, normal(rng, h, dtype=dtype))]
        outputs = 4 if rng.random() < 0.7 else 1
        yield Case(op, inputs, outputs, {"epsilon": float(rng.choice([1e-5, 1e-6, 1e-12]))}, optional=(1, 2))


@cases_of("EmbedLayerNormalization")
def embed(rng, op):
    for k in range(4):
        b, s, h, vocab = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(2, 40)), 11
        ids, segments = rng.integers(0, vocab, (b, s), dtype=I32), rng.integers(0, 2, (b, s), dtype=I32)
        tables = [wild(rng, vocab, h), wild(rng, 16, h), wild(rng, 2, h)]
        has_segment = rng.random() < 0.7
        mask = np.zeros((b, s), I32)
        for i in range(b):
            mask[i, : int(rng.integers(0, s + 1))] = 1
        positions = rng.integers(0, 16, (b if rng.random() < 0.5 else 1, s), dtype=I32)
        yield Case(op, [ids, segments if has_segment else None, tables[0], tables[1], tables[2] if has_segment else None, normal(rng, h),
                        normal(rng, h), maybe(rng, mask), maybe(rng, positions)], 2 + k % 2, {"epsilon": 1e-12})


# ---- products ----

@cases_of("FusedMatMul", "TransposeMatMul")
def fused_matmul(rng, op):
    for dtype in (F32, F32, F64):
        if op == "TransposeMatMul" and dtype == F64:
            continue
        m, n, k = (int(v) for v in rng.integers(1, 20, 3))
        batch = [(), (2,), (2, 3)][int(rng.integers(0, 3))]
        ta, tb = int(rng.integers(0, 2)), int(rng.integers(0, 2))
        a, b = wild(rng, *batch, *((k, m) if ta else (m, k)), dtype=dtype), wild(rng, *batch, *((n, k) if tb else (k, n)), dtype=dtype)
        yield Case(op, [a, weight(rng, b)], attrs={"transA": ta, "transB": tb, "alpha": float(rng.choice([1.0, 0.125, -1.7]))})
    if op == "FusedMatMul":
        m, n, k, z = (int(v) for v in rng.integers(1, 9, 4))
        yield Case(op, [normal(rng, m, z, 2, k), normal(rng, z, 2, k, n)], attrs={"transBatchA": 1}, note="transBatchA")
        yield Case(op, [normal(rng, z, 2, m, k), normal(rng, k, z, 2, n)], attrs={"transBatchB": 1}, note="transBatchB")
        yield Case(op, [normal(rng, k, z, m), normal(rng, n, z, k)], attrs={"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1})


@cases_of("FusedGemm")
def fused_gemm(rng, op):
    for activation, extra in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.1}), ("Sigmoid", {}), ("Tanh", {}), ("Softsign", {}), ("HardSigmoid", {
            "activation_alpha": 0.3, "activation_beta": 0.4})):
        m, n, k = (int(v) for v in rng.integers(1, 20, 3))
        ta, tb = int(rng.integers(0, 2)), int(rng.integers(0, 2))
        c = [(n,), (m, n), (1, n), (m, 1), ()][int(rng.integers(0, 5))]
        yield Case(op, [normal(rng, *((k, m) if ta else (m, k))), weight(rng, normal(rng, *((n, k) if tb else (k, n)))), maybe(rng, normal(rng, *c))],
                   attrs={"transA": ta, "transB": tb, "alpha": 0.75, "beta": 1.5, "activation": activation, **extra})


@cases_of("FusedConv")
def fused_conv(rng, op):
    for activation, extra in (("Relu", []), ("LeakyRelu", [0.1]), ("Sigmoid", []), ("Tanh", []), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4]), ("HardSwish", []), ("Relu", [])):
        group = int(rng.choice([1, 2]))
        c, m = 2 * group, 3 * group
        x, w = wild(rng, 2, c, 9, 8), wild(rng, m, c // group, 3, 3)
        attrs = {"activation": activation, "group": group, "pads": [int(v) for v in rng.integers(0, 2, 4)], "kernel_shape": [3, 3],
                 "strides": [int(v) for v in rng.integers(1, 3, 2)]}
        if extra:
            attrs["activation_params"] = [float(v) for v in extra]
        inputs = [x, weight(rng, w), maybe(rng, normal(rng, m))]
        if activation == "Relu" and rng.random() < 0.6:
            oh = (9 + attrs["pads"][0] + attrs["pads"][2] - 3) // attrs["strides"][0] + 1
            ow = (8 + attrs["pads"][1] + attrs["pads"][3] - 3) // attrs["strides"][1] + 1
            inputs.append(normal(rng, 2, m, oh, ow))
        yield Case(op, inputs, attrs=attrs)


@cases_of("MatMulNBits")
def matmul_nbits(rng, op):
    for k_case in range(8):
        bits = [4, 8, 4, 2, 4, 8, 4, 4][k_case]
        block = int(rng.choice([16, 32, 64]))
        m, n, k = int(rng.integers(1, 5)), int(rng.integers(1, 20)), int(rng.integers(1, 5)) * (block if rng.random() < 0.7 else 24)
        if k % 8:
            k += 8 - k % 8
        blocks = -(-k // block)
        dtype = F16 if k_case == 4 else F32
        b = codes(rng, U8, n, blocks, block * bits // 8)
        zeros = [None, codes(rng, U8, n, -(-blocks * bits // 8)), np.abs(normal(rng, n, blocks, scale=3)).astype(dtype)][int(rng.integers(0, 3))]
        if bits == 8 and zeros is not None and zeros.dtype != U8:
            zeros = None
        level = [0, 0, 1, 0, 0, 4, 4, 4][k_case]
        inputs = [wild(rng, *([2] if rng.random() < 0.5 else []), m, k, dtype=dtype), Const(b), Const((np.abs(normal(rng, n, blocks)) * 0.1).astype(dtype)),
                  None if zeros is None else Const(zeros), None, maybe(rng, Const(normal(rng, n, dtype=dtype)))]
        yield Case(op, inputs, attrs={"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level})


@cases_of("MatMulIntegerToFloat")
def integer_to_float(rng, op):
    for ta, tb in ((U8, U8), (U8, I8), (I8, I8), (U8, I8)):
        m, n, k = (int(v) for v in rng.integers(1, 40, 3))
        batch = [(), (2,)][int(rng.integers(0, 2))]
        column = rng.random() < 0.5
        b_scale = np.abs(normal(rng, *((n,) if column else ()))) * F32(0.01) + F32(1e-4)
        b_zero = codes(rng, tb, *((n,) if column else ()))
        yield Case(op, [codes(rng, ta, *batch, m, k), weight(rng, codes(rng, tb, k, n)), scale(rng), np.asarray(b_scale, F32), maybe(rng, codes(rng, ta)),
                        maybe(rng, b_zero), maybe(rng, normal(rng, n))])


@cases_of("DynamicQuantizeMatMul")
def dynamic_matmul(rng, op):
    for tb in (U8, I8, I8, U8):
        m, n, k = (int(v) for v in rng.integers(1, 30, 3))
        column = rng.random() < 0.5
        b_scale = np.abs(normal(rng, *((n,) if column else ()))) * F32(0.01) + F32(1e-4)
        yield Case(op, [wild(rng, m, k), weight(rng, codes(rng, tb, k, n)), np.asarray(b_scale, F32), maybe(rng, codes(rng, tb, *((n,) if column else ()))),
                        maybe(rng, normal(rng, n))])


@cases_of("DynamicQuantizeLSTM")
def dynamic_lstm(rng, op):
    for tw in (U8, I8):
        for direction in ("forward", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            s, b, i, h = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(2, 9)), int(rng.integers(2, 9))
            column = rng.random() < 0.5
            per = (d, 4 * h) if column else (d,)
            w_scale, r_scale = (np.abs(normal(rng, *per)) * F32(0.004) + F32(2e-3) for _ in range(2))
            w_zero, r_zero = (np.full(per, 128 if tw == U8 else 0, tw) for _ in range(2))
            lengths = maybe(rng, rng.integers(1, s + 1, b).astype(I32))
            yield Case(op, [wild(rng, s, b, i), Const(codes(rng, tw, d, i, 4 * h)), Const(codes(rng, tw, d, h, 4 * h)), maybe(rng, normal(rng, d, 8 * h, scale=0.2)),
                            lengths, maybe(rng, normal(rng, d, b, h, scale=0.3)), maybe(rng, normal(rng, d, b, h, scale=0.3)), maybe(rng, normal(rng, d, 3 * h, scale=0.3)), Const(w_scale),
                            Const(w_zero), Const(r_scale), Const(r_zero)], 3, {"hidden_size": h, "direction": direction})


@cases_of("QGemm")
def qgemm(rng, op):
    for ta, tb in ((U8, U8), (U8, I8), (I8, I8), (U8, I8), (I8, I8)):
        m, n, k = (int(v) for v in rng.integers(1, 24, 3))
        column, quantised, xa, xb = (bool(v) for v in rng.integers(0, 2, 4))
        b_scale = np.asarray(np.abs(normal(rng, *((n,) if column else ()))) * F32(0.01) + F32(1e-4), F32)
        c = [(n,), (m, n), (1, n), (m, 1), ()][int(rng.integers(0, 5))]
        c = rng.integers(-3000, 3000, c, dtype=I32)
        inputs = [codes(rng, ta, *((k, m) if xa else (m, k))), scale(rng), codes(rng, ta), weight(rng, codes(rng, tb, *((n, k) if xb else (k, n)))), b_scale,
                  codes(rng, tb, *((n,) if column else ())), maybe(rng, c)]
        if quantised:
            inputs += [scale(rng, -3, 3), codes(rng, ta)]
        yield Case(op, inputs, attrs={"transA": int(xa), "transB": int(xb), "alpha": float(rng.choice([1.0, 0.5, 1.3]))})


@cases_of("MatMulInteger16")
def integer16(rng, op):
    for _ in range(3):
        m, n, k = (int(v) for v in rng.integers(1, 16, 3))
        yield Case(op, [rng.integers(-9000, 9000, (m, k), dtype=np.int16), rng.integers(-9000, 9000, (k, n), dtype=np.int16)])


# ---- 8-bit codes ----

@cases_of("QLinearAdd", "QLinearMul")
def qlinear_pair(rng, op):
    shapes = [((7,), (7,)), ((2, 3, 5), (5,)), ((), (4, 3)), ((3, 1), (1, 4)), ((2, 40), ()), ((0, 3), (3,)), ((3, 65), (3, 65))]
    for sa, sb in shapes:
        t = U8 if rng.random() < 0.5 else I8
        yield Case(op, [codes(rng, t, *sa), scale(rng), codes(rng, t), codes(rng, t, *sb), scale(rng), codes(rng, t), scale(rng, -6, 0), codes(rng, t)])
    yield Case(op, [codes(rng, U8, 9), scale(rng), None, codes(rng, U8, 9), scale(rng), None, scale(rng, -6, 0)], note="no zero points")
    power = scalar(2.0 ** -4)  # ties everywhere
    yield Case(op, [codes(rng, U8, 64), power, codes(rng, U8), codes(rng, U8, 64), power, codes(rng, U8), scalar(2.0 ** -3), codes(rng, U8)])


@cases_of("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_table(rng, op):
    for t in (U8, I8):
        x = np.arange(np.iinfo(t).min, np.iinfo(t).max + 1).astype(t)
        for sy in (scale(rng), scalar(1 / 256), scalar(1e-4)):
            attrs = {"alpha": float(rng.choice([0.01, 0.25, -0.5]))} if op == "QLinearLeakyRelu" else {}
            sx = weight(rng, scale(rng, -7, 0))
            yield Case(op, [x, sx, maybe(rng, codes(rng, t)), sy, codes(rng, t)], attrs=attrs)


@cases_of("QLinearSoftmax")
def qlinear_softmax(rng, op):
    for t in (U8, I8, U8, U8):
        shape = tuple(int(v) for v in rng.integers(1, 9, 3))
        opset = int(rng.choice([9, 13]))
        attrs = {"opset": opset}
        if rng.random() < 0.6:
            attrs["axis"] = int(rng.integers(-3, 3))
        # the zero point leaves room for probabilities up to 1
        sy = scalar(1 / 256) if rng.random() < 0.6 else scale(rng, -7.9, -6.5)
        zero = scalar(0, U8) if t == U8 else scalar(-128, I8)
        yield Case(op, [codes(rng, t, *shape), scale(rng, -7, -1), maybe(rng, codes(rng, t)), sy, zero], attrs=attrs)


@cases_of("QLinearReduceMean")
def qlinear_mean(rng, op):
    yield Case(op, [codes(rng, U8, 2, 3, 4), scale(rng), codes(rng, U8), scale(rng), codes(rng, U8)], attrs={"axes": [1, 2], "keepdims": 1})


@cases_of("QLinearWhere")
def qlinear_where(rng, op):
    for t, sc, sx, sy in ((U8, (3, 4), (3, 4), (3, 4)), (I8, (3, 1), (4,), (1, 4)), (U8, (), (5,), ()), (I8, (2, 1, 3), (5, 1), (1,))):
        yield Case(op, [rng.random(sc) < 0.5 if sc else np.array(True), codes(rng, t, *sx), scale(rng), codes(rng, t), codes(rng, t, *sy), scale(rng),
                        codes(rng, t), scale(rng), codes(rng, t)])


@cases_of("QLinearConcat")
def qlinear_concat(rng, op):
    for parts in (1, 2, 3):
        t = U8 if rng.random() < 0.5 else I8
        axis = int(rng.integers(-3, 3))
        shape = [int(v) for v in rng.integers(1, 5, 3)]
        y_scale, y_zero = scale(rng), codes(rng, t)
        inputs = [weight(rng, y_scale), weight(rng, y_zero)]
        for _ in range(parts):
            shape[axis] = int(rng.integers(0, 6))
            same = rng.random() < 0.3
            inputs += [codes(rng, t, *shape), y_scale if same else scale(rng), y_zero if same else codes(rng, t)]
        yield Case(op, inputs, attrs={"axis": axis})


@cases_of("QLinearAveragePool")
def qlinear_pool(rng, op):
    for k in range(4):
        t, last = (U8, I8)[k % 2], k // 2
        x = codes(rng, t, 2, 7, 6, 3) if last else codes(rng, t, 2, 3, 7, 6)
        yield Case(op, [x, scale(rng), codes(rng, t), scale(rng), codes(rng, t)],
                   attrs={"kernel_shape": [3, 2], "strides": [int(v) for v in rng.integers(1, 3, 2)], "pads": [1, 0, 1, 1], "channels_last": last,
                          "count_include_pad": int(rng.integers(0, 2)), "ceil_mode": int(rng.integers(0, 2))})


@cases_of("QLinearGlobalAveragePool")
def qlinear_global(rng, op):
    for k in range(4):
        t, last = (U8, I8)[k % 2], k // 2
        x = codes(rng, t, 2, 7, 6, 3) if last else codes(rng, t, 2, 3, 7, 6)
        yield Case(op, [x, scale(rng), codes(rng, t), scale(rng), codes(rng, t)], attrs={"channels_last": last})


@cases_of("QLinearConv")
def qlinear_conv(rng, op):
    for k, (tx, tw) in enumerate(((U8, U8), (U8, I8), (I8, I8), (U8, I8), (I8, I8), (U8, U8))):
        last, group = k % 2, int(rng.choice([1, 2]))
        c, m = 2 * group, 3 * group
        x = codes(rng, tx, 2, 7, 6, c) if last else codes(rng, tx, 2, c, 7, 6)
        column = rng.random() < 0.5 and tw == I8
        w_scale = np.asarray(np.abs(normal(rng, *((m,) if column else ()))) * F32(0.01) + F32(1e-3), F32)
        w_zero = np.zeros((m,) if column else (), tw) if tw == I8 else codes(rng, tw)
        yield Case(op, [x, scale(rng), codes(rng, tx), weight(rng, codes(rng, tw, m, c // group, 3, 2)), Const(w_scale), Const(w_zero), scale(rng, -3, 2),
                        codes(rng, tx), maybe(rng, rng.integers(-2000, 2000, m, dtype=I32))],
                   attrs={"channels_last": last, "group": group, "kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [1, 2]})


@cases_of("NhwcMaxPool")
def nhwc_pool(rng, op):
    for t in (U8, I8):
        for ceil in (0, 1):
            yield Case(op, [codes(rng, t, 2, 8, 7, 3)], attrs={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": ceil})
        yield Case(op, [codes(rng, t, 1, 9, 2)], attrs={"kernel_shape": [3], "dilations": [2]})


# ---- quantisation and movement with standard counterparts ----

@cases_of("QuantizeLinear")
def quantize(rng, op):
    for t in (U8, I8, np.uint16, np.int16):
        wide = np.iinfo(t).bits == 16
        s = scale(rng, -14, -9) if wide else scale(rng)
        x = normal(rng, 3, 40, scale=3)
        x[0, :8] = (np.arange(8) - 3.5) * s  # ties
        x[0, 8:12] = [1e9, -1e9, np.inf, -np.inf]
        yield Case(op, [x, s, codes(rng, t)])
        axis = int(rng.integers(-3, 3))
        shape = (3, 4, 5)
        yield Case(op, [normal(rng, *shape, scale=3), np.abs(normal(rng, shape[axis])) * F32(0.01) + F32(1e-3), codes(rng, t, shape[axis])], attrs={"axis": axis})
    yield Case(op, [normal(rng, 9), scale(rng)])
    for t, low, high in ((TensorProto.INT4, -8, 8), (TensorProto.UINT4, 0, 16)):
        yield Case(op, [normal(rng, 3, 5, scale=3), scale(rng, -2, 0), sub_byte(t, rng.integers(low, high, ()))], widened=True)


@cases_of("DequantizeLinear")
def dequantize(rng, op):
    for t in (U8, I8, np.uint16, np.int16, I32):
        zero = codes(rng, t) if t != I32 else None
        yield Case(op, [codes(rng, t, 3, 40), scale(rng), zero])
        axis, shape = int(rng.integers(-3, 3)), (3, 4, 5)
        zero = codes(rng, t, shape[axis]) if t != I32 else None
        yield Case(op, [codes(rng, t, *shape), np.abs(normal(rng, shape[axis])), zero], attrs={"axis": axis})
    for t, low, high in ((TensorProto.INT4, -8, 8), (TensorProto.UINT4, 0, 16)):
        yield Case(op, [sub_byte(t, rng.integers(low, high, (3, 5))), scale(rng), sub_byte(t, rng.integers(low, high, ()))])


@cases_of("GatherBlockQuantized")
def gather_block(rng, op):
    for dtype in (F32, F16):
        for bits in (2, 4, 8):
            rows, block, blocks = 7, 16, 3
            columns = block * blocks - (0 if rng.random() < 0.5 else 8)
            data = codes(rng, U8, rows, columns * bits // 8)
            zeros = maybe(rng, codes(rng, U8, rows, -(-blocks * bits // 8)))
            index = rng.integers(-rows, rows, (2, 3), dtype=I64 if rng.random() < 0.5 else I32)
            yield Case(op, [Const(data), index, Const(normal(rng, rows, blocks, dtype=dtype)), None if zeros is None else Const(zeros)],
                       attrs={"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1})
        for t, low, high in ((TensorProto.INT4, -8, 8), (TensorProto.UINT4, 0, 16)):
            g, q = int(rng.integers(0, 3)), int(rng.integers(0, 3))
            shape = [3, 4, 6]
            shape[q] = 40
            per = [(v + 15) // 16 if d == q else v for d, v in enumerate(shape)]
            index = rng.integers(0, shape[g], (2,) if rng.random() < 0.5 else (), dtype=I64)
            yield Case(op, [sub_byte(t, rng.integers(low, high, shape)), index, Const(normal(rng, *per, dtype=dtype)),
                            maybe(rng, sub_byte(t, rng.integers(low, high, per)))], attrs={"block_size": 16, "gather_axis": g, "quantize_axis": q})
    yield Case(op, [Const(codes(rng, U8, 5, 16)), np.array([4, 5, -6, -5], I64), Const(normal(rng, 5, 1))], attrs={"bits": 8, "block_size": 16}, note="outside: zeros")


@cases_of("Pad")
def pad(rng, op):
    for mode in ("constant", "edge", "reflect", "constant"):
        x = normal(rng, 4, 5)
        pads = rng.integers(-1, 3, 4) if mode == "constant" else rng.integers(0, 3, 4)
        pads = pads.astype(I64)
        yield Case(op, [x, pads[None] if rng.random() < 0.5 else pads, maybe(rng, scalar(1.5)) if mode == "constant" else None], attrs={"mode": mode})


@cases_of("Range")
def ranges(rng, op):
    for t in (np.int16, I32, I64, F32, F64):
        yield Case(op, [scalar(2, t), scalar(17, t), scalar(3, t)])
        yield Case(op, [np.array([2], t), np.array([9], t), None if rng.random() < 0.5 else np.array([2], t)])
    yield Case(op, [scalar(1.0), scalar(-2.0), scalar(-0.3)])
    yield Case(op, [scalar(5, I64), scalar(5, I64)])


@cases_of("Trilu")
def trilu(rng, op):
    for t in (F32, F64, I64):
        yield Case(op, [(normal(rng, 2, 4, 5) * 10).astype(t), maybe(rng, scalar(rng.integers(-5, 6), I64))], attrs={"upper": int(rng.integers(0, 2))})


@cases_of("GatherND")
def gather_nd(rng, op):
    for last in (1, 2, 3):
        data = normal(rng, 3, 4, 5)
        index = np.stack([rng.integers(-n, n, (2, 3)) for n in data.shape[:last]], -1)
        yield Case(op, [data, index.astype(I64 if rng.random() < 0.5 else I32)])
    yield Case(op, [codes(rng, U8, 6), np.array([[5], [0]], I64)])


@cases_of("ExpandDims")
def expand_dims(rng, op):
    for axis in (0, 1, 2, -1, -3):
        yield Case(op, [normal(rng, 3, 4), scalar(axis, I32)])


@cases_of("Unique")
def unique(rng, op):
    yield Case(op, [rng.integers(0, 5, 20).astype(F32)], 3)
    yield Case(op, [np.array([2, 1, 1, 3, 4, 3], F32)], 3)
    yield Case(op, [np.array([0.0, -0.0, 1], F32)], 3)
    yield Case(op, [np.zeros(0, F32)], 3)


@cases_of("GridSample")
def grid_sample(rng, op):
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            yield Case(op, [normal(rng, 1, 2, 5, 6), (rng.uniform(-1.2, 1.2, (1, 3, 4, 2))).astype(F32)],
                       attrs={"mode": mode, "padding_mode": padding, "align_corners": int(rng.integers(0, 2))})


@cases_of("Inverse")
def inverse(rng, op):
    for dtype in (F32, F64, F16, F32, F32):
        n = int(rng.integers(1, 9))
        batch = [(), (2,), (2, 3)][int(rng.integers(0, 3))]
        yield Case(op, [(normal(rng, *batch, n, n) + (3 if dtype == F16 else 0) * np.eye(n)).astype(dtype)])
    yield Case(op, [np.array([[1, 1], [1, 2]], F32)])
    yield Case(op, [np.array([[0, 1, 0], [2, 0, 0], [0, 0, 4]], F32)])
    yield Case(op, [np.triu(np.ones((5, 5), F32))])
    yield Case(op, [np.zeros((0, 3, 3), F32)])


# ---- attention: products of queries and keys beyond 10^5 would leave a softmax in f32 without a bound, so magnitudes stay moderate ----

def rotary_cache(rng, length, half):
    angle = np.outer(np.arange(length), 10000.0 ** (-np.arange(half) / half))
    return np.cos(angle).astype(F32), np.sin(angle).astype(F32)


@cases_of("RotaryEmbedding")
def rotary(rng, op):
    for k in range(6):
        b, n, s, h = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 6)), 8
        dtype = F16 if k == 5 else F32
        partial = k == 3
        cos, sin = (v.astype(dtype) for v in rotary_cache(rng, 16, 2 if partial else h // 2))
        positions = np.array([3], I64) if k % 2 else rng.integers(0, 16, (b, s), dtype=I64)
        x = normal(rng, b, n, s, h, dtype=dtype) if k in (1, 4) else normal(rng, b, s, n * h, dtype=dtype)
        attrs = {"interleaved": int(rng.integers(0, 2))}
        if rng.random() < 0.3:
            attrs["scale"] = 0.5
        if partial:
            attrs.update(rotary_embedding_dim=4, num_heads=n)
        yield Case(op, [x, positions, cos, sin], attrs=attrs)


def padding_mask(rng, form, b, s, total):
    valid = rng.integers(1, total + 1, b)
    if form == "ends":
        return valid.astype(I32)
    if form == "both":
        start = np.array([rng.integers(0, v) for v in valid])
        return np.concatenate([valid, start]).astype(I32)
    if form == "flat":
        return (np.arange(total)[None] < valid[:, None]).astype(I32)
    if form == "packed":  # lengths, then cumulated lengths of queries and of keys
        sums = np.concatenate([[0], np.cumsum(valid)])
        return np.concatenate([valid, sums, sums]).astype(I32)
    if form == "dummy":
        return np.ones((b, 1) if rng.random() < 0.5 else (1, 1), I32)
    if form == "full":
        return np.broadcast_to((np.arange(total)[None, None] < valid[:, None, None]), (b, s, total)).astype(I32).copy()
    return None


@cases_of("Attention")
def attention(rng, op):
    for k, form in enumerate((None, "ends", "both", "flat", "full", None, "flat", None, "packed", "dummy")):
        b, s, n, h, width = int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(2, 9)), int(rng.integers(3, 12))
        past = int(rng.integers(1, 5)) if k in (5, 6) else 0  # not with a bias
        v = h if past else h + int(rng.integers(0, 3))
        total = past + s
        inputs = [wild(rng, b, s, width, top=1), weight(rng, normal(rng, width, n * (2 * h + v))), maybe(rng, normal(rng, n * (2 * h + v))),
                  padding_mask(rng, form, b, s, total), normal(rng, 2, b, n, past, h) if past else None,
                  normal(rng, int(rng.choice([1, b])), int(rng.choice([1, n])), s, total) if k in (3, 7) else None]
        attrs = {"num_heads": n, "unidirectional": int(rng.integers(0, 2))}
        if v != h:
            attrs["qkv_hidden_sizes"] = [n * h, n * h, n * v]
        if rng.random() < 0.4:
            attrs["scale"] = 0.37
        if form and rng.random() < 0.4:
            attrs["mask_filter_value"] = -500.0
        yield Case(op, inputs, 2 if past or rng.random() < 0.5 and v == h else 1, attrs)


@cases_of("QAttention")
def qattention(rng, op):
    for k, form in enumerate((None, "ends", "both", "flat", None, "packed", "dummy")):
        b, s, n, h, width = int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(2, 9)), int(rng.integers(3, 12))
        past = int(rng.integers(1, 5)) if k == 4 else 0
        tw = U8 if rng.random() < 0.5 else I8
        columns = 3 * n * h
        column = rng.random() < 0.5
        w_scale = np.asarray(np.abs(normal(rng, *((columns,) if column else ()))) * F32(0.005) + F32(1e-3), F32)
        yield Case(op, [codes(rng, U8, b, s, width), weight(rng, codes(rng, tw, width, columns)), normal(rng, columns), scale(rng, -7, -5), w_scale,
                        padding_mask(rng, form, b, s, past + s), maybe(rng, codes(rng, U8)), maybe(rng, codes(rng, tw)),
                        normal(rng, 2, b, n, past, h) if past else None], 2 if past else 1, {"num_heads": n, "unidirectional": int(rng.integers(0, 2))})


@cases_of("MultiHeadAttention")
def multi_head(rng, op):
    for k in range(15):
        b, s, n, h = int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(2, 9))
        length = s if k in (0, 3, 4, 5, 12, 13) else int(rng.integers(1, 7))
        hv = h if k not in (1, 8) else h + 2
        attrs = {"num_heads": n}
        q, key, value = wild(rng, b, s, n * h, top=1), wild(rng, b, length, n * h, top=1), wild(rng, b, length, n * hv)
        bias = maybe(rng, normal(rng, n * (2 * h + hv)))
        mask = extra = past_k = past_v = None
        outputs = 1
        if k == 2:  # packed key and value
            key, value, bias = normal(rng, b, length, n, 2, h), None, None
        if k == 3:  # packed query, key and value
            q, key, value, bias, length = normal(rng, b, s, n, 3, h), None, None, None, s
        if k in (4, 5):  # a growing cache
            past = int(rng.integers(1, 5))
            past_k, past_v = normal(rng, b, n, past, h), normal(rng, b, n, past, hv)
            length += past
            outputs = 3
            if k == 5:
                attrs["unidirectional"] = 1
        if k == 6:  # keys and values of another sequence, projected before
            key, value, bias = normal(rng, b, n, length, h), normal(rng, b, n, length, h), None
        if k in (7, 9):
            mask = padding_mask(rng, "ends" if k == 7 else "flat", b, s, length)
        if k == 8:
            extra = normal(rng, int(rng.choice([1, b])), int(rng.choice([1, n])), s, length)
        if k == 10:
            mask, extra = padding_mask(rng, "full", b, s, length), normal(rng, 1, n, s, length)
        if k == 11:
            outputs, attrs["scale"] = 4, 0.3
        shared = None
        if k in (12, 13):  # past and present in one buffer
            past, room, outputs = int(rng.integers(1, 5)), 12, 3
            shared = np.array([past], I32)
            past_k, past_v = normal(rng, b, n, room, h), normal(rng, b, n, room, hv)
            attrs["unidirectional"] = k - 12
        if k == 14:
            mask = padding_mask(rng, "packed", b, s, length)
        yield Case(op, [q, key, value, bias, mask, extra, past_k, past_v, shared], outputs, attrs, note=f"form {k}", types={3: TensorProto.FLOAT})


@cases_of("GroupQueryAttention")
def group_query(rng, op):
    for k in range(23):
        b, s, kv, group, h = int(rng.integers(1, 3)), int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(rng.integers(1, 4)), 16
        n = kv * group
        dtype = F16 if k in (12, 13) else F32
        attrs = {"num_heads": n, "kv_num_heads": kv}
        past = 0 if k in (0, 1, 2, 9, 12, 14, 15, 16, 19, 22) else int(rng.integers(1, 6))
        if past and k not in (7, 8, 17):
            s = 1
        if k in (7, 8):
            b = 1
        room = past + s if k in (3, 7, 8) else 12
        packed = k in (2, 5)
        q = wild(rng, b, s, (n + 2 * kv if packed else n) * h, dtype=dtype, top=1)
        key, value = (None, None) if packed else (normal(rng, b, s, kv * h, dtype=dtype), normal(rng, b, s, kv * h, dtype=dtype))
        cache = past if k in (3, 7, 8) else room
        past_k, past_v = (normal(rng, b, kv, cache, h, dtype=dtype) for _ in range(2)) if past or k in (1, 9, 16) else (None, None)
        lengths = np.full(b, past + s - 1, I32)
        if past and s == 1 and cache == room and k == 4:
            lengths = rng.integers(0, past + 1, b).astype(I32)
            lengths[0] = past
        inputs = [q, key, value, past_k, past_v, lengths, scalar(past + s, I32)]
        if k in (2, 5, 6, 8, 12):
            attrs["do_rotary"] = 1
            attrs["rotary_interleaved"] = int(rng.integers(0, 2))
            cos, sin = (v.astype(dtype) for v in rotary_cache(rng, 32, h // 2))
            inputs += [cos, sin]
        if k == 6:
            attrs["local_window_size"] = int(rng.integers(1, 4))
        if k == 9:
            attrs["softcap"] = 5.0
        if k == 10:
            attrs["smooth_softmax"] = 1
        if k == 11:
            inputs += [None] * (11 - len(inputs)) + [normal(rng, n)]
        if k == 13:
            attrs["scale"] = 0.3
        if k == 0:
            inputs += [None] * (10 - len(inputs)) + [normal(rng, 1, n, s, s)]
        if k in (14, 15):
            attrs["qk_output"] = k - 13
            attrs["softcap"] = float(rng.choice([0, 3.0]))
        if k in (16, 17):  # padded chunks of queries
            fresh = rng.integers(0, s + 1, b).astype(I32)
            fresh[0] = s
            old = rng.integers(0, past + 1, b) if past else np.zeros(b, int)
            inputs[5], inputs[6] = np.maximum(old + fresh - 1, 0).astype(I32), scalar(room, I32)
            inputs += [None] * (16 - len(inputs)) + [fresh]
        if k == 18:
            cos, sin = rotary_cache(rng, 32, h // 2)
            attrs["do_rotary"] = 1
            inputs += [cos, sin, np.full((b, s), past, I64)]
        if k == 19:
            attrs["causal"] = 0
        if k == 20:
            inputs += [None] * (10 - len(inputs)) + [normal(rng, 1, n, s, past + s)]
        if k == 22:  # a prompt with padding behind the shorter samples
            inputs[5] = rng.integers(0, s, b).astype(I32)
            inputs[5][0] = s - 1
        if k == 21:
            attrs["smooth_softmax"] = -1
        yield Case(op, inputs, 4 if k in (14, 15) else 3, attrs, note=f"form {k}")
