"""Linear algebra and Fourier transforms."""

import jax
import jax.numpy as jnp
import numpy as np
from common import Cases
from jax.scipy.linalg import solve_triangular

case = Cases()
rng = np.random.default_rng(2)
f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
square = f32(4, 4)
case.input("a", square)
case.input("spd", square @ square.T + 4 * np.eye(4, dtype=np.float32))
case.input("batch", f32(3, 2, 2) + 3 * np.eye(2, dtype=np.float32))
case.input("tall", f32(5, 3))
case.input("v", f32(4))
case.input("b", f32(4, 2))
case.input("x", f32(3, 6))
case.input("c", (f32(2, 5) + 1j * f32(2, 5)).astype(np.complex64))

la, fft = jnp.linalg, jnp.fft
case("cholesky", la.cholesky, "spd")
case("qr", lambda x: [jnp.abs(y) for y in la.qr(x)], "tall")
case("svd", lambda x: (lambda u, s, v: [jnp.abs(u), s, jnp.abs(v)])(*la.svd(x, full_matrices=False)), "tall")
case("svdvals", la.svdvals, "tall")
case("eigh", lambda x: (lambda w, v: [w, jnp.abs(v)])(*la.eigh(x)), "spd")
case("solve", la.solve, "a", "b")
case("solve_vector", la.solve, "a", "v")
case("solve_batch", lambda x: la.solve(x, x * 2 + 1), "batch")
case("triangular_solve", lambda a, b: [solve_triangular(a, b, lower=True), solve_triangular(a, b)], "spd", "b")
case("inv", la.inv, "batch")
case("det", lambda a, b: [la.det(a), la.det(b)], "a", "batch")
case("slogdet", lambda a: list(la.slogdet(a)), "a")
case("fft", lambda x, c: [fft.fft(x), fft.fft(c, axis=0)], "x", "c")
case("ifft", fft.ifft, "c")
case("rfft", lambda x: [fft.rfft(x), fft.rfft(x, axis=0)], "x")
case("irfft", lambda c: [fft.irfft(c, 8), fft.irfft(c, 9)], "c")
case("fft2", lambda x: fft.ifft2(fft.fft2(x) * 2), "x")
case("fftfreq", lambda: [fft.fftfreq(5, 0.5), fft.fftfreq(6)])
case.grad("grad_cholesky", la.cholesky, "spd")
case.grad("grad_solve", la.solve, "a", "b")
case.grad("grad_inv", la.inv, "batch")
case.grad("grad_det", la.det, "a")
case.grad("grad_slogdet", lambda a: la.slogdet(a)[1], "a")
case.grad("grad_svdvals", la.svdvals, "tall")
case.grad("grad_eigh", lambda a: la.eigh(a)[0], "spd")
case.grad("grad_fft", lambda x: jnp.abs(fft.rfft(x)), "x")
case("vmap_solve", lambda x: jax.vmap(lambda a: la.solve(a, jnp.ones(2)))(x), "batch")

case.write(__file__)
