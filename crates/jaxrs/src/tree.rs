//! Structures of arrays.

use crate::array::Array;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

/// The way from the root of a tree to a leaf; displays as e.g. `layers.0.weight`.
#[derive(Clone, Copy, Default)]
pub struct Path<'a>(Option<(&'a Path<'a>, &'a dyn fmt::Display)>);

impl Path<'_> {
    /// The way one step further.
    pub fn with<'b>(&'b self, step: &'b dyn fmt::Display) -> Path<'b> {
        Path(Some((self, step)))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((before, step)) = self.0 else { return Ok(()) };
        if before.0.is_some() {
            write!(f, "{before}.")?;
        }
        write!(f, "{step}")
    }
}

impl fmt::Debug for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What two trees have in common that only differ in their arrays: variants, lengths, static
/// fields. Equal structures have equal text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Structure(String);

impl Structure {
    /// Adds an array.
    pub fn array(&mut self) {
        self.0.push_str("*;");
    }

    /// Empties it; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a fact.
    pub fn note(&mut self, fact: impl fmt::Display) {
        write!(self.0, "{fact};").expect("a string takes all");
    }

    /// Adds a static field: its text is for people, its hash tells values apart.
    pub fn field<T: Hash + fmt::Debug + ?Sized>(&mut self, name: &str, value: &T) {
        let mut hasher = rustc_hash::FxHasher::default();
        value.hash(&mut hasher);
        write!(self.0, "{name}={value:?}#{:x};", hasher.finish()).expect("a string takes all");
    }

    /// The structure as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A structure of arrays: what [`crate::jit()`], [`crate::grad`] and the other transforms take and
/// give. Arrays, tuples, `Vec`, `Option`, `Box`, arrays of Rust, `BTreeMap` and `()` are trees;
/// structs and enums become trees by `#[derive(Tree)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of arrays",
    label = "not a tree of arrays",
    note = "derive it: #[derive(Tree)]; or name the argument in #[jit(static = [..])] if it is a \
            constant of the function"
)]
pub trait Tree: Sized {
    /// Calls `f` for each array, always in the same order, with the way to it.
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array));

    /// Calls `f` for each array, in the order of [`Tree::visit`], to change it.
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array));

    /// The tree with each array replaced, in the order of [`Tree::visit`].
    fn map_with_path(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array) -> Array)
    -> Self;

    /// Appends the arrays, in the order of [`Tree::visit`].
    fn into_leaves(self, leaves: &mut Vec<Array>);

    /// Writes down all but the arrays.
    fn structure(&self, structure: &mut Structure);

    /// The arrays.
    fn leaves(&self) -> Vec<Array> {
        let mut leaves = Vec::new();
        self.visit(&Path::default(), &mut |_, array| leaves.push(array.clone()));
        leaves
    }

    /// The tree with each array replaced.
    fn map(&self, mut f: impl FnMut(&Array) -> Array) -> Self {
        self.map_with_path(&Path::default(), &mut |_, array| f(array))
    }

    /// The tree with each array replaced by what `f` makes of it and the array in the same place
    /// of `other`. Where `other` has fewer arrays, the rest of this tree stays as it is.
    fn zip_map(&self, other: &Self, mut f: impl FnMut(&Array, &Array) -> Array) -> Self {
        let mut others = other.leaves().into_iter();
        self.map(|array| match others.next() {
            Some(other) => f(array, &other),
            None => array.clone(),
        })
    }
}

impl Tree for Array {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        f(path, self);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        f(self);
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        f(path, self)
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        leaves.push(self);
    }

    fn structure(&self, structure: &mut Structure) {
        structure.array();
    }
}

macro_rules! tuples {
    ($($($name:ident $position:tt),*;)*) => {
        $(impl<$($name: Tree),*> Tree for ($($name,)*) {
            #[allow(unused_variables)]
            fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
                $(self.$position.visit(&path.with(&$position), f);)*
            }

            #[allow(unused_variables)]
            fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
                $(self.$position.visit_mut(f);)*
            }

            #[allow(unused_variables, clippy::unused_unit)]
            fn map_with_path(
                &self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
            ) -> Self {
                ($(self.$position.map_with_path(&path.with(&$position), f),)*)
            }

            #[allow(unused_variables)]
            fn into_leaves(self, leaves: &mut Vec<Array>) {
                $(self.$position.into_leaves(leaves);)*
            }

            fn structure(&self, structure: &mut Structure) {
                structure.note('(');
                $(self.$position.structure(structure);)*
                structure.note(')');
            }
        })*
    };
}

tuples! {
    ;
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        for (position, tree) in self.iter().enumerate() {
            tree.visit(&path.with(&position), f);
        }
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        self.iter_mut().for_each(|tree| tree.visit_mut(f));
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        let one = |(position, tree): (usize, &T)| tree.map_with_path(&path.with(&position), f);
        self.iter().enumerate().map(one).collect()
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        self.into_iter().for_each(|tree| tree.into_leaves(leaves));
    }

    fn structure(&self, structure: &mut Structure) {
        structure.note(format_args!("[{}", self.len()));
        self.iter().for_each(|tree| tree.structure(structure));
        structure.note(']');
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        for (position, tree) in self.iter().enumerate() {
            tree.visit(&path.with(&position), f);
        }
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        self.iter_mut().for_each(|tree| tree.visit_mut(f));
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        std::array::from_fn(|position| self[position].map_with_path(&path.with(&position), f))
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        self.into_iter().for_each(|tree| tree.into_leaves(leaves));
    }

    fn structure(&self, structure: &mut Structure) {
        self.iter().for_each(|tree| tree.structure(structure));
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        if let Some(tree) = self {
            tree.visit(path, f);
        }
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        if let Some(tree) = self {
            tree.visit_mut(f);
        }
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        self.as_ref().map(|tree| tree.map_with_path(path, f))
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        if let Some(tree) = self {
            tree.into_leaves(leaves);
        }
    }

    fn structure(&self, structure: &mut Structure) {
        match self {
            Some(tree) => {
                structure.note("Some");
                tree.structure(structure);
            }
            None => structure.note("None"),
        }
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        (**self).visit(path, f);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        (**self).visit_mut(f);
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        Box::new((**self).map_with_path(path, f))
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        (*self).into_leaves(leaves);
    }

    fn structure(&self, structure: &mut Structure) {
        (**self).structure(structure);
    }
}

impl<K: Ord + Clone + fmt::Display, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        for (key, tree) in self {
            tree.visit(&path.with(key), f);
        }
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        self.values_mut().for_each(|tree| tree.visit_mut(f));
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        let one = |(key, tree): (&K, &T)| (key.clone(), tree.map_with_path(&path.with(key), f));
        self.iter().map(one).collect()
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        self.into_values().for_each(|tree| tree.into_leaves(leaves));
    }

    fn structure(&self, structure: &mut Structure) {
        structure.note('{');
        for (key, tree) in self {
            structure.note(format_args!("{key}:"));
            tree.structure(structure);
        }
        structure.note('}');
    }
}
