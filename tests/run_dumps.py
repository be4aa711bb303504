"""Runs programs that `JAXRS_DUMP=DIR` wrote with XLA, and compares the results.

    JAXRS_DUMP=/tmp/dumps cargo run --release --example kalman
    python tests/run_dumps.py /tmp/dumps

Needs jax 0.10, numpy and safetensors; no test needs it.
"""

import pathlib
import sys

import jax
import jax.extend.backend
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from safetensors.numpy import load_file

jax.config.update("jax_enable_x64", True)


def run(text, arguments):
    """The results of a StableHLO program."""
    backend = jax.extend.backend.get_backend("cpu")
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        code = mlir.module_to_bytecode(module)
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    executable = backend.compile_and_load(code, devices, xla_client.CompileOptions())
    buffers = [jax.device_put(argument) for argument in arguments]
    return [np.asarray(result) for result in executable.execute(buffers)]


def ordered(path):
    tensors = load_file(path)
    return [tensors[str(n)] for n in range(len(tensors))]


def main(folder):
    failures = 0
    programs = sorted(pathlib.Path(folder).glob("*.mlir"))
    for program in programs:
        base = str(program)[: -len("mlir")]
        if not pathlib.Path(base + "outputs.safetensors").exists():
            continue
        found = run(program.read_text(), ordered(base + "inputs.safetensors"))
        worst = 0.0
        for mine, theirs in zip(ordered(base + "outputs.safetensors"), found, strict=True):
            mine, theirs = np.asarray(mine, np.complex128), np.asarray(theirs, np.complex128)
            scale = max(np.abs(theirs).max(initial=0), 1e-30)
            worst = max(worst, np.abs(mine - theirs).max(initial=0) / scale)
        failures += not worst < 1e-3
        print(f"{program.name:32} {len(found)} results, worst difference {worst:.2g}")
    print(f"{len(programs)} programs, {failures} differ")
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1])))
