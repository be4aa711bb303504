//! `#[derive(Tree)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Result};

pub fn expand(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let name = &input.ident;
    let variants: Vec<Variant> = match &input.data {
        Data::Struct(data) => vec![Variant::new(quote!(#name), "", &data.fields)?],
        Data::Enum(data) if data.variants.is_empty() => {
            return Err(Error::new_spanned(name, "an enum without variants is no tree"));
        }
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let ident = &variant.ident;
                Variant::new(quote!(#name::#ident), &ident.to_string(), &variant.fields)
            })
            .collect::<Result<_>>()?,
        Data::Union(_) => return Err(Error::new_spanned(name, "a union is no tree")),
    };
    let visit = variants.iter().map(Variant::visit);
    let visit_mut = variants.iter().map(Variant::visit_mut);
    let map = variants.iter().map(Variant::map);
    let leaves = variants.iter().map(Variant::leaves);
    let structure = variants.iter().map(Variant::structure);
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(::jaxrs::Tree));
    }
    let (generics, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[allow(unused_variables)]
        impl #generics ::jaxrs::Tree for #name #arguments #bounds {
            fn visit(
                &self,
                path: &::jaxrs::tree::Path<'_>,
                f: &mut dyn ::core::ops::FnMut(&::jaxrs::tree::Path<'_>, &::jaxrs::Array),
            ) {
                match self { #(#visit)* }
            }

            fn visit_mut(&mut self, f: &mut dyn ::core::ops::FnMut(&mut ::jaxrs::Array)) {
                match self { #(#visit_mut)* }
            }

            fn map_with_path(
                &self,
                path: &::jaxrs::tree::Path<'_>,
                f: &mut dyn ::core::ops::FnMut(
                    &::jaxrs::tree::Path<'_>,
                    &::jaxrs::Array,
                ) -> ::jaxrs::Array,
            ) -> Self {
                match self { #(#map)* }
            }

            fn into_leaves(self, leaves: &mut ::std::vec::Vec<::jaxrs::Array>) {
                match self { #(#leaves)* }
            }

            fn structure(&self, structure: &mut ::jaxrs::tree::Structure) {
                match self { #(#structure)* }
            }
        }
    })
}

/// A struct, or a variant of an enum.
struct Variant {
    path: TokenStream,
    name: String,
    /// The pattern that binds each field, and what gives the value back.
    pattern: TokenStream,
    fields: Vec<Bound>,
}

/// A field and the name it is bound to.
struct Bound {
    binding: Ident,
    name: String,
    constant: bool,
}

impl Variant {
    fn new(path: TokenStream, name: &str, fields: &Fields) -> Result<Variant> {
        let mut bound = Vec::new();
        for (position, field) in fields.iter().enumerate() {
            bound.push(Bound {
                binding: format_ident!("field{position}"),
                name: field.ident.as_ref().map_or(position.to_string(), Ident::to_string),
                constant: is_static(field)?,
            });
        }
        let bindings = bound.iter().map(|field| &field.binding);
        let pattern = match fields {
            Fields::Named(named) => {
                let names = named.named.iter().map(|field| &field.ident);
                quote!({ #(#names: #bindings),* })
            }
            Fields::Unnamed(_) => quote!((#(#bindings),*)),
            Fields::Unit => quote!(),
        };
        Ok(Variant { path, name: name.to_string(), pattern, fields: bound })
    }

    /// A match arm with one statement for each field.
    fn arm(&self, statement: impl Fn(&Bound) -> TokenStream) -> TokenStream {
        let (path, pattern) = (&self.path, &self.pattern);
        let statements = self.fields.iter().map(statement);
        quote!(#path #pattern => { #(#statements)* })
    }

    fn visit(&self) -> TokenStream {
        self.arm(|Bound { binding, name, constant }| match constant {
            true => quote!(),
            false => quote!(::jaxrs::Tree::visit(#binding, &path.with(&#name), f);),
        })
    }

    fn visit_mut(&self) -> TokenStream {
        self.arm(|Bound { binding, constant, .. }| match constant {
            true => quote!(),
            false => quote!(::jaxrs::Tree::visit_mut(#binding, f);),
        })
    }

    fn leaves(&self) -> TokenStream {
        self.arm(|Bound { binding, constant, .. }| match constant {
            true => quote!(),
            false => quote!(::jaxrs::Tree::into_leaves(#binding, leaves);),
        })
    }

    fn structure(&self) -> TokenStream {
        let (path, pattern, variant) = (&self.path, &self.pattern, &self.name);
        let statements =
            self.fields.iter().map(|Bound { binding, name, constant }| match constant {
                true => quote!(structure.field(#name, #binding);),
                false => quote!(::jaxrs::Tree::structure(#binding, structure);),
            });
        quote!(#path #pattern => {
            structure.note(#variant);
            #(#statements)*
        })
    }

    fn map(&self) -> TokenStream {
        let (path, pattern) = (&self.path, &self.pattern);
        let values = self.fields.iter().map(|Bound { binding, name, constant }| match constant {
            true => quote!(let #binding = ::core::clone::Clone::clone(#binding);),
            false => quote! {
                let #binding = ::jaxrs::Tree::map_with_path(#binding, &path.with(&#name), f);
            },
        });
        quote!(#path #pattern => {
            #(#values)*
            #path #pattern
        })
    }
}

fn is_static(field: &Field) -> Result<bool> {
    let mut constant = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("tree")) {
        let list = attribute.meta.require_list()?;
        // `static` is a keyword, so it is no path.
        match list.tokens.to_string().as_str() {
            "static" => constant = true,
            other => {
                let message = format!("#[tree({other})] is not known; write #[tree(static)]");
                return Err(Error::new(Span::call_site(), message));
            }
        }
    }
    Ok(constant)
}
