//! `#[jit]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, Ident, ItemFn, LitInt, Pat, Result, ReturnType, Token, Type, bracketed};

pub fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options: Options = syn::parse2(options)?;
    let function: ItemFn = syn::parse2(item)?;
    check_form(&function)?;
    let arguments = arguments(&function, &options)?;
    Ok(Expansion { function, arguments, strict: options.strict }.tokens())
}

/// What stands in the attribute.
#[derive(Default)]
struct Options {
    donate: Vec<Name>,
    constants: Vec<Name>,
    strict: bool,
}

/// An argument by name or index.
enum Name {
    Ident(Ident),
    Index(usize, Span),
}

impl Parse for Name {
    fn parse(input: ParseStream<'_>) -> Result<Name> {
        if input.peek(LitInt) {
            let index: LitInt = input.parse()?;
            return Ok(Name::Index(index.base10_parse()?, index.span()));
        }
        Ok(Name::Ident(input.call(Ident::parse_any)?))
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            match word.to_string().as_str() {
                "strict" => options.strict = true,
                "donate" => options.donate = list(input)?,
                "static" => options.constants = list(input)?,
                other => {
                    let message = format!(
                        "`{other}` is no option of jit; there are donate = [..], static = [..] and \
                         strict"
                    );
                    return Err(Error::new(word.span(), message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// `= [a, 1]`.
fn list(input: ParseStream<'_>) -> Result<Vec<Name>> {
    input.parse::<Token![=]>()?;
    let content;
    bracketed!(content in input);
    let names = Punctuated::<Name, Token![,]>::parse_terminated(&content)?;
    Ok(names.into_iter().collect())
}

fn check_form(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    let wrong = |span: Span, message: &str| Err(Error::new(span, message));
    if !signature.generics.params.is_empty() {
        return wrong(
            signature.generics.span(),
            "a generic function cannot be jitted: its code is kept in one place for all calls; \
             write one function for each type, or call jit(closure) inside the generic function",
        );
    }
    if let Some(token) = &signature.asyncness {
        return wrong(token.span(), "an async function cannot be traced");
    }
    if let Some(token) = &signature.unsafety {
        return wrong(token.span(), "an unsafe function cannot be traced");
    }
    if let Some(token) = &signature.variadic {
        return wrong(token.span(), "a variadic function cannot be traced");
    }
    Ok(())
}

/// What an argument is to the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Traced,
    Donated,
    Static,
}

struct Argument {
    name: Ident,
    ty: Type,
    role: Role,
    /// `self`.
    receiver: bool,
}

const NUMBERS: [&str; 16] = [
    "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128",
    "usize", "bool", "char",
];

fn arguments(function: &ItemFn, options: &Options) -> Result<Vec<Argument>> {
    let mut arguments = Vec::new();
    for input in &function.sig.inputs {
        arguments.push(match input {
            FnArg::Receiver(receiver) => {
                if receiver.reference.is_some() && receiver.mutability.is_some() {
                    return Err(Error::new_spanned(
                        receiver,
                        "a traced function changes nothing in place; take `self` by value, donate it, \
                         and return the new value",
                    ));
                }
                Argument {
                    name: Ident::new("self", receiver.self_token.span()),
                    ty: (*receiver.ty).clone(),
                    role: Role::Traced,
                    receiver: true,
                }
            }
            FnArg::Typed(typed) => {
                let Pat::Ident(pattern) = &*typed.pat else {
                    return Err(Error::new_spanned(
                        &typed.pat,
                        "an argument of a jitted function needs a name; take it apart in the body",
                    ));
                };
                Argument {
                    name: pattern.ident.clone(),
                    ty: (*typed.ty).clone(),
                    role: Role::Traced,
                    receiver: false,
                }
            }
        });
    }
    for (names, role) in [(&options.donate, Role::Donated), (&options.constants, Role::Static)] {
        for name in names {
            let (position, span) = find(name, &arguments)?;
            if arguments[position].role != Role::Traced {
                return Err(Error::new(span, "the argument is named twice"));
            }
            arguments[position].role = role;
        }
    }
    arguments.iter().try_for_each(check_argument)?;
    Ok(arguments)
}

fn find(name: &Name, arguments: &[Argument]) -> Result<(usize, Span)> {
    let all = || {
        let names: Vec<String> =
            arguments.iter().enumerate().map(|(n, a)| format!("{n}: {}", a.name)).collect();
        names.join(", ")
    };
    match name {
        Name::Index(index, span) if *index < arguments.len() => Ok((*index, *span)),
        Name::Index(index, span) => {
            let message = format!("there is no argument {index}; there are {}", all());
            Err(Error::new(*span, message))
        }
        Name::Ident(ident) => arguments
            .iter()
            .position(|argument| argument.name == *ident)
            .map(|position| (position, ident.span()))
            .ok_or_else(|| {
                Error::new(
                    ident.span(),
                    format!("there is no argument `{ident}`; there are {}", all()),
                )
            }),
    }
}

fn check_argument(argument: &Argument) -> Result<()> {
    let (name, ty) = (&argument.name, &argument.ty);
    if argument.role == Role::Donated
        && let Type::Reference(reference) = ty
    {
        let owned = &reference.elem;
        let message = format!(
            "`{name}` is donated, so it must be taken by value: `{name}: {}`; the call uses it up",
            quote!(#owned)
        );
        return Err(Error::new_spanned(ty, message));
    }
    if let Type::Reference(reference) = ty
        && reference.mutability.is_some()
    {
        let message = format!(
            "a traced function changes nothing in place; take `{name}` by value, donate it, and \
             return the new value"
        );
        return Err(Error::new_spanned(ty, message));
    }
    if argument.role != Role::Static
        && let Some(number) = number(ty)
    {
        let scalar = if number == "usize" || number == "isize" { "i32" } else { &number };
        let message = format!(
            "is `{name}` traced, or a constant? To trace it, take `{name}: Scalar<{scalar}>` (callers \
             still pass a number); to compile the function for each value of it, name it in \
             #[jit(static = [{name}])]"
        );
        return Err(Error::new_spanned(ty, message));
    }
    if matches!(ty, Type::ImplTrait(_)) {
        let message = "an `impl Trait` argument makes the function generic, and a generic function \
                       cannot be jitted: name the type";
        return Err(Error::new_spanned(ty, message));
    }
    Ok(())
}

/// The last word of a type's path.
fn word(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn number(ty: &Type) -> Option<String> {
    let name = word(ty)?.ident.to_string();
    NUMBERS.contains(&name.as_str()).then_some(name)
}

struct Expansion {
    function: ItemFn,
    arguments: Vec<Argument>,
    strict: bool,
}

impl Expansion {
    fn is_method(&self) -> bool {
        self.arguments.first().is_some_and(|argument| argument.receiver)
    }

    /// The tree that the function gives: `T` of `T` or `Result<T>`.
    fn tree(&self) -> TokenStream {
        let ReturnType::Type(_, ty) = &self.function.sig.output else { return quote!(()) };
        if let Some(segment) = word(ty)
            && segment.ident == "Result"
            && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
        {
            return quote!(#inner);
        }
        quote!(#ty)
    }

    fn tokens(&self) -> TokenStream {
        let name = &self.function.sig.ident;
        if self.is_method() {
            let prefix = format_ident!("{name}_");
            let (body, site) = (format_ident!("__{name}_body"), format_ident!("__{name}_site"));
            let hidden = self.hidden(&body, &site);
            let wrapper = self.wrapper(&quote!(Self::#body), &quote!(Self::#site));
            let stages = self.stages(
                &quote!(Self::#body),
                &quote!(Self::#site),
                &format_ident!("{prefix}lower"),
                &format_ident!("{prefix}cache_stats"),
            );
            return quote!(#hidden #wrapper #stages);
        }
        let (body, site) = (format_ident!("__body"), format_ident!("__site"));
        let hidden = self.hidden(&body, &site);
        let wrapper = self.wrapper(&quote!(#name::#body), &quote!(#name::#site));
        let stages = self.stages(
            &quote!(Self::#body),
            &quote!(Self::#site),
            &format_ident!("lower"),
            &format_ident!("cache_stats"),
        );
        let visibility = &self.function.vis;
        let doc = format!("The stages of the jitted function [`{name}`]: `{name}::lower(..)`.");
        quote! {
            #wrapper

            #[doc = #doc]
            #[allow(non_camel_case_types)]
            #visibility enum #name {}

            impl #name {
                #hidden
                #stages
            }
        }
    }

    /// The body as it was written, and the place of its code.
    fn hidden(&self, body: &Ident, site: &Ident) -> TokenStream {
        let signature = &self.function.sig;
        let (inputs, output, block) = (&signature.inputs, &signature.output, &self.function.block);
        let (name, strict) = (signature.ident.to_string(), self.strict);
        quote! {
            #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
            fn #body(#inputs) #output #block

            fn #site() -> &'static ::jaxrs::jit::Jitted {
                static SITE: ::std::sync::LazyLock<::jaxrs::jit::Jitted> =
                    ::std::sync::LazyLock::new(|| {
                        ::jaxrs::jit::Jitted::new(::core::concat!(::core::module_path!(), "::", #name), #strict)
                    });
                &SITE
            }
        }
    }

    /// Whether callers may pass anything that becomes the argument's type.
    fn converts(argument: &Argument) -> bool {
        word(&argument.ty).is_some_and(|segment| segment.ident == "Scalar")
    }

    /// The parameters of a generated function; `lower` takes all by reference.
    fn parameters(&self, by_reference: bool) -> Vec<TokenStream> {
        let parameter = |argument: &Argument| {
            let Argument { name, ty, role, receiver } = argument;
            if *receiver {
                let by_value = !matches!(ty, Type::Reference(_));
                return if by_value && !by_reference { quote!(self) } else { quote!(&self) };
            }
            if Self::converts(argument) {
                return quote!(#name: impl ::core::convert::Into<#ty>);
            }
            let reference = matches!(ty, Type::Reference(_));
            if by_reference && !reference && *role != Role::Static {
                return quote!(#name: &#ty);
            }
            quote!(#name: #ty)
        };
        self.arguments.iter().map(parameter).collect()
    }

    /// Statements that make `call` of the arguments; `by_reference`: all are references.
    fn gather(&self, site: &TokenStream, by_reference: bool) -> TokenStream {
        let each = self.arguments.iter().map(|argument| {
            let Argument { name, ty, role, .. } = argument;
            let text = name.to_string();
            let lent = match ty {
                Type::Reference(_) => quote!(#name),
                _ if by_reference && !Self::converts(argument) => quote!(#name),
                _ => quote!(&#name),
            };
            let span = ty.span();
            match role {
                Role::Static => match number(ty).as_deref() {
                    Some("f32" | "f64") => {
                        quote!(call.constant_float(#text, ::core::convert::From::from(#name));)
                    }
                    _ => {
                        let lent = if matches!(ty, Type::Reference(_)) {
                            quote!(#name)
                        } else {
                            quote!(&#name)
                        };
                        quote!(call.constant(#text, #lent);)
                    }
                },
                role => {
                    let donated = *role == Role::Donated;
                    quote_spanned!(span=> call.argument(#text, #lent, #donated);)
                }
            }
        });
        quote! {
            let mut call = ::jaxrs::jit::Call::new(#site(), ::jaxrs::Place::here());
            #(#each)*
        }
    }

    /// `Scalar`s from what callers pass.
    fn conversions(&self) -> TokenStream {
        let each = self.arguments.iter().filter(|a| Self::converts(a)).map(|argument| {
            let Argument { name, ty, .. } = argument;
            quote!(let #name: #ty = ::core::convert::Into::into(#name);)
        });
        quote!(#(#each)*)
    }

    /// The closure that runs the body on traced arguments.
    fn traced(&self, body: &TokenStream, by_reference: bool) -> TokenStream {
        let mut statements = Vec::new();
        let mut passed = Vec::new();
        for (position, argument) in self.arguments.iter().enumerate() {
            let Argument { name, ty, role, .. } = argument;
            let traced = format_ident!("traced{position}");
            if *role == Role::Static {
                passed.push(match ty {
                    Type::Reference(_) => quote!(#name),
                    _ => quote!(::core::clone::Clone::clone(&#name)),
                });
                continue;
            }
            let reference = matches!(ty, Type::Reference(_));
            let lent = match reference || (by_reference && !Self::converts(argument)) {
                true => quote!(#name),
                false => quote!(&#name),
            };
            statements.push(quote!(let #traced = arguments.like(#lent);));
            passed.push(if reference { quote!(&#traced) } else { quote!(#traced) });
        }
        quote! {
            |arguments: &mut ::jaxrs::jit::Arguments| {
                #(#statements)*
                #body(#(#passed),*)
            }
        }
    }

    fn wrapper(&self, body: &TokenStream, site: &TokenStream) -> TokenStream {
        let ItemFn { attrs, vis, sig, .. } = &self.function;
        let (name, tree) = (&sig.ident, self.tree());
        let parameters = self.parameters(false);
        let (conversions, gather) = (self.conversions(), self.gather(site, false));
        let traced = self.traced(body, false);
        let names: Vec<&Ident> = self.arguments.iter().map(|argument| &argument.name).collect();
        let release = self.arguments.iter().filter(|a| a.role == Role::Donated).map(|argument| {
            let name = &argument.name;
            let text = name.to_string();
            quote!(call.release(#text, #name);)
        });
        quote! {
            #(#attrs)*
            #[track_caller]
            #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
            #vis fn #name(#(#parameters),*) -> ::jaxrs::Result<#tree> {
                #conversions
                if ::jaxrs::jit::is_disabled() {
                    return ::jaxrs::jit::Output::into_result(#body(#(#names),*));
                }
                #gather
                let prepared = call.prepare(#traced)?;
                #(#release)*
                call.run(prepared)
            }
        }
    }

    fn stages(
        &self,
        body: &TokenStream,
        site: &TokenStream,
        lower: &Ident,
        stats: &Ident,
    ) -> TokenStream {
        let tree = self.tree();
        let visibility = &self.function.vis;
        let parameters = self.parameters(true);
        let (conversions, gather) = (self.conversions(), self.gather(site, true));
        let traced = self.traced(body, true);
        quote! {
            /// Traces the function for arguments of this form; arrays may be shapes alone.
            ///
            /// # Errors
            /// The first error that an argument or a result holds.
            #[track_caller]
            #[allow(dead_code, clippy::needless_pass_by_value, clippy::too_many_arguments)]
            #visibility fn #lower(#(#parameters),*) -> ::jaxrs::Result<::jaxrs::Lowered<#tree>> {
                #conversions
                #gather
                ::core::result::Result::Ok(call.prepare(#traced)?.lowered())
            }

            /// How often calls found their code.
            #[allow(dead_code)]
            #visibility fn #stats() -> ::jaxrs::CacheStats {
                #site().cache_stats()
            }
        }
    }
}
