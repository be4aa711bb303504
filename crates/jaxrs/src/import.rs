//! Programs from elsewhere: StableHLO files as callables.

use crate::array::Array;
use crate::compile::{self, Options};
use crate::error::{Error, Place, Result};
use crate::jit::Entry;
use crate::stages::Compiled;
use jaxrs_ir::{text, verify};
use jaxrs_opt::passes::inline;
use std::path::Path;

/// The program of a StableHLO file, compiled: it takes its arguments, and gives its results, as a
/// `Vec` of arrays. Arguments that the file marks as donated (`tf.aliasing_output`,
/// `jax.buffer_donor`) are donated. Inside a traced function a call becomes part of that function,
/// with its derivatives.
///
/// ```
/// use jaxrs::prelude::*;
/// # let path = std::env::temp_dir().join(format!("jaxrs-import-{}.mlir", std::process::id()));
/// # std::fs::write(&path, "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #   %y = stablehlo.add %x, %x : tensor<2xf32>
/// #   return %y : tensor<2xf32>
/// # }").expect("a file");
/// let double = jaxrs::import(&path)?;
/// let results = double.call(vec![Array::from_vec(vec![1.0f32, 2.0])])?;
/// assert_eq!(results[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read, or its program cannot be compiled; all its faults are named.
#[track_caller]
pub fn import(path: impl AsRef<Path>) -> Result<Compiled<Vec<Array>>> {
    let (path, place) = (path.as_ref(), Place::here());
    let file = path.display().to_string();
    let fault = |error: &dyn std::fmt::Display| Error::new(error.to_string(), place);
    let source = std::fs::read(path).map_err(|error| fault(&format!("{file}: {error}")))?;
    let module = text::parse_bytes(&source, &file).map_err(|error| fault(&error))?;
    verify::verify(&module, &file).map_err(|error| fault(&error))?;
    let options = Options { threads: compile::default_threads(), ..Options::from_environment() };
    let compiled =
        compile::compile_module(&module, &file, &options).map_err(|error| fault(&error))?;
    let function = inline::run(&module).map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        fault(&messages.join("; "))
    })?;
    let arguments = compiled.interface().arguments.iter().enumerate();
    let donated = arguments.filter(|(_, info)| info.donated).map(|(n, _)| n as u32).collect();
    let result = compiled
        .result_types()
        .iter()
        .map(|ty| Array::shape_only(ty.shape.as_slice(), ty.dtype))
        .collect();
    Ok(Compiled::ready(Entry::ready(function, result, donated, compiled)))
}
