//! `JAXRS_DUMP=DIR`: each program that a jitted function is compiled to, as StableHLO, with the
//! arguments and the results of its first call. `jaxrs-compile` and XLA can run it.
//!
//! For the first form of the arguments of `step` there are `step.0.mlir`, `step.0.inputs.safetensors`
//! and `step.0.outputs.safetensors`, whose tensors are named `0`, `1`, ... in order.

use crate::array::Array;
use crate::jit::Prepared;
use crate::stages::Lowered;
use crate::tensor::{self, Tensor};
use crate::tree::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static FOLDER: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| std::env::var_os("JAXRS_DUMP").map(PathBuf::from));

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A call that is dumped.
pub(crate) struct Dump(PathBuf);

/// Writes a program and the arguments of its first call, if that is asked for.
pub(crate) fn begin<'a, R: Tree>(
    name: &str,
    prepared: &Prepared<R>,
    arguments: impl Iterator<Item = &'a Array>,
) -> Option<Dump> {
    let folder = FOLDER.as_ref()?;
    // `crate::module::step`: files are named by its last word.
    let word = name.rsplit("::").next().unwrap_or(name);
    let dump = Dump(folder.join(format!("{word}.{}", COUNT.fetch_add(1, Relaxed))));
    let text = match Lowered::new(prepared.clone()).to_stablehlo() {
        Ok(text) => text,
        Err(error) => return report(folder, &error.to_string()),
    };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| tensor::write_whole(&dump.path("mlir"), text.as_bytes()))
        .and_then(|()| dump.tensors("inputs", arguments));
    match written {
        Ok(()) => Some(dump),
        Err(error) => report(folder, &error.to_string()),
    }
}

impl Dump {
    fn path(&self, extension: &str) -> PathBuf {
        let mut path = self.0.clone().into_os_string();
        path.push(format!(".{extension}"));
        path.into()
    }

    fn tensors<'a>(&self, what: &str, arrays: impl Iterator<Item = &'a Array>) -> io::Result<()> {
        let tensor = |array: &Array| Tensor {
            ty: array.ty().clone(),
            bytes: array.buffer().map_or_else(Vec::new, |buffer| buffer.as_bytes().to_vec()),
        };
        let tensors: Vec<Tensor> = arrays.map(tensor).collect();
        tensor::save(&self.path(&format!("{what}.safetensors")), &tensors)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Writes the results of the call.
    pub(crate) fn finish(self, results: &[Array]) {
        if let Err(error) = self.tensors("outputs", results.iter()) {
            report(&self.0, &error.to_string());
        }
    }
}

fn report(path: &Path, why: &str) -> Option<Dump> {
    eprintln!("JAXRS_DUMP: {}: {why}", path.display());
    None
}
