//! Operations on concrete arrays: each is compiled once for its types, and kept.

use crate::array::Array;
use crate::cache::{Cache, CacheStats};
use crate::compile::{self, Compiled, Options};
use crate::error::{Error, Place};
use crate::trace;
use jaxrs_ir::Function;
use jaxrs_runtime::Argument;
use std::sync::{Arc, LazyLock};

/// Operations that are kept.
const KEPT: usize = 4096;

static OPERATIONS: LazyLock<Cache<String, Arc<Compiled>>> = LazyLock::new(|| Cache::new(KEPT));

/// How often operations on concrete arrays found their code.
pub fn eager_cache_stats() -> CacheStats {
    OPERATIONS.stats()
}

/// Runs a function on concrete arrays: its results.
pub(crate) fn run(
    function: &Function,
    arguments: &[&Array],
    place: Place,
) -> Result<Vec<Array>, Error> {
    let key = trace::as_text(function);
    let compiled =
        OPERATIONS.get_or_insert(&key, || compile(function, Vec::new(), place).map(Arc::new))?;
    let buffers = arguments
        .iter()
        .map(|array| Argument::Borrowed(array.buffer().expect("concrete, by the caller")))
        .collect();
    let (results, _) =
        compiled.call(buffers).map_err(|error| Error::new(error.to_string(), place))?;
    let array =
        |(buffer, ty): (_, &jaxrs_ir::TensorType)| Array::concrete(ty.clone(), buffer, place);
    Ok(results.into_iter().zip(compiled.result_types()).map(array).collect())
}

/// Compiles a function; `donate` names parameters by position.
pub(crate) fn compile(
    function: &Function,
    donate: Vec<u32>,
    place: Place,
) -> Result<Compiled, Error> {
    let options =
        Options { donate, threads: compile::default_threads(), ..Options::from_environment() };
    let name = function.name.clone();
    let function = trace::lowered(function, place)?;
    compile::compile_module(&trace::module(function), &name, &options)
        .map_err(|error| Error::new(error.to_string(), place))
}
