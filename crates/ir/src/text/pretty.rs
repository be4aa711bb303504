//! The pretty forms of ops, turned into the attributes of their generic form.
//!
//! Most forms are one list of items, operands or `key = value`, then `{attributes} : types`; a table
//! gives the attribute that a key stands for. The others have a function each.

use super::attributes::plain_ints;
use super::lexer::{Token, unescape};
use super::literals::parse_float;
use super::parser::{Draft, Parse, Parser, place_location};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::error::Error;
use jaxrs_kernel::DType;

impl<'a> Parser<'a> {
    /// What follows an op's name in its pretty form; false if the form is not known.
    pub(super) fn pretty(&mut self, draft: &mut Draft<'a>) -> Parse<bool> {
        match draft.name {
            "return" | "func.return" | "stablehlo.return" | "mhlo.return" => {
                draft.operands = self.operands()?;
                self.optional_dict()?;
                if self.accept(b':') {
                    draft.operand_types = self.type_list()?;
                }
            }
            "call" | "func.call" => {
                draft.name = "func.call";
                self.call(draft, "callee")?;
            }
            "stablehlo.custom_call" => self.call(draft, "call_target_name")?,
            "stablehlo.composite" => {
                let Token::Text(name) = self.lex.token else {
                    return Err(self.expected("the composite's name"));
                };
                self.lex.bump();
                draft.attributes = Attributes::new().with("name", string(name));
                self.items(draft)?;
                self.rest(draft)?;
            }
            "stablehlo.constant" => self.constant(draft)?,
            "chlo.constant" => self.constant(draft)?,
            "stablehlo.convolution" => self.convolution(draft)?,
            "stablehlo.reduce" => self.reduce(draft)?,
            "stablehlo.while" => self.while_loop(draft)?,
            name if name.starts_with("check.") => self.check(draft)?,
            name if name.starts_with("stablehlo.") || name.starts_with("chlo.") => {
                let parenthesized = self.accept(b'(');
                self.items(draft)?;
                if parenthesized {
                    self.expect(b')')?;
                }
                self.rest(draft)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Operands and `key = value`, in any order.
    fn items(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        let mut expected = false;
        loop {
            match self.lex.token {
                Token::Value(_) => {
                    let operand = self.operand()?;
                    draft.operands.push(operand);
                    if self.lex.token == Token::Punct(b'[') {
                        self.brackets(draft)?;
                    }
                }
                Token::Word(key) => {
                    self.lex.bump();
                    self.keyed(draft, key)?;
                }
                _ if expected => return Err(self.expected("an operand or an attribute")),
                _ => return Ok(()),
            }
            if !self.accept(b',') {
                return Ok(());
            }
            expected = true;
        }
    }

    /// What stands behind `key`, with or without `=`.
    fn keyed(&mut self, draft: &mut Draft<'a>, key: &'a str) -> Parse<()> {
        let op = draft.name.split_once('.').map_or("", |(_, op)| op);
        if op == "compare" {
            let attribute =
                if draft.operands.is_empty() { "comparison_direction" } else { "compare_type" };
            let kind = if draft.operands.is_empty() { attribute } else { "comparison_type" };
            draft.attributes.0.push((attribute.into(), Attribute::Enum(kind.into(), key.into())));
            return Ok(());
        }
        self.expect(b'=')?;
        let (name, value) = match (op, key) {
            ("transpose", "dims") => ("permutation", self.ints()?),
            ("reverse", "dims") => ("dimensions", self.ints()?),
            (_, "dims") => ("broadcast_dimensions", self.ints()?),
            ("iota" | "dynamic_iota", "dim") => ("iota_dimension", self.plain()?),
            (_, "dim") => ("dimension", self.plain()?),
            ("broadcast", "sizes") => ("broadcast_sizes", self.ints()?),
            (_, "sizes") => ("slice_sizes", self.ints()?),
            (_, "low") => ("edge_padding_low", self.ints()?),
            (_, "high") => ("edge_padding_high", self.ints()?),
            (_, "interior") => ("interior_padding", self.ints()?),
            ("fft", "type") => ("fft_type", self.enumeration("fft_type")?),
            ("fft", "length") => ("fft_length", self.ints()?),
            ("rng", "distribution") => ("rng_distribution", self.enumeration("rng_distribution")?),
            ("rng_bit_generator", "algorithm") => {
                ("rng_algorithm", self.enumeration("rng_algorithm")?)
            }
            (_, "algorithm") => ("algorithm", self.dot_algorithm()?),
            (_, "precision") => ("precision_config", self.precisions()?),
            (_, "config") => ("einsum_config", self.plain()?),
            (_, "format") => return self.format(draft),
            ("dot_general", "batching_dims" | "contracting_dims") => {
                return self.dot_dimensions(draft, key);
            }
            (_, other) => (other, self.plain()?),
        };
        draft.attributes.0.push((name.into(), value));
        Ok(())
    }

    /// `{attributes} : types`, the types in any of their short forms.
    pub(super) fn rest(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        if self.lex.token == Token::Punct(b'{') {
            let more = self.attribute_dict()?;
            draft.attributes.0.extend(more.0);
        }
        let place = self.lex.start;
        self.expect(b':')?;
        let mut types = self.type_list()?;
        if self.lex.token == Token::Arrow {
            self.lex.bump();
            draft.operand_types = types;
            draft.result_types = self.result_types()?;
            return Ok(());
        }
        if let [Type::Function(operands, results)] = &mut types[..] {
            draft.operand_types = std::mem::take(operands);
            draft.result_types = std::mem::take(results);
            return Ok(());
        }
        let count = draft.operands.len();
        match (draft.name, &types[..]) {
            ("stablehlo.optimization_barrier", _) => {
                draft.operand_types = types.clone();
                draft.result_types = types;
            }
            ("stablehlo.select", [pred, value]) => {
                draft.operand_types = vec![pred.clone(), value.clone(), value.clone()];
                draft.result_types = vec![value.clone()];
            }
            ("stablehlo.complex", [ty]) => {
                draft.operand_types = vec![real(ty.clone()); count];
                draft.result_types = types;
            }
            (_, [ty]) => {
                draft.operand_types = vec![ty.clone(); count];
                draft.result_types = types;
            }
            (name, _) => {
                let found = types.len();
                let message = format!("{name}: its type is a list of {found} types");
                return Err(Box::new(Error::new(message, &place_location(place))));
            }
        }
        Ok(())
    }

    /// `[1, 2]`.
    pub(super) fn ints(&mut self) -> Parse<Attribute> {
        match self.attribute()? {
            Attribute::Array(items) => Ok(plain_ints(items)),
            other => Ok(other),
        }
    }

    /// An attribute that is no integer with a type: a `:` behind it starts the op's types.
    fn plain(&mut self) -> Parse<Attribute> {
        match self.lex.token {
            Token::Integer(_) => Ok(Attribute::Int(self.integer()?.into(), None)),
            Token::Float(digits) => {
                let value = parse_float(digits).ok_or_else(|| self.expected("a number"))?;
                self.lex.bump();
                Ok(Attribute::Float(value, None))
            }
            Token::Text(raw) => {
                self.lex.bump();
                Ok(string(raw))
            }
            _ => self.attribute(),
        }
    }

    fn int_list(&mut self) -> Parse<Vec<i64>> {
        let place = self.lex.start;
        match self.ints()? {
            Attribute::Ints(values, _) => Ok(values),
            _ => {
                self.report("expected a list of integers", place);
                Ok(Vec::new())
            }
        }
    }

    fn enumeration(&mut self, kind: &str) -> Parse<Attribute> {
        let value = self.word(kind)?;
        Ok(Attribute::Enum(kind.into(), value.into()))
    }

    /// `[DEFAULT, HIGHEST]`.
    fn precisions(&mut self) -> Parse<Attribute> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        while let Token::Word(_) = self.lex.token {
            items.push(self.enumeration("precision")?);
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Attribute::Array(items))
    }

    /// `<lhs_precision_type = ..., ...>`, or the attribute in full.
    fn dot_algorithm(&mut self) -> Parse<Attribute> {
        if !self.accept(b'<') {
            return self.attribute();
        }
        let fields = self.fields()?;
        self.expect(b'>')?;
        Ok(Attribute::Struct("stablehlo.dot_algorithm".into(), fields))
    }

    /// `e8m7`.
    fn format(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        let place = self.lex.start;
        let word = self.word("a format like e8m7")?;
        let parts = word.strip_prefix('e').and_then(|rest| rest.split_once('m'));
        let bits = parts.and_then(|(e, m)| Some((e.parse::<u16>().ok()?, m.parse::<u16>().ok()?)));
        let Some((exponent, mantissa)) = bits else {
            let message = format!("format {word}: expected one like e8m7");
            return Err(Box::new(Error::new(message, &place_location(place))));
        };
        for (name, bits) in [("exponent_bits", exponent), ("mantissa_bits", mantissa)] {
            let value = Attribute::Int(bits.into(), Some("i32".into()));
            draft.attributes.0.push((name.into(), value));
        }
        Ok(())
    }

    /// `[0] x [1]` of `batching_dims` or `contracting_dims`.
    fn dot_dimensions(&mut self, draft: &mut Draft<'a>, key: &str) -> Parse<()> {
        let lhs = self.int_list()?;
        self.expect_word("x")?;
        let rhs = self.int_list()?;
        let mut fields = match draft.attributes.take("dot_dimension_numbers") {
            Some(Attribute::Struct(_, fields)) => fields,
            _ => Attributes::new(),
        };
        let [left, right] = match key {
            "batching_dims" => ["lhs_batching_dimensions", "rhs_batching_dimensions"],
            _ => ["lhs_contracting_dimensions", "rhs_contracting_dimensions"],
        };
        fields = fields.with_ints(left, &lhs).with_ints(right, &rhs);
        let value = Attribute::Struct("stablehlo.dot".into(), fields);
        draft.attributes.0.push(("dot_dimension_numbers".into(), value));
        Ok(())
    }

    /// `[start:limit:stride, ...]` of a slice, `[index]` of a tuple's element.
    fn brackets(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        self.expect(b'[')?;
        if draft.name == "stablehlo.get_tuple_element" {
            let index = self.integer()?;
            self.expect(b']')?;
            draft.attributes.0.push(("index".into(), Attribute::Int(index.into(), None)));
            return Ok(());
        }
        let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        if !self.accept(b']') {
            loop {
                starts.push(self.integer()?);
                self.expect(b':')?;
                limits.push(self.integer()?);
                strides.push(if self.accept(b':') { self.integer()? } else { 1 });
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b']')?;
        }
        let attributes = std::mem::take(&mut draft.attributes);
        draft.attributes = attributes
            .with_ints("start_indices", &starts)
            .with_ints("limit_indices", &limits)
            .with_ints("strides", &strides);
        Ok(())
    }

    /// `@name(%a, %b) {attributes} : types`.
    fn call(&mut self, draft: &mut Draft<'a>, attribute: &str) -> Parse<()> {
        let Token::Symbol(name) = self.lex.token else {
            return Err(self.expected("a name that starts with @"));
        };
        self.lex.bump();
        let value = match attribute {
            "callee" => Attribute::Symbol(unescape(name)),
            _ => string(name),
        };
        draft.attributes = Attributes::new().with(attribute, value);
        self.expect(b'(')?;
        draft.operands = self.operands()?;
        self.expect(b')')?;
        self.rest(draft)
    }

    /// `%a, %b : type`, or `%a, dense<...> : type`, perhaps with attributes; no results.
    fn check(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        let mut constant = None;
        loop {
            match self.lex.token {
                Token::Value(_) => {
                    let operand = self.operand()?;
                    draft.operands.push(operand);
                }
                Token::Word("dense") => {
                    let start = self.lex.start.offset;
                    let value = self.dense()?;
                    constant = Some(self.constant_type(&value, start)?);
                    draft.attributes.0.push(("value".into(), value));
                }
                Token::Word(key) => {
                    self.lex.bump();
                    self.keyed(draft, key)?;
                }
                _ => return Err(self.expected("an operand or dense<...>")),
            }
            if !self.accept(b',') {
                break;
            }
        }
        let more = self.optional_dict()?;
        draft.attributes.0.extend(more.0);
        if let Some(ty) = constant {
            draft.operand_types = vec![ty; draft.operands.len()];
            return Ok(());
        }
        self.expect(b':')?;
        draft.operand_types = self.type_list()?;
        if let [ty] = &draft.operand_types[..] {
            draft.operand_types = vec![ty.clone(); draft.operands.len()];
        }
        Ok(())
    }

    /// `{attributes} dense<...> : type`, or `() <{value = ...}> : () -> type`.
    fn constant(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        if self.accept(b'(') {
            self.expect(b')')?;
            if self.accept(b'<') {
                draft.attributes = self.attribute_dict()?;
                self.expect(b'>')?;
            }
            return self.rest(draft);
        }
        draft.attributes = self.optional_dict()?;
        let start = self.lex.start;
        let value = self.attribute()?;
        draft.result_types = vec![self.constant_type(&value, start.offset)?];
        draft.attributes.0.push(("value".into(), value));
        Ok(())
    }

    /// The type of a constant that ends at the last token. If its elements or its type are wrong,
    /// the type is read again.
    fn constant_type(&mut self, value: &Attribute, start: usize) -> Parse<Type<'a>> {
        if let Attribute::Dense(literal) = value {
            return Ok(Type::Tensor(literal.ty().clone()));
        }
        let text = &self.lex.text[start..self.lex.before];
        let Some((_, ty)) = text.rsplit_once(':') else {
            return Err(self.expected("dense<...> with its type"));
        };
        Parser::new(ty, self.lex.start.line).parse_type()
    }
}

fn string(raw: &str) -> Attribute {
    Attribute::String(unescape(raw))
}

/// The type of a complex tensor's real parts.
fn real(ty: Type<'_>) -> Type<'_> {
    match ty {
        Type::Tensor(ty) => Type::Tensor(match ty.dtype {
            DType::C64 => ty.with_dtype(DType::F32),
            DType::C128 => ty.with_dtype(DType::F64),
            _ => ty,
        }),
        other => other,
    }
}
