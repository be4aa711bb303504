//! [`jit()`], and what `#[jit]` expands to: functions that are traced once for each form of their
//! arguments, compiled, and called with donation.

use crate::array::Array;
use crate::cache::{Cache, CacheStats};
use crate::compile::Compiled;
use crate::donation::Counters;
use crate::dump;
use crate::eager;
use crate::error::{Error, Place, Result};
use crate::invoke::{Frame, Leaf};
use crate::stages::Lowered;
use crate::trace;
use crate::transform::fill;
use crate::tree::{Path, Structure, Tree};
use jaxrs_ir::{Function, TensorType};
use rustc_hash::FxHasher;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

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
    fn new(frame: &Frame) -> Key {
        Key {
            types: frame.leaves.iter().map(|leaf| leaf.array.ty().clone()).collect(),
            donated: frame.leaves.iter().map(|leaf| leaf.donated).collect(),
            structure: frame.structure.clone(),
        }
    }

    /// A hash of the key that [`Key::new`] would make.
    fn hash_of(frame: &Frame) -> u64 {
        let mut hasher = FxHasher::default();
        for leaf in &frame.leaves {
            (leaf.array.ty(), leaf.donated).hash(&mut hasher);
        }
        frame.structure.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether [`Key::new`] would make this key.
    fn is_of(&self, frame: &Frame) -> bool {
        let mut leaves = self.types.iter().zip(&self.donated).zip(&frame.leaves);
        self.types.len() == frame.leaves.len()
            && self.structure == frame.structure
            && leaves.all(|((ty, &donated), leaf)| donated == leaf.donated && ty == leaf.array.ty())
    }

    /// What differs from another form, for people.
    fn differences(&self, other: &Key) -> Vec<String> {
        let mut differ = Vec::new();
        if self.types.len() == other.types.len() {
            let pairs = self.types.iter().zip(&other.types).enumerate();
            let pairs = pairs.filter(|(_, (new, old))| new != old);
            differ.extend(pairs.map(|(n, (new, old))| format!("array {n} is {new}, was {old}")));
        } else {
            differ.push(format!("{} arrays, before {}", self.types.len(), other.types.len()));
        }
        if self.structure != other.structure {
            let (new, old) = (self.structure.as_str(), other.structure.as_str());
            differ.push(format!("the structure or a static value is {new}, was {old}"));
        }
        if self.donated != other.donated {
            differ.push("the donated arguments differ".into());
        }
        differ
    }
}

/// A traced body.
pub(crate) struct Entry<R> {
    pub(crate) function: Function,
    pub(crate) captures: Vec<Array>,
    pub(crate) result: R,
    pub(crate) donated: Vec<u32>,
    pub(crate) strict: bool,
    pub(crate) compiled: OnceLock<Compiled>,
    /// Whether it was called.
    called: AtomicBool,
}

impl<R> Entry<R> {
    /// A function that is compiled already.
    pub(crate) fn ready(
        function: Function,
        result: R,
        donated: Vec<u32>,
        compiled: Compiled,
    ) -> Entry<R> {
        let compiled = OnceLock::from(compiled);
        Entry {
            function,
            captures: Vec::new(),
            result,
            donated,
            strict: false,
            compiled,
            called: AtomicBool::new(false),
        }
    }

    pub(crate) fn compiled(&self, place: Place) -> Result<&Compiled> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let compiled = eager::compile(&self.function, self.donated.clone(), place)?;
        Ok(self.compiled.get_or_init(|| compiled))
    }
}

/// A jitted function: its name, its mode, and the code made so far.
pub struct Jitted {
    name: &'static str,
    strict: bool,
    cache: Cache<Key, Arc<dyn Any + Send + Sync>>,
    counters: Arc<Counters>,
}

static DISABLED: AtomicBool = AtomicBool::new(false);

/// Makes jitted functions run their bodies operation by operation, for debugging; or undoes it.
pub fn disable_jit(disable: bool) {
    DISABLED.store(disable, Relaxed);
}

impl Jitted {
    /// A function by name. In strict mode a call that would have to copy a donated argument fails.
    pub fn new(name: &'static str, strict: bool) -> Jitted {
        let counters = Counters::new(name);
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
    frame: Frame,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        std::mem::take(&mut self.frame).give_back();
    }
}

impl<'a> Call<'a> {
    /// A call without arguments.
    pub fn new(jitted: &'a Jitted, place: Place) -> Call<'a> {
        Call { jitted, place, frame: Frame::take() }
    }

    /// Adds an argument.
    pub fn argument<A: Tree>(&mut self, name: &'static str, tree: &A, donated: bool) {
        let leaves = &mut self.frame.leaves;
        let first = leaves.len();
        tree.visit(&Path::default(), &mut |_, array| {
            leaves.push(Leaf::new(array.clone(), donated, name, leaves.len() - first));
        });
        self.frame.structure.note(name);
        tree.structure(&mut self.frame.structure);
    }

    /// Adds a static argument.
    pub fn constant<T: Hash + fmt::Debug + ?Sized>(&mut self, name: &str, value: &T) {
        self.frame.structure.field(name, value);
    }

    /// Adds a static float, by its bits.
    pub fn constant_float(&mut self, name: &str, value: f64) {
        self.frame.structure.field(name, &value.to_bits());
    }

    /// Gives a donated argument up: the call's own handles are the last ones.
    pub fn release<A: Tree>(&mut self, name: &'static str, tree: A) {
        let Frame { leaves, passing, .. } = &mut self.frame;
        tree.into_leaves(passing);
        let mut owned = passing.drain(..);
        for leaf in leaves.iter_mut().filter(|leaf| leaf.name == name) {
            leaf.array = owned.next().expect("the leaves of the same tree");
        }
    }

    /// The body's form for these arguments: found, or traced.
    ///
    /// # Errors
    /// The first error that an argument, or a result of the body, holds; and those of donation.
    /// Nothing is consumed then: the error has the donated arrays.
    pub fn prepare<O: Output>(
        &mut self,
        body: impl FnOnce(&mut Arguments) -> O,
    ) -> Result<Prepared<O::Tree>> {
        self.form(body).map_err(|error| self.frame.keep(error))
    }

    fn form<O: Output>(
        &mut self,
        body: impl FnOnce(&mut Arguments) -> O,
    ) -> Result<Prepared<O::Tree>> {
        self.frame.check(self.jitted.name, self.place)?;
        let hash = Key::hash_of(&self.frame);
        if let Some(entry) = self.jitted.cache.find(hash, |key| key.is_of(&self.frame)) {
            let entry = entry.downcast::<Entry<O::Tree>>();
            return Ok(Prepared(entry.expect("a function has one type of result")));
        }
        let key = Key::new(&self.frame);
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
        let leaves = self.frame.leaves.iter().enumerate();
        let donated = leaves.filter(|(_, leaf)| leaf.donated).map(|(n, _)| n as u32).collect();
        let keep = traced.captures.iter().all(|array| array.buffer().is_some());
        let entry = Arc::new(Entry {
            function: traced.function,
            captures: traced.captures,
            result,
            donated,
            strict: self.jitted.strict,
            compiled: OnceLock::new(),
            called: AtomicBool::new(false),
        });
        if keep {
            self.jitted.cache.insert(hash, key, Arc::clone(&entry) as Arc<dyn Any + Send + Sync>);
        }
        Ok(Prepared(entry))
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
        let closest = known.iter().map(|other| key.differences(other)).min_by_key(Vec::len);
        let why = closest.map_or("first call".into(), |differences| differences.join("; "));
        eprintln!("{}: traced at {}: {why}", self.jitted.name, self.place);
    }

    /// Runs the function: its result. Donated arguments are used up.
    ///
    /// # Errors
    /// If code cannot be made, there is no memory, or, in strict mode, a donated array has other
    /// handles. Nothing is consumed then: the error has the donated arrays.
    pub fn run<R: Tree>(mut self, prepared: Prepared<R>) -> Result<R> {
        let (entry, place) = (prepared.0, self.place);
        let frame = &mut self.frame;
        if trace::is_tracing() {
            let leaves = frame.leaves.drain(..).map(|leaf| leaf.array);
            let arrays: Vec<Array> = leaves.chain(entry.captures.iter().cloned()).collect();
            return Ok(fill(&entry.result, trace::call(&entry.function, &arrays, place)));
        }
        let first = !entry.called.swap(true, Relaxed);
        let prepared = Prepared(entry);
        let dump = if first {
            let arrays = frame.leaves.iter().map(|leaf| &leaf.array);
            dump::begin(self.jitted.name, &prepared, arrays.chain(&prepared.0.captures))
        } else {
            None
        };
        let entry = prepared.0;
        let donation = entry
            .compiled(place)
            .and_then(|compiled| {
                frame.run(compiled, &entry.captures, entry.strict, self.jitted.name, place)
            })
            .map_err(|error| frame.keep(error))?;
        self.jitted.counters.count(donation);
        if let Some(dump) = dump {
            dump.finish(&frame.results);
        }
        let mut results = frame.results.drain(..);
        Ok(entry.result.map(|_| results.next().expect("an array for each leaf")))
    }
}

/// A function ready to be called.
pub struct Prepared<R>(pub(crate) Arc<Entry<R>>);

impl<R> Clone for Prepared<R> {
    fn clone(&self) -> Prepared<R> {
        Prepared(Arc::clone(&self.0))
    }
}

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
