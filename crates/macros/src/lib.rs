//! `#[jit]` and `#[derive(Tree)]`: token work only; what they expand to is in the crate `jaxrs`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod jit;
mod tree;

use proc_macro::TokenStream;

/// Compiles a function over arrays: it is traced at the first call with each form of arguments.
///
/// `#[jit(donate = [params], static = [steps], strict)]`; arguments are named, or given by index.
/// * `donate`: the argument's memory becomes the results'; it is taken by value, so that using it
///   after the call does not compile.
/// * `static`: a constant of the function, not traced: anything that is `Hash + Debug`, and floats;
///   the function is traced for each value.
/// * `strict`: a call that would have to copy a donated array, because another handle to it is
///   alive, is an error.
///
/// A call that fails consumes nothing: its error has the donated arrays (`error.take_donated()`). In
/// a steady state a call allocates nothing on the heap but what its result's own containers need
/// (`Vec`, `Box`, ...); `Compiled::call_into` allocates nothing at all.
///
/// The function returns a tree, or `jaxrs::Result` of one; the generated one always the latter. A
/// number that is to be traced is a `Scalar<f32>`; callers pass `1e-2`, an `f32` or an array.
///
/// Beside the function there are `name::lower(..)`, which takes the arguments by reference, and
/// `name::cache_stats()`. Of a method `name` they are called `name_lower` and `name_cache_stats`.
#[proc_macro_attribute]
pub fn jit(options: TokenStream, item: TokenStream) -> TokenStream {
    jit::expand(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct or an enum of trees a tree. A field that is no tree is marked `#[tree(static)]`:
/// it must be `Clone + Hash + Debug`, and belongs to the structure.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn tree(item: TokenStream) -> TokenStream {
    tree::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
