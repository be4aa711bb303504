"""Random numbers, control flow, and transforms of functions."""

import jax
import jax.numpy as jnp
import numpy as np
from common import Cases
from jax import lax, random

jax.config.update("jax_enable_x64", True)
case = Cases()
rng = np.random.default_rng(1)
f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
case.input("x", f32(2, 3))
case.input("v", f32(5))
case.input("w", f32(3, 3) * 0.5)
case.input("h", f32(3))
case.input("xs", f32(6, 3))
case.input("s", np.float32(0.7))
case.input("n", np.int32(2))
case.input("logits", f32(4, 6) * 3)
case.input("words", np.arange(12, dtype=np.int32).reshape(4, 3))

# Keys and bits, exactly.
key = lambda seed: random.key_data(random.key(seed))
raw = lambda k: k
for name, seed in [("zero", 0), ("small", 42), ("large", 2**40 + 17), ("negative", -3)]:
    case(f"key_{name}", lambda seed=seed: random.PRNGKey(seed))
K = lambda: random.PRNGKey(7)
case("split_2", lambda: random.split(K()))
case("split_5", lambda: random.split(K(), 5))
case("split_shape", lambda: random.split(K(), (2, 3)))
case("fold_in", lambda: [random.fold_in(K(), n) for n in (0, 1, 123456)])
case("bits_32", lambda: random.bits(K(), (3, 5), dtype=jnp.uint32))
case("bits_scalar", lambda: random.bits(K(), (), dtype=jnp.uint32))
case("bits_8", lambda: random.bits(K(), (7,), dtype=jnp.uint8))
case("bits_16", lambda: random.bits(K(), (2, 4), dtype=jnp.uint16))
case("bits_64", lambda: random.bits(K(), (2, 3), dtype=jnp.uint64))
case("bits_empty", lambda: random.bits(K(), (0, 3), dtype=jnp.uint32))
case("bits_vmap", lambda: jax.vmap(lambda k: random.bits(k, (3,), dtype=jnp.uint32))(random.split(K(), 4)))
F = jnp.float32
case("uniform", lambda: random.uniform(K(), (2, 5), F))
case("uniform_between", lambda: random.uniform(K(), (4,), F, -2.0, 3.0))
case("uniform_f64", lambda: random.uniform(K(), (4,), jnp.float64))
case("uniform_f16", lambda: random.uniform(K(), (9,), jnp.float16))
case("uniform_bf16", lambda: random.uniform(K(), (9,), jnp.bfloat16).astype(F))
case("normal", lambda: random.normal(K(), (3, 4), F))
case("normal_f64", lambda: random.normal(K(), (5,), jnp.float64))
case("normal_complex", lambda: random.normal(K(), (4,), jnp.complex64))
case("truncated_normal", lambda: random.truncated_normal(K(), -1.0, 2.0, (7,), F))
case("bernoulli", lambda: random.bernoulli(K(), F(0.3), (10,)))
case("gumbel", lambda: random.gumbel(K(), (5,), F))
case("exponential", lambda: random.exponential(K(), (5,), F))
case("laplace", lambda: random.laplace(K(), (5,), F))
case("logistic", lambda: random.logistic(K(), (5,), F))
case("cauchy", lambda: random.cauchy(K(), (5,), F))
case("rademacher", lambda: 2 * random.bernoulli(K(), F(0.5), (9,)).astype(jnp.int32) - 1)
case("categorical", lambda logits: random.categorical(K(), logits, axis=-1).astype(jnp.int32), "logits")
case("categorical_axis", lambda logits: random.categorical(K(), logits, axis=0).astype(jnp.int32), "logits")
case("randint", lambda: random.randint(K(), (3, 4), -5, 17, jnp.int32))
case("randint_wide", lambda: random.randint(K(), (6,), -2000000000, 2000000000, jnp.int32))
case("randint_empty", lambda: random.randint(K(), (3,), 4, 4, jnp.int32))
case("permutation", lambda v: random.permutation(K(), v), "v")
case("permutation_n", lambda: random.permutation(K(), jnp.arange(13, dtype=jnp.int32)))
case("permutation_rows", lambda words: random.permutation(K(), words), "words")
case("choice", lambda v: random.choice(K(), v, (4,), replace=False), "v")

# Loops and choices.
rnn = lambda w: lambda h, x: ((t := jnp.tanh(w @ h + x)), t.sum())
case("scan", lambda w, h, xs: lax.scan(rnn(w), h, xs), "w", "h", "xs")
case("scan_reverse", lambda w, h, xs: lax.scan(rnn(w), h, xs, reverse=True), "w", "h", "xs")
case("scan_tree", lambda h, xs: lax.scan(
    lambda c, x: ((c[0] + x[0], c[1] * 0.5), (x[1] - c[0], c[1])), (h, h), (xs, xs * 2)), "h", "xs")
case("fori_loop", lambda w, h: lax.fori_loop(0, 5, lambda i, h: jnp.sin(w @ h) + i.astype(F), h), "w", "h")
case("fori_loop_none", lambda h: lax.fori_loop(3, 3, lambda i, h: h + 1, h), "h")
case("while_loop", lambda s: lax.while_loop(lambda c: c[0] < 50, lambda c: (c[0] * 2 + 1, c[1] + 1), (s, jnp.int32(0))), "s")
case("cond", lambda s, h: [lax.cond(p, jnp.sin, jnp.cos, h) for p in (s > 0, s < 0)], "s", "h")
branches = [jnp.sin, jnp.cos, lambda x: x * x]
case("switch", lambda n, h: [lax.switch(i, branches, h) for i in (n - 5, n - 1, n, n + 9)], "n", "h")
case("map", lambda xs: lax.map(lambda x: (x ** 2).sum(), xs), "xs")
case("map_batched", lambda xs: lax.map(lambda x: jnp.tanh(x).sum(), xs, batch_size=4), "xs")
case("associative_scan", lambda xs: lax.associative_scan(lambda a, b: a * b, xs), "xs")
case("associative_pairs", lambda xs: lax.associative_scan(
    lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (jnp.sin(xs), xs)), "xs")

# Their derivatives and batches.
def loss_scan(w, h, xs):
    h, ys = lax.scan(rnn(w), h, xs)
    return (h ** 2).sum() + jnp.sin(ys).sum()
case("grad_scan", jax.grad(loss_scan, (0, 1, 2)), "w", "h", "xs")
case("grad_scan_reverse", jax.grad(lambda w, h, xs: (lax.scan(rnn(w), h, xs, reverse=True)[0] ** 2).sum(), (0, 1, 2)), "w", "h", "xs")
case("grad_grad_scan", lambda w, h, xs: jax.grad(lambda h: (jax.grad(loss_scan, 1)(w, h, xs) ** 2).sum())(h), "w", "h", "xs")
case("jvp_scan", lambda w, h, xs: jax.jvp(lambda w, h: lax.scan(rnn(w), h, xs), (w, h), (w * 0.1, h)), "w", "h", "xs")
case("grad_fori", jax.grad(lambda s: lax.fori_loop(0, 4, lambda i, y: y * s + jnp.sin(y), s)), "s")
case("jvp_while", lambda s: jax.jvp(lambda s: lax.while_loop(lambda y: y < 20, lambda y: y * y + 1, s), (s,), (F(1),)), "s")
case("grad_cond", lambda h: [jax.grad(lambda h: lax.cond(h.sum() > t, lambda h: (h ** 3).sum(), lambda h: jnp.cos(h).sum(), h))(h) for t in (-10, 10)], "h")
case("grad_switch", lambda n, h: jax.grad(lambda h: (lax.switch(n, branches, h) ** 2).sum())(h), "n", "h")
case("grad_scan_cond", jax.grad(lambda h, xs: lax.scan(
    lambda c, x: (lax.cond(x.sum() > 0, lambda c: c * jnp.tanh(x), lambda c: jnp.sin(c), c), None), h, xs)[0].sum(), (0, 1)), "h", "xs")
case("grad_associative", jax.grad(lambda xs: (lax.associative_scan(lambda a, b: a * b, xs) ** 2).sum()), "xs")
case("vmap_scan", lambda w, xs: jax.vmap(lambda h: lax.scan(rnn(w), h, xs))(xs[:4]), "w", "xs")
case("vmap_while", lambda v: jax.vmap(lambda s: lax.while_loop(lambda y: y < 9, lambda y: y * 2 + 1, s))(v), "v")
case("vmap_cond", lambda xs: jax.vmap(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x))(xs), "xs")
case("vmap_grad_scan", lambda w, xs: jax.vmap(lambda h: jax.grad(loss_scan, 1)(w, h, xs))(xs[:2]), "w", "xs")
case("grad_vmap", jax.grad(lambda w, xs: (jax.vmap(lambda x: jnp.tanh(w @ x))(xs) ** 2).sum(), (0, 1)), "w", "xs")
case("jacfwd", jax.jacfwd(lambda x: jnp.tanh(x).sum(0) * x[0]), "x")
case("jacrev", jax.jacrev(lambda x: jnp.tanh(x).sum(0) * x[0]), "x")
case("hessian", jax.hessian(lambda h: (jnp.sin(h) * h.sum()).sum()), "h")
case("vjp", lambda w, h: jax.vjp(lambda w, h: jnp.sin(w @ h), w, h)[1](h), "w", "h")
case("linearize", lambda h: jax.linearize(lambda h: jnp.exp(h) * h.sum(), h)[1](h), "h")
case("checkpoint", jax.grad(lambda w, h, xs: jax.checkpoint(loss_scan)(w, h, xs), (0, 1, 2)), "w", "h", "xs")
case("checkpoint_scan", jax.grad(lambda w, h, xs: lax.scan(jax.checkpoint(rnn(w)), h, xs)[0].sum(), (0, 1)), "w", "h", "xs")
case("stop_gradient", jax.grad(lambda h: (lax.stop_gradient(h) * h ** 2).sum()), "h")

@jax.custom_vjp
def clipped(x):
    return x * x
clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (jnp.clip(2 * x * ct, -0.5, 0.5),))
case("custom_vjp", jax.grad(lambda h: clipped(jnp.sin(h)).sum()), "h")
case("custom_vjp_vmap", lambda xs: jax.vmap(jax.grad(lambda h: clipped(h).sum()))(xs), "xs")

@jax.custom_jvp
def log1pexp(x):
    return jnp.log1p(jnp.exp(x))
log1pexp.defjvp(lambda p, t: (log1pexp(*p), (1 - 1 / (1 + jnp.exp(p[0]))) * t[0]))
case("custom_jvp", jax.grad(lambda h: log1pexp(h * 3).sum()), "h")
case("custom_jvp_second", jax.grad(jax.grad(lambda s: log1pexp(s * 3))), "s")

case.write(__file__)
