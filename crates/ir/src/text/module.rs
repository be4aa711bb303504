//! Modules and functions.

use super::lexer::{Place, Token, shorten, unescape};
use super::parser::{Parse, Parser, place_location};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::error::{Error, Errors};
use crate::function::{Function, Module};

/// A function's head as its pretty or generic form gives it.
struct Head<'a> {
    name: String,
    public: bool,
    /// Names are empty in a declaration.
    parameters: Vec<(&'a str, Type<'a>, Place)>,
    parameter_attributes: Vec<Attributes>,
    results: Vec<Type<'a>>,
    result_attributes: Vec<Attributes>,
}

impl<'a> Parser<'a> {
    /// The whole text.
    pub(super) fn parse(mut self, file: &str) -> Result<Module, Errors> {
        let mut module =
            Module { name: "module".into(), attributes: Attributes::new(), functions: Vec::new() };
        let fatal = self.top(&mut module).err();
        let mut errors = self.take_errors();
        errors.extend(fatal.map(|error| *error));
        if errors.is_empty() && self.functions.is_empty() {
            let place = self.lex.start;
            let message = "the text has no function: a program needs a func.func @main";
            errors.push(Error::new(message, &place_location(place)));
        }
        if !errors.is_empty() {
            return Err(Errors { file: file.into(), errors });
        }
        for (function, op, location) in std::mem::take(&mut self.located) {
            let op = &mut self.functions[function].ops[op];
            self.locations.fill(&location, &mut op.location);
        }
        module.functions = self.functions;
        Ok(module)
    }

    fn top(&mut self, module: &mut Module) -> Parse<()> {
        let mut seen = false;
        loop {
            match self.lex.token {
                Token::End => return Ok(()),
                Token::Word("module") | Token::Text("builtin.module") => {
                    if seen {
                        return Err(self.error_here("the text has more than one module"));
                    }
                    seen = true;
                    self.module(module)?;
                }
                _ => self.module_item()?,
            }
        }
    }

    fn module(&mut self, module: &mut Module) -> Parse<()> {
        let generic = matches!(self.lex.token, Token::Text(_));
        self.lex.bump();
        if generic {
            self.expect(b'(')?;
            self.expect(b')')?;
            if self.accept(b'<') {
                module.attributes = self.attribute_dict()?;
                self.expect(b'>')?;
            }
            self.expect(b'(')?;
        } else {
            if let Token::Symbol(name) = self.lex.token {
                module.name = unescape(name);
                self.lex.bump();
            }
            if self.accept_word("attributes") {
                module.attributes = self.attribute_dict()?;
            }
        }
        self.expect(b'{')?;
        if let Token::Caret(_) = self.lex.token {
            self.lex.bump();
            self.expect(b':')?;
        }
        while !self.accept(b'}') {
            match self.lex.token {
                Token::Word("module") | Token::Text("builtin.module") => {
                    return Err(self.error_here("modules inside a module are not supported"));
                }
                Token::End => return Err(self.expected("`}` at the end of the module")),
                _ => self.module_item()?,
            }
        }
        if generic {
            self.expect(b')')?;
            let more = self.optional_dict()?;
            module.attributes.0.extend(more.0);
            self.expect(b':')?;
            self.function_type()?;
            if let Some(Attribute::String(name)) = module.attributes.take("sym_name") {
                module.name = name;
            }
        }
        self.trailing_location()?;
        Ok(())
    }

    /// A function, an alias, or something else that stands in a module.
    fn module_item(&mut self) -> Parse<()> {
        match self.lex.token {
            Token::Word("func.func" | "func") => {
                self.lex.bump();
                self.function()
            }
            Token::Text("func.func") => {
                self.lex.bump();
                self.generic_function()
            }
            Token::Hash(name) => {
                self.lex.bump();
                self.expect(b'=')?;
                if self.lex.token == Token::Word("loc") {
                    self.location_alias(name)
                } else {
                    self.attribute_alias(name)
                }
            }
            Token::Bang(name) => {
                self.lex.bump();
                self.expect(b'=')?;
                let start = self.lex.start.offset;
                let ty = match self.parse_type()? {
                    // Its uses could double its size again and again.
                    Type::Function(..) => Type::Unsupported(
                        &self.lex.text[start..self.lex.before],
                        "an alias of a function's type is not supported".into(),
                    ),
                    ty => ty,
                };
                self.type_aliases.insert(name, ty);
                Ok(())
            }
            Token::ResourcesOpen => {
                while !matches!(self.lex.token, Token::ResourcesClose | Token::End) {
                    self.lex.bump();
                }
                self.lex.bump();
                Ok(())
            }
            // Meshes of devices: what refers to them are attributes that one device ignores.
            Token::Word(name) if name.starts_with("sdy.") => {
                self.lex.bump();
                self.skip_operation()
            }
            Token::Word(name) | Token::Text(name) => {
                let place = self.lex.start;
                self.report_op(super::ops::unsupported(name), place, None);
                self.lex.bump();
                self.skip_operation()
            }
            _ => Err(self.expected("a function (func.func)")),
        }
    }

    fn function(&mut self) -> Parse<()> {
        let place = self.lex.start;
        let mut public = true;
        if let Token::Word(visibility @ ("public" | "private" | "nested")) = self.lex.token {
            public = visibility == "public";
            self.lex.bump();
        }
        let Token::Symbol(name) = self.lex.token else {
            return Err(self.expected("the function's name"));
        };
        self.lex.bump();
        let mut head = Head {
            name: unescape(name),
            public,
            parameters: Vec::new(),
            parameter_attributes: Vec::new(),
            results: Vec::new(),
            result_attributes: Vec::new(),
        };
        self.expect(b'(')?;
        if !self.accept(b')') {
            loop {
                self.parameter(&mut head)?;
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b')')?;
        }
        if self.lex.token == Token::Arrow {
            self.lex.bump();
            self.declared_results(&mut head)?;
        }
        if self.accept_word("attributes") {
            self.attribute_dict()?;
        }
        if self.lex.token != Token::Punct(b'{') {
            let message = format!("@{} is only declared: its body is missing", head.name);
            self.report(message, place);
            self.trailing_location()?;
            return Ok(());
        }
        self.begin(&head, place);
        for (name, ty, place) in std::mem::take(&mut head.parameters) {
            let body = self.function.body;
            self.argument(body, name, ty, place);
        }
        self.block(self.function.body)?;
        self.end(head, place)
    }

    /// `%name: type {attributes} loc(...)`, or only `type {attributes}`.
    fn parameter(&mut self, head: &mut Head<'a>) -> Parse<()> {
        let place = self.lex.start;
        let mut name = "";
        if let Token::Value(given) = self.lex.token {
            name = given;
            self.lex.bump();
            self.expect(b':')?;
        }
        let ty = self.parse_type()?;
        head.parameters.push((name, ty, place));
        let attributes = self.optional_dict()?;
        head.parameter_attributes.push(without_sharding(attributes));
        self.trailing_location()?;
        Ok(())
    }

    fn declared_results(&mut self, head: &mut Head<'a>) -> Parse<()> {
        if !self.accept(b'(') {
            head.results.push(self.parse_type()?);
            head.result_attributes.push(Attributes::new());
            return Ok(());
        }
        if self.accept(b')') {
            return Ok(());
        }
        loop {
            head.results.push(self.parse_type()?);
            let attributes = self.optional_dict()?;
            head.result_attributes.push(without_sharding(attributes));
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b')')
    }

    /// `"func.func"() <{sym_name = ..., function_type = ...}> ({...}) : () -> ()`.
    fn generic_function(&mut self) -> Parse<()> {
        let place = self.lex.start;
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attributes = Attributes::new();
        let mut results = Vec::new();
        let bracketed = self.accept(b'<');
        // Its types are needed as types, so that the dictionary is read here.
        if bracketed {
            results = self.function_properties(&mut attributes)?;
            self.expect(b'>')?;
        }
        let Some(Attribute::String(name)) = attributes.take("sym_name") else {
            return Err(self.error_here("\"func.func\" needs properties with a sym_name"));
        };
        let public = match attributes.take("sym_visibility") {
            Some(Attribute::String(visibility)) => visibility == "public",
            _ => true,
        };
        let dicts = |value: Option<Attribute>| match value {
            Some(Attribute::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    Attribute::Dict(attributes) => attributes,
                    _ => Attributes::new(),
                })
                .collect(),
            _ => Vec::new(),
        };
        let head = Head {
            name,
            public,
            parameters: Vec::new(),
            parameter_attributes: dicts(attributes.take("arg_attrs")),
            result_attributes: dicts(attributes.take("res_attrs")),
            results,
        };
        self.expect(b'(')?;
        self.begin(&head, place);
        self.block(self.function.body)?;
        self.expect(b')')?;
        self.optional_dict()?;
        self.expect(b':')?;
        self.function_type()?;
        self.end(head, place)
    }

    /// The properties of a generic function; the result types of its `function_type`.
    fn function_properties(&mut self, attributes: &mut Attributes) -> Parse<Vec<Type<'a>>> {
        let mut results = Vec::new();
        self.expect(b'{')?;
        while let Token::Word(name) = self.lex.token {
            self.lex.bump();
            if self.accept(b'=') {
                if name == "function_type" {
                    results = self.function_type()?.1;
                } else {
                    let value = self.attribute()?;
                    attributes.0.push((name.into(), value));
                }
            }
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(results)
    }

    fn begin(&mut self, head: &Head<'a>, place: Place) {
        self.clear_names();
        self.function = Function::new(head.name.clone());
        self.function.public = head.public;
        self.function.location = place_location(place);
        if !self.function_names.insert(head.name.clone()) {
            self.report(format!("@{} is defined twice", head.name), place);
        }
    }

    fn end(&mut self, mut head: Head<'a>, place: Place) -> Parse<()> {
        if let Some(location) = self.trailing_location()? {
            let mut resolved = std::mem::take(&mut self.function.location);
            self.locations.fill(&location, &mut resolved);
            self.function.location = resolved;
        }
        let returned = self.function.results().to_vec();
        if !self.poisoned_blocks.contains(&self.function.body) {
            if returned.len() != head.results.len() {
                let message = format!(
                    "@{} returns {} value(s), but its type has {}",
                    head.name,
                    returned.len(),
                    head.results.len()
                );
                self.report(message, place);
            }
            for (position, (value, ty)) in returned.iter().zip(&head.results).enumerate() {
                let actual = self.function.ty(*value).clone();
                if *ty != Type::Tensor(actual.clone()) {
                    let declared = match ty {
                        Type::Tensor(ty) => ty.to_string(),
                        Type::Unsupported(text, _) => shorten(text),
                        Type::Function(..) => "a function".into(),
                    };
                    let message = format!(
                        "@{}: result {position} is {actual}, but the function's type says \
                         {declared}",
                        head.name
                    );
                    self.report(message, place);
                }
            }
        }
        head.parameter_attributes.resize(self.function.parameters().len(), Attributes::new());
        head.result_attributes.resize(head.results.len(), Attributes::new());
        self.function.parameter_attributes = head.parameter_attributes;
        self.function.result_attributes = head.result_attributes;
        let function = std::mem::replace(&mut self.function, Function::new(""));
        self.functions.push(function);
        Ok(())
    }
}

/// Shardings name a mesh, which is not kept: on one device they say nothing.
fn without_sharding(mut attributes: Attributes) -> Attributes {
    attributes.0.retain(|(name, _)| !name.starts_with("sdy."));
    attributes
}
