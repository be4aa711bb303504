"""Small functions in JAX, whose results are stored and compared with those of the same functions in Rust.

A script of this folder names inputs and cases and writes `<name>.safetensors` beside itself: tensors `in/<input>`, and for
each case `out/<case>/<n>`, its results in order. `crates/jaxrs/tests/reference/` has the same cases in Rust, by name.

Run as `python tests/reference/arrays.py` (jax 0.10, numpy, safetensors); nothing else needs it.
"""

import pathlib

import jax
import numpy as np
from safetensors.numpy import save_file


class Cases:
    def __init__(self):
        self.inputs = {}
        self.results = {}

    def input(self, name, value):
        self.inputs[name] = np.asarray(value)

    def __call__(self, name, function, *inputs):
        """The results of a function of inputs (by name), as the case `name`."""
        assert name not in self.results, name
        values = [jax.numpy.asarray(self.inputs[i]) for i in inputs]
        self.results[name] = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*values))]

    def grad(self, name, function, *inputs):
        """The gradient of `sum(sin(f) * f)`, so that cotangents differ, by all inputs."""
        def loss(*values):
            leaves = jax.tree.leaves(function(*values))
            return sum((jax.numpy.sin(leaf) * leaf).sum() for leaf in leaves)
        self(name, jax.grad(loss, argnums=tuple(range(len(inputs)))), *inputs)

    def write(self, script):
        tensors = {f"in/{name}": value for name, value in self.inputs.items()}
        for name, results in self.results.items():
            tensors |= {f"out/{name}/{n}": value for n, value in enumerate(results)}
        path = pathlib.Path(script).with_suffix(".safetensors")
        save_file({k: v.copy(order="C") for k, v in tensors.items()}, path)
        print(f"{len(self.results)} cases, {path.stat().st_size} bytes: {path}")
