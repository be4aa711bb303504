//! [`jit()`], and what `#[jit]` expands to: functions that are traced once for each form of their
//! arguments, compiled, and called with donation.

use crate::array::{Array, Value};
use crate::cache::{Cache, CacheStats};
use crate::compile::Compiled;
use crate::eager;
use crate::error::{Error, Place, Result};
use crate::stages::Lowered;
use crate::trace;
use crate::tree::{Path, Structure, Tree};
use jaxrs_ir::{Function, TensorType};
use jaxrs_runtime::{Argument, Buffer};
use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

/// Forms of arguments that each jitted function keeps code for.
const KEPT: usize = 256;

/// What a jitted body gives: a tree, or a result of one.
pub trait Output {
    /// The tree.
    type Tree: Tree + Send + Sync + 'static;

    /// The tree, or the error.
    fn into_result(self) -> Result<Self::Tree>;
}

impl<T: Tree + Send + Sync + 'static> Output for T {
    type Tree = T;

    fn into_result(self) -> Result<T> {
        Ok(self)
    }
}

impl<T: Tree + Send + Sync + 'static> Output for Result<T> {
    type Tree = T;

    fn into_result(self) -> Result<T> {
        self
    }
}

/// A form of arguments.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    types: Vec<TensorType>,
    donated: Vec<bool>,
    structure: Structure,
}

impl Key {
    /// What differs from another form, for people.
    fn difference(&self, other: &Key) -> String {
        if self.types.len() == other.types.len() {
            let pairs = self.types.iter().zip(&other.types).enumerate();
            let differ: Vec<String> = pairs
                .filter(|(_, (new, old))| new != old)
                .map(|(n, (new, old))| format!("array {n} is {new}, was {old}"))
                .collect();
            if !differ.is_empty() {
                return differ.join("; ");
            }
        } else {
            return format!("{} arrays, before {}", self.types.len(), other.types.len());
        }
        if self.structure != other.structure {
            let (new, old) = (self.structure.as_str(), other.structure.as_str());
            return format!("the structure or a static value is {new}, was {old}");
        }
        "the donated arguments differ".into()
    }
}

/// A traced body.
pub(crate) struct Entry<R> {
    pub(crate) function: Function,
    pub(crate) captures: Vec<Array>,
    pub(crate) result: R,
    pub(crate) donated: Vec<u32>,
    compiled: OnceLock<Compiled>,
}

impl<R> Entry<R> {
    pub(crate) fn compiled(&self, place: Place) -> Result<&Compiled> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let compiled = eager::compile(&self.function, self.donated.clone(), place)?;
        Ok(self.compiled.get_or_init(|| compiled))
    }
}

/// How donation went at a jitted function, over all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DonationReport {
    /// The function.
    pub function: String,
    /// Calls.
    pub calls: u64,
    /// Bytes of donated arguments whose memory became a result's.
    pub reused_bytes: u64,
    /// Bytes of donated arguments that were copied, because another handle to them is alive.
    pub copied_bytes: u64,
}

#[derive(Default)]
struct Counters {
    calls: AtomicU64,
    reused: AtomicU64,
    copied: AtomicU64,
}

/// A jitted function: its name, its mode, and the code made so far.
pub struct Jitted {
    name: &'static str,
    strict: bool,
    cache: Cache<Key, Arc<dyn Any + Send + Sync>>,
    counters: Arc<Counters>,
}

static REPORTED: Mutex<Vec<(&'static str, Arc<Counters>)>> = Mutex::new(Vec::new());

/// How donation went, for each jitted function that was called.
pub fn donation_report() -> Vec<DonationReport> {
    let all = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter()
        .map(|(name, counters)| DonationReport {
            function: (*name).to_string(),
            calls: counters.calls.load(Relaxed),
            reused_bytes: counters.reused.load(Relaxed),
            copied_bytes: counters.copied.load(Relaxed),
        })
        .collect()
}

static DISABLED: AtomicBool = AtomicBool::new(false);

/// Makes jitted functions run their bodies operation by operation, for debugging; or undoes it.
pub fn disable_jit(disable: bool) {
    DISABLED.store(disable, Relaxed);
}

impl Jitted {
    /// A function by name. In strict mode a call that would have to copy a donated argument fails.
    pub fn new(name: &'static str, strict: bool) -> Jitted {
        let counters = Arc::new(Counters::default());
        let mut all = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name, Arc::clone(&counters)));
        Jitted { name, strict, cache: Cache::new(KEPT), counters }
    }

    /// How often calls found their code.
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Drops the code made so far.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }
}

/// A call whose arguments are being gathered.
pub struct Call<'a> {
    jitted: &'a Jitted,
    place: Place,
    leaves: Vec<Leaf>,
    structure: Structure,
}

struct Leaf {
    array: Array,
    donated: bool,
    name: &'static str,
    position: usize,
}

impl Leaf {
    /// For people.
    fn shown(&self) -> String {
        format!("array {} of `{}`", self.position, self.name)
    }
}

impl<'a> Call<'a> {
    /// A call without arguments.
    pub fn new(jitted: &'a Jitted, place: Place) -> Call<'a> {
        Call { jitted, place, leaves: Vec::new(), structure: Structure::default() }
    }

    /// Adds an argument.
    pub fn argument<A: Tree>(&mut self, name: &'static str, tree: &A, donated: bool) {
        let leaves = &mut self.leaves;
        let first = leaves.len();
        tree.visit(&Path::default(), &mut |_, array| {
            let position = leaves.len() - first;
            leaves.push(Leaf { array: array.clone(), donated, name, position });
        });
        self.structure.note(name);
        tree.structure(&mut self.structure);
    }

    /// Adds a static argument.
    pub fn constant<T: Hash + fmt::Debug + ?Sized>(&mut self, name: &str, value: &T) {
        self.structure.field(name, value);
    }

    /// Adds a static float, by its bits.
    pub fn constant_float(&mut self, name: &str, value: f64) {
        self.structure.field(name, &value.to_bits());
    }

    /// Gives a donated argument up: the call's own handles are the last ones.
    pub fn release<A: Tree>(&mut self, name: &'static str, tree: A) {
        let mut owned = Vec::new();
        tree.into_leaves(&mut owned);
        let mut owned = owned.into_iter();
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.name == name) {
            leaf.array = owned.next().expect("the leaves of the same tree");
        }
    }

    fn key(&self) -> Key {
        Key {
            types: self.leaves.iter().map(|leaf| leaf.array.ty().clone()).collect(),
            donated: self.leaves.iter().map(|leaf| leaf.donated).collect(),
            structure: self.structure.clone(),
        }
    }

    /// The body's form for these arguments: found, or traced.
    ///
    /// # Errors
    /// The first error that an argument, or a result of the body, holds; and those of donation.
    pub fn prepare<O: Output>(
        &mut self,
        body: impl FnOnce(&mut Arguments) -> O,
    ) -> Result<Prepared<O::Tree>> {
        self.check()?;
        let key = self.key();
        if let Some(entry) = self.jitted.cache.get(&key) {
            let entry = entry.downcast::<Entry<O::Tree>>();
            return Ok(Prepared(entry.expect("a function has one type of result")));
        }
        self.explain(&key);
        let (name, place) = (self.jitted.name, self.place);
        let traced = trace::trace(name, &key.types, place, |arrays| {
            let mut arguments = Arguments(arrays.into_iter());
            match body(&mut arguments).into_result() {
                Ok(tree) => Outcome(Ok(tree)),
                Err(error) => Outcome(Err((
                    Array::failed(TensorType::scalar(jaxrs_ir::DType::F32), error.clone()),
                    error,
                ))),
            }
        })?;
        let result = match traced.result.0 {
            Ok(tree) => tree,
            Err((_, error)) => return Err(error),
        };
        let donated =
            (0..self.leaves.len() as u32).filter(|&n| self.leaves[n as usize].donated).collect();
        let keep = traced.captures.iter().all(|array| array.buffer().is_some());
        let entry = Arc::new(Entry {
            function: traced.function,
            captures: traced.captures,
            result,
            donated,
            compiled: OnceLock::new(),
        });
        if keep {
            self.jitted.cache.insert(key, Arc::clone(&entry) as Arc<dyn Any + Send + Sync>);
        }
        Ok(Prepared(entry))
    }

    /// Errors before anything is traced or consumed.
    fn check(&self) -> Result<()> {
        for leaf in &self.leaves {
            if let Value::Failed(error) = leaf.array.value() {
                error.seen();
                return Err(error.clone());
            }
        }
        for (n, leaf) in self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.donated) {
            let same = |other: &&Leaf| other.array.identity() == leaf.array.identity();
            let rest =
                self.leaves[..n].iter().filter(|other| !other.donated).chain(&self.leaves[n + 1..]);
            if let Some(other) = rest.into_iter().find(same) {
                let how = if other.donated { "donated twice" } else { "donated and also read" };
                let message = format!(
                    "{}: one array is {how}, as {} and as {}",
                    self.jitted.name,
                    leaf.shown(),
                    other.shown()
                );
                return Err(Error::new(message, self.place)
                    .note("nothing was consumed; pass a copy: array.copy()"));
            }
        }
        Ok(())
    }

    /// Says why the function is traced again, if `JAXRS_LOG=retrace` asks for it.
    fn explain(&self, key: &Key) {
        static ASKED: LazyLock<bool> = LazyLock::new(|| {
            std::env::var("JAXRS_LOG").is_ok_and(|log| log.split(',').any(|word| word == "retrace"))
        });
        if !*ASKED {
            return;
        }
        let known = self.jitted.cache.keys();
        let closest = known.iter().min_by_key(|other| key.difference(other).len());
        let why = closest.map_or("first call".into(), |other| key.difference(other));
        eprintln!("{}: traced at {}: {why}", self.jitted.name, self.place);
    }

    /// Runs the function: its result. Donated arguments are used up.
    ///
    /// # Errors
    /// If code cannot be made, there is no memory, or, in strict mode, a donated array has other
    /// handles.
    pub fn run<R: Tree>(self, prepared: Prepared<R>) -> Result<R> {
        let (entry, place) = (prepared.0, self.place);
        if trace::is_tracing() {
            let arrays: Vec<Array> = self
                .leaves
                .into_iter()
                .map(|leaf| leaf.array)
                .chain(entry.captures.iter().cloned())
                .collect();
            return Ok(fill(&entry.result, trace::call(&entry.function, &arrays, place)));
        }
        let compiled = entry.compiled(place)?;
        let counters = &self.jitted.counters;
        let donors = entry.donated.len();
        if self.jitted.strict
            && let Some(shared) = self.leaves.iter().find(|l| l.donated && !l.array.is_unique())
        {
            let message = format!(
                "{}: {} is donated, but has other handles",
                self.jitted.name,
                shared.shown()
            );
            return Err(Error::new(message, place).note("drop the clones, or do without strict"));
        }
        let mut owned: Vec<Option<Buffer>> = Vec::with_capacity(donors);
        let mut kept: Vec<Option<Array>> = Vec::with_capacity(self.leaves.len());
        let mut donated_bytes = 0;
        for leaf in self.leaves {
            if !leaf.donated {
                owned.push(None);
                kept.push(Some(leaf.array));
                continue;
            }
            let bytes = leaf.array.ty().bytes();
            match leaf.array.into_buffer() {
                Ok(buffer) => {
                    donated_bytes += bytes;
                    owned.push(Some(buffer));
                    kept.push(None);
                }
                Err(shared) => {
                    counters.copied.fetch_add(bytes, Relaxed);
                    owned.push(None);
                    kept.push(Some(shared));
                }
            }
        }
        let mut arguments = Vec::with_capacity(kept.len() + entry.captures.len());
        for (owned, kept) in owned.into_iter().zip(&kept) {
            arguments.push(match (owned, kept) {
                (Some(buffer), _) => Argument::Donated(buffer),
                (None, Some(array)) => Argument::Borrowed(trace::memory_of(array, place)?),
                (None, None) => unreachable!("one or the other above"),
            });
        }
        for array in &entry.captures {
            arguments.push(Argument::Borrowed(trace::memory_of(array, place)?));
        }
        let (results, report) =
            compiled.call(arguments).map_err(|error| Error::new(error.to_string(), place))?;
        counters.calls.fetch_add(1, Relaxed);
        if donated_bytes > 0 {
            counters.reused.fetch_add(report.aliased_bytes as u64, Relaxed);
        }
        let arrays = results
            .into_iter()
            .zip(compiled.result_types())
            .map(|(buffer, ty)| Array::concrete(ty.clone(), buffer, place))
            .collect();
        Ok(fill(&entry.result, arrays))
    }
}

fn fill<R: Tree>(template: &R, arrays: Vec<Array>) -> R {
    let mut arrays = arrays.into_iter();
    template.map(|_| arrays.next().expect("an array for each leaf"))
}

/// A function ready to be called.
pub struct Prepared<R>(pub(crate) Arc<Entry<R>>);

impl<R: Tree> Prepared<R> {
    /// The function, to be looked at and compiled by hand.
    pub fn lowered(self) -> Lowered<R> {
        Lowered::new(self)
    }
}

/// The traced arguments of a body, in order.
pub struct Arguments(std::vec::IntoIter<Array>);

impl Arguments {
    /// The next argument, of the form of this tree.
    pub fn like<A: Tree>(&mut self, tree: &A) -> A {
        tree.map(|_| self.0.next().expect("a parameter for each leaf"))
    }
}

/// A body's result while it is traced: an error is a tree of one array that holds it.
struct Outcome<R>(std::result::Result<R, (Array, Error)>);

impl<R: Tree> Tree for Outcome<R> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        match &self.0 {
            Ok(tree) => tree.visit(path, f),
            Err((array, _)) => f(path, array),
        }
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        match &mut self.0 {
            Ok(tree) => tree.visit_mut(f),
            Err((array, _)) => f(array),
        }
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        Outcome(match &self.0 {
            Ok(tree) => Ok(tree.map_with_path(path, f)),
            Err((array, error)) => Err((f(path, array), error.clone())),
        })
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        match self.0 {
            Ok(tree) => tree.into_leaves(leaves),
            Err((array, _)) => leaves.push(array),
        }
    }

    fn structure(&self, structure: &mut Structure) {
        if let Ok(tree) = &self.0 {
            tree.structure(structure);
        }
    }
}

/// Whether jitted functions run their bodies operation by operation.
pub fn is_disabled() -> bool {
    DISABLED.load(Relaxed)
}

/// Compiles a closure over a tree: it is traced at the first call with each form of argument.
/// Arrays that it captures become arguments of the compiled function, not constants.
///
/// ```
/// use jaxrs::prelude::*;
/// let norm = jit(|x: &Array| x.square().sum(..).sqrt());
/// assert_eq!(norm(&Array::from_vec(vec![3.0f32, 4.0]))?.item::<f32>()?, 5.0);
/// # Ok::<(), jaxrs::Error>(())
/// ```
pub fn jit<A: Tree, O: Output>(f: impl Fn(&A) -> O) -> impl Fn(&A) -> Result<O::Tree> {
    let jitted = Jitted::new("closure", false);
    let place = Place::here();
    move |argument| {
        if is_disabled() {
            return f(argument).into_result();
        }
        let mut call = Call::new(&jitted, place);
        call.argument("argument", argument, false);
        let prepared = call.prepare(|arguments| f(&arguments.like(argument)))?;
        call.run(prepared)
    }
}

/// [`jit()`] with the argument donated: its memory becomes the results'.
pub fn jit_donate<A: Tree, O: Output>(f: impl Fn(A) -> O) -> impl Fn(A) -> Result<O::Tree> {
    let jitted = Jitted::new("closure", false);
    let place = Place::here();
    move |argument| {
        if is_disabled() {
            return f(argument).into_result();
        }
        let mut call = Call::new(&jitted, place);
        call.argument("argument", &argument, true);
        let prepared = call.prepare(|arguments| f(arguments.like(&argument)))?;
        call.release("argument", argument);
        call.run(prepared)
    }
}
