#!/usr/bin/env python3
"""Exports the test programs of `tests/programs` and the programs of `examples` from JAX.

    python tests/export.py [NAME ...]

Needs jax 0.10.2, numpy, ml_dtypes and safetensors. Each program becomes a folder with
`program.mlir` (with source locations), `inputs.safetensors`, `outputs.safetensors` (keys "0", "1",
... in the order of @main's parameters and results) and `meta.json` (donation, tolerances).
The results are JAX's own, on the CPU.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parent
PROGRAMS = {}


def program(*args, donate=(), rtol=1e-5, atol=1e-6, folder=ROOT / "programs", x64=False):
    def add(function):
        PROGRAMS[function.__name__] = (function, args, donate, rtol, atol, folder, x64)
        return function
    return add


def data(*shape, dtype=np.float32, low=-1.0, high=1.0, seed=0):
    """Numbers spread over [low, high); small integers where the type is one."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.uniform(low, high, shape)
    if dtype in (np.float32, np.float64, np.float16, jnp.bfloat16):
        return np.asarray(values).astype(dtype)
    if dtype == np.bool_:
        return np.asarray(values > 0)
    if dtype in (np.complex64, np.complex128):
        return (values + 1j * rng.uniform(low, high, shape)).astype(dtype)
    return np.asarray(np.floor(values)).astype(dtype)


def ints(*shape, dtype=np.int32, low=-20, high=20, seed=0):
    return data(*shape, dtype=dtype, low=low, high=high, seed=seed)


# ---- the example of the README

def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


LAYERS = [64, 128, 128, 10]
MLP = [(data(m, n, low=-0.1, high=0.1, seed=i), np.zeros(n, np.float32))
       for i, (m, n) in enumerate(zip(LAYERS, LAYERS[1:]))]
MOMENTUM = jax.tree.map(np.zeros_like, MLP)


@program(MLP, MOMENTUM, data(32, 64), ints(32, low=0, high=10), donate=(0, 1), folder=ROOT.parent / "examples")
def mlp_train_step(params, momentum, x, labels):
    """One step of gradient descent with momentum; parameters and momentum are donated."""
    def loss(params):
        logits = jax.nn.log_softmax(mlp(params, x))
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], axis=1))
    value, grads = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    return params, momentum, value


# ---- elementwise

@program(data(7, 9, low=0.1, high=3), data(7, 9, seed=1))
def float_functions(x, y):
    return (jnp.exp(y), jnp.log(x), jnp.log1p(x), jnp.expm1(y), jnp.tanh(y), jax.nn.sigmoid(y), jnp.sin(9 * y),
            jnp.cos(9 * y), jnp.tan(y), jnp.sqrt(x), lax.rsqrt(x), jnp.cbrt(y), x ** y, jnp.arctan2(y, x),
            lax.erf(y), lax.erfc(y), lax.erf_inv(y), lax.lgamma(x), lax.digamma(x), jnp.arcsin(y), jnp.arccos(y),
            jnp.arctan(y), jnp.sinh(y), jnp.cosh(y), jnp.arcsinh(y), jnp.arctanh(y), jnp.floor(y), jnp.ceil(y),
            jnp.round(3 * y), jnp.sign(y), jnp.abs(y), jnp.isfinite(x / jnp.floor(x)), jnp.fmod(x, 0.7), jnp.square(y))


@program(data(11, dtype=np.float64, low=0.1, high=3), data(11, dtype=np.float64, seed=1), x64=True, rtol=1e-13, atol=1e-13)
def double_functions(x, y):
    return (jnp.exp(y), jnp.log(x), jnp.log1p(x), jnp.expm1(y), jnp.tanh(y), jax.nn.sigmoid(y), jnp.sin(9 * y),
            jnp.cos(9 * y), jnp.sqrt(x), x ** y, jnp.arctan2(y, x), lax.erf(y), x + y, x / y, jnp.argmax(x))


@program(ints(5, 6), ints(5, 6, low=1, high=9, seed=1))
def integer_functions(x, y):
    u = x.astype(jnp.uint32)
    return (x // y, x % y, lax.div(x, y), lax.rem(x, y), x << 3, x >> 2, lax.shift_right_logical(x, y), x & y, x | y, x ^ y, ~x,
            jnp.maximum(x, y), jnp.minimum(x, y), jnp.abs(x), jnp.sign(x), lax.population_count(u), lax.clz(u), u * u - 7,
            x.astype(jnp.int8), x.astype(jnp.uint8) + 3, x > y, x == y, (x > 0) & (y > 3), x ** 3, x.astype(jnp.float32) / 3)


@program(data(40, dtype=jnp.bfloat16), data(40, dtype=np.float16, seed=1), rtol=2e-2, atol=1e-2)
def half_functions(x, y):
    return (x * x + x, jnp.exp(x), y * y + y, jnp.tanh(y), x.astype(jnp.float32) + y.astype(jnp.float32), y.astype(jnp.bfloat16),
            x > 0, jnp.sum(x), jnp.max(y), jnp.where(x > 0, x, -x), x.astype(jnp.int32))


@program(data(6, 5, dtype=np.complex64), data(6, 5, dtype=np.complex64, seed=1))
def complex_functions(x, y):
    return x * y, x / y, x + jnp.conj(y), jnp.real(x), jnp.imag(y), jnp.abs(x), jnp.exp(x), x @ y.T, jnp.sum(x, 0), x == y, x.T


# ---- shapes

@program(data(4, 6, 5), data(4, 2, 5, seed=1))
def shapes(x, y):
    z = jnp.concatenate([x, y], axis=1)
    return (x.transpose(2, 0, 1).reshape(5, 24), z[:, ::2], z[1:3, 1:-1, 2], jnp.pad(x, ((1, 2), (0, 1), (3, 0)), constant_values=2),
            lax.pad(x, 0.5, ((0, 0, 1), (-1, 2, 0), (1, -2, 2))), x[::-1, :, ::-1], jnp.roll(z, 3, axis=1), jnp.broadcast_to(x[0, 0], (3, 5)),
            jnp.tile(y, (1, 2, 3)), jnp.stack([x[0], x[1]], 1), jnp.arange(12).reshape(3, 4), jnp.tril(x[0, :5]), jnp.repeat(y, 2, 1))


@program(data(8, 9), ints((3), low=0, high=8), np.int32(6))
def indexing(x, i, n):
    return (x[i], x[i, i], x.at[i].set(1.0), x.at[i].add(2.0), x.at[:, i].multiply(3.0), x.at[i].max(0.1), lax.dynamic_slice(x, (n, n), (4, 3)),
            lax.dynamic_update_slice(x, x[:2, :2] * 9, (n, n)), jnp.take_along_axis(x, jnp.argsort(x, 1), 1), x[n], jnp.zeros(8).at[i].add(1.0))


@program(np.zeros((0, 3), np.float32), data(3, 2))
def empty(x, y):
    return x + 1, x @ y, jnp.sum(x, 0), jnp.concatenate([x, y.T], 0), x.reshape(3, 0, 1), jnp.max(x, 1)


# ---- reductions, windows, sorting

@program(data(6, 7, 8), rtol=1e-4, atol=1e-5)
def reductions(x):
    return (x.sum(), x.sum(0), x.sum((0, 2)), x.max(1), x.min(2), x.prod(2), x.mean(1), x.var(2), jnp.argmax(x, 1), jnp.argmin(x), (x > 0).any(0),
            (x > -0.9).all(2), jax.nn.softmax(x), jax.nn.logsumexp(x, 1), jnp.linalg.norm(x), jnp.cumsum(x, 1), jnp.cumprod(x, 2),
            lax.cummax(x, 0), lax.cumsum(x, 2, reverse=True), lax.cumlogsumexp(x, 1))


@program(data(2, 8, 9, 3))
def pooling(x):
    pool = lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")
    mean = lambda y: lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 2, 1), "VALID")
    return pool(x), mean(x), jax.grad(lambda y: jnp.sum(pool(y) ** 2))(x), jax.grad(lambda y: jnp.sum(mean(y) ** 2))(x)


@program(data(5, 30), ints(40, low=0, high=12), data(40, seed=3))
def sorting(x, k, v):
    return jnp.sort(x), jnp.argsort(x, 0), jnp.sort(x, descending=True), *lax.top_k(x, 4), *lax.sort((k, v), num_keys=1), jnp.sort(k), jnp.median(x, 1)


# ---- contractions and convolutions

@program(data(3, 4, 5), data(3, 5, 6, seed=1), data(5, seed=2), ints(4, 5, dtype=np.int8, low=-100, high=100), rtol=1e-4, atol=1e-5)
def contractions(x, y, v, q):
    return (x @ y, x @ v, v @ v, jnp.einsum("bij,bjk->kbi", x, y), jnp.einsum("bij,bjk->ik", x, y), jnp.outer(v, v), x[0] @ x[1].T,
            x[0].T @ x[1], lax.dot(q, q.T, preferred_element_type=jnp.int32), x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16),
            jnp.tensordot(x, x, ((1, 2), (1, 2))))


@program(data(2, 9, 8, 4), data(3, 3, 4, 6, seed=1), data(3, 3, 1, 8, seed=2), rtol=1e-4, atol=1e-4)
def convolutions(x, w, d):
    nhwc = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, w, **k: lax.conv_general_dilated(x, w, **({"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": nhwc} | k))
    f = lambda x, w: jnp.sum(conv(x, w, window_strides=(2, 1)) ** 2)
    return (conv(x, w), conv(x, w, window_strides=(2, 2), padding="VALID"), conv(x, w, rhs_dilation=(2, 2)), conv(x, w, lhs_dilation=(2, 1), padding=((1, 1), (0, 2))),
            conv(x, d, feature_group_count=4), *jax.grad(f, (0, 1))(x, w),
            lax.conv_general_dilated(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 2), ((1, 0), (0, 2)), batch_group_count=2),
            lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=nhwc))


# ---- control flow and donation

@program(data(8, 5), np.float32(3), np.int32(1))
def control(x, y, n):
    carry, ys = lax.scan(lambda c, r: (c * 0.5 + r, jnp.sum(c)), x[0], x)
    a = lax.fori_loop(0, 7, lambda i, v: v + i * y, x)
    b = lax.while_loop(lambda s: s[1] < 30, lambda s: (s[0] * 1.5 + n, s[1] + 4), (x, jnp.float32(1)))
    c = lax.cond(y > 2, jnp.sin, jnp.cos, x)
    d = lax.switch(n, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x)
    e = lax.map(lambda r: r / jnp.sum(r), x)
    f = lax.associative_scan(jnp.add, x)
    return carry, ys, a, *b, c, d, e, f


@program(data(16, 16), data(16, 16, seed=1), donate=(0, 1))
def swap(x, y):
    return y + 1, x * 2


@program(data(12, 4), data(12, 4, seed=1), ints(5, low=0, high=12), donate=(0,))
def rotate(cache, x, i):
    """A donated buffer updated in a loop, and a rotation of carries."""
    def body(k, s):
        cache, a, b = s
        return cache.at[i[k]].add(x[k]), b, a + cache[0, 0]
    return lax.fori_loop(0, 5, body, (cache, x, x * 2))


@program(data(4, 6))
def derivatives(x):
    f = lambda y: jnp.sum(jax.nn.gelu(y) * jax.nn.softplus(y) + jax.nn.relu(y - 0.1))
    checkpointed = jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))
    return (jax.grad(f)(x), jax.hessian(lambda v: jnp.sum(jnp.tanh(v) ** 3))(x[0]), jax.jacfwd(jnp.cumsum)(x[0]),
            jax.grad(lambda y: jnp.sum(checkpointed(y)))(x), jax.vmap(jax.grad(lambda r: jnp.prod(r)))(x))


@program(np.array([1, 2], np.uint32))
def random(key):
    k = jax.random.split(key, 3)
    return (k, jax.random.uniform(k[0], (5,)), jax.random.normal(k[1], (4, 3)), jax.random.bernoulli(k[2], 0.3, (6,)),
            jax.random.permutation(k[0], 9), jax.random.categorical(k[1], jnp.zeros((4, 5))), jax.random.bits(k[2], (7,)))


def definite(a):
    return a @ jnp.swapaxes(a, -1, -2).conj() + jnp.eye(a.shape[-1], dtype=a.dtype)


def of_values(u, s, vh):
    """What a decomposition is made of, whatever the signs of its vectors."""
    return (u * s[..., None, :]) @ vh


def factorizations(a, b, tall):
    """Results that do not depend on the signs of vectors."""
    h = (a + jnp.swapaxes(a, -1, -2).conj()) / 2
    p = definite(a)
    q, r = jnp.linalg.qr(tall)
    full_q, full_r = jnp.linalg.qr(tall, mode="complete")
    wide = jnp.swapaxes(tall, -1, -2)
    w, v = jnp.linalg.eigh(h)
    thin = jnp.linalg.svd(tall, full_matrices=False)
    u, s, vh = jnp.linalg.svd(wide, full_matrices=True)
    low = jnp.tril(a) + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)
    solves = [lax.linalg.triangular_solve(low if lower else jnp.swapaxes(low, -1, -2), b if left else jnp.swapaxes(b, -1, -2),
                                          left_side=left, lower=lower, transpose_a=turn, conjugate_a=conj, unit_diagonal=unit)
              for left in (True, False) for lower in (True, False) for turn in (True, False)
              for conj in (True, False) for unit in (True, False)]
    lu, pivots, permutation = lax.linalg.lu(tall)
    return (jnp.linalg.cholesky(p), jnp.linalg.cholesky(p, upper=True), jnp.linalg.cholesky(-p), q, r, full_q, full_r,
            jnp.linalg.qr(wide), jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a),
            w, of_values(v, w.astype(v.dtype), jnp.swapaxes(v, -1, -2).conj()), thin[1], of_values(*thin), s,
            jnp.abs(jnp.swapaxes(u, -1, -2).conj() @ u), vh @ jnp.swapaxes(vh, -1, -2).conj(),
            jnp.linalg.svd(wide, compute_uv=False), solves, lu, pivots, permutation, jnp.linalg.pinv(tall),
            jnp.linalg.matrix_rank(tall), jax.scipy.linalg.expm(a / 4), jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(p), True), b))


@program(data(2, 5, 5, seed=1), data(2, 5, 3, seed=2), data(2, 7, 4, seed=3), rtol=2e-3, atol=2e-4)
def linear_algebra(a, b, tall):
    return factorizations(a, b, tall)


@program(data(40, 40, dtype=np.float64, seed=1), data(40, 3, dtype=np.float64, seed=2),
         data(70, 33, dtype=np.float64, seed=3), rtol=1e-8, atol=1e-9, x64=True)
def double_linear_algebra(a, b, tall):
    return factorizations(a, b, tall)


@program(data(3, 6, 6, dtype=np.complex64, seed=1), data(3, 6, 2, dtype=np.complex64, seed=2),
         data(3, 8, 5, dtype=np.complex64, seed=3), rtol=2e-3, atol=5e-4)
def complex_linear_algebra(a, b, tall):
    return factorizations(a, b, tall)


@program(data(4, 4, dtype=np.float64, seed=1), data(4, 2, dtype=np.float64, seed=2), rtol=1e-6, atol=1e-8, x64=True)
def linear_algebra_derivatives(a, b):
    h = lambda x: (x + x.T) / 2 + jnp.diag(jnp.arange(4.0))
    def f(x, y):
        w, v = jnp.linalg.eigh(h(x))
        q, r = jnp.linalg.qr(x)
        u, s, vh = jnp.linalg.svd(x)
        return (jnp.sum(jnp.sin(jnp.linalg.cholesky(definite(x)))) + jnp.sum(jnp.linalg.solve(x, y) ** 2)
                + jnp.sum(w ** 3) + jnp.sum(v ** 4) + jnp.sum(r ** 4) + jnp.sum(q ** 4) + jnp.sum(s ** 3)
                + jnp.sum(u ** 4) + jnp.linalg.slogdet(x)[1] + jnp.sum(jnp.linalg.inv(x)))
    fourier = lambda x: jnp.sum(jnp.abs(jnp.fft.rfft2(x)) ** 3) + jnp.sum(jnp.fft.irfft(jnp.fft.rfft(x, 7), 5) ** 2)
    return jax.grad(f, (0, 1))(a, b), jax.grad(fourier)(a)


@program(data(3, 12, seed=1), data(2, 6, 10, seed=2), data(4, 17, dtype=np.complex64, seed=3), data(2, 3, 4, 5, seed=4),
         data(1, 1021, seed=5), rtol=1e-4, atol=2e-4)
def fourier(x, y, z, t, prime):
    f = jnp.fft
    return (f.fft(x), f.rfft(x), f.irfft(f.rfft(x)), f.irfft(f.rfft(x), 11), f.fft2(y), f.rfft2(y), f.irfft2(f.rfft2(y)), f.fft(z),
            f.ifft(z), f.ifft(z, axis=0), f.fftn(t, axes=(1, 2, 3)), f.rfftn(t, axes=(1, 2, 3)), f.irfftn(f.rfftn(t, axes=(1, 2, 3))),
            f.ifftn(t, axes=(1, 2, 3)), f.rfft(x[:, :7]), f.irfft(x[:, :1], 1), f.fft(prime), f.irfft(f.rfft(prime), 1021), f.fftshift(x))


def flat_donated(args, donate):
    flags = [jax.tree.map(lambda _: i in donate, a) for i, a in enumerate(args)]
    return [i for i, f in enumerate(jax.tree.leaves(flags)) if f]


def export(name):
    function, args, donate, rtol, atol, folder, x64 = PROGRAMS[name]
    with jax.enable_x64(x64):
        args = jax.tree.map(jnp.asarray, args)
        lowered = jax.jit(function, donate_argnums=donate, keep_unused=True).lower(*args)
        inputs = {str(i): np.asarray(a) for i, a in enumerate(jax.tree.leaves(args))}
        outputs = {str(i): np.asarray(r) for i, r in enumerate(jax.tree.leaves(jax.jit(function)(*args)))}
    text = lowered.as_text(debug_info=True).replace(str(ROOT.parent) + "/", "")
    site = str(Path(jax.__file__).resolve().parent.parent) + "/"
    out = folder / name
    out.mkdir(parents=True, exist_ok=True)
    (out / "program.mlir").write_text(text.replace(site, ""))
    save_file(inputs, out / "inputs.safetensors")
    save_file(outputs, out / "outputs.safetensors")
    meta = {"donated": flat_donated(args, donate), "rtol": rtol, "atol": atol, "max_mismatch_fraction": 0.0}
    (out / "meta.json").write_text(json.dumps(meta) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        export(name)
        print(name)
