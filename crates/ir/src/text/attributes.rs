//! Attributes: read into [`Attribute`]; what is not known is kept as text.

use super::lexer::{Token, unescape};
use super::literals::{self, parse_float, parse_int};
use super::parser::{Parse, Parser};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use rustc_hash::FxHashMap;

/// Bytes that expansions of attribute aliases may add up to.
const MAX_EXPANDED: usize = 1 << 20;

impl<'a> Parser<'a> {
    /// `{name = attribute, name, ...}`.
    pub(super) fn attribute_dict(&mut self) -> Parse<Attributes> {
        self.enter()?;
        self.expect(b'{')?;
        let mut attributes = Attributes::new();
        if !self.accept(b'}') {
            loop {
                let name = match self.lex.token {
                    Token::Word(name) => name.to_string(),
                    Token::Text(name) => unescape(name),
                    _ => return Err(self.expected("an attribute's name")),
                };
                self.lex.bump();
                let value = if self.accept(b'=') { self.attribute()? } else { Attribute::Unit };
                attributes.0.push((name, value));
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        self.leave();
        Ok(attributes)
    }

    /// `{...}` if it comes next.
    pub(super) fn optional_dict(&mut self) -> Parse<Attributes> {
        if self.lex.token == Token::Punct(b'{') {
            self.attribute_dict()
        } else {
            Ok(Attributes::new())
        }
    }

    /// An attribute.
    pub(super) fn attribute(&mut self) -> Parse<Attribute> {
        self.enter()?;
        let value = self.attribute_inner()?;
        self.leave();
        Ok(value)
    }

    fn attribute_inner(&mut self) -> Parse<Attribute> {
        let start = self.lex.start.offset;
        let parametric = self.lex.byte(self.lex.at) == b'<';
        match self.lex.token {
            Token::Integer(digits) => {
                let value = parse_int(digits)
                    .ok_or_else(|| self.error_here("the integer does not fit into 64 bits"))?;
                self.lex.bump();
                let ty = self.optional_type()?;
                let bits = ty.as_deref().filter(|_| digits.starts_with("0x"));
                match bits.and_then(|ty| hex_float(value, ty)) {
                    Some(value) => Ok(Attribute::Float(value, ty)),
                    None => Ok(Attribute::Int(value, ty)),
                }
            }
            Token::Float(digits) => {
                let value = parse_float(digits).ok_or_else(|| self.expected("a number"))?;
                self.lex.bump();
                Ok(Attribute::Float(value, self.optional_type()?))
            }
            Token::Text(raw) => {
                self.lex.bump();
                self.optional_type()?;
                Ok(Attribute::String(unescape(raw)))
            }
            Token::Symbol(raw) => {
                self.lex.bump();
                if self.lex.token != Token::Punct(b':') {
                    return Ok(Attribute::Symbol(unescape(raw)));
                }
                while self.accept(b':') {
                    if let Token::Symbol(_) = self.lex.token {
                        self.lex.bump();
                    }
                }
                Ok(self.raw(start))
            }
            Token::Punct(b'[') => {
                self.lex.bump();
                let mut items = Vec::new();
                if !self.accept(b']') {
                    loop {
                        items.push(self.attribute()?);
                        if !self.accept(b',') {
                            break;
                        }
                    }
                    self.expect(b']')?;
                }
                Ok(Attribute::Array(items))
            }
            Token::Punct(b'{') => Ok(Attribute::Dict(self.attribute_dict()?)),
            Token::Punct(b'(') => {
                self.function_type()?;
                Ok(Attribute::Type(self.text_from(start)))
            }
            Token::Hash(name) if parametric || name.contains('.') => self.dialect_attribute(name),
            Token::Hash(name) => self.alias(name),
            Token::Word("true" | "false") => {
                let value = self.lex.token == Token::Word("true");
                self.lex.bump();
                Ok(Attribute::Bool(value))
            }
            Token::Word("unit") => {
                self.lex.bump();
                Ok(Attribute::Unit)
            }
            Token::Word("dense") if parametric => self.dense(),
            Token::Word("dense_resource") if parametric => self.dense_resource(),
            Token::Word("array") if parametric => self.array(),
            Token::Word("loc") => {
                self.trailing_location()?;
                Ok(self.raw(start))
            }
            Token::Word(word) if parametric || !is_type(word) => {
                let ty = matches!(word, "tensor" | "tuple" | "complex" | "vector" | "memref");
                self.skip_parameters()?;
                if ty {
                    return Ok(Attribute::Type(self.text_from(start)));
                }
                if self.accept(b':') {
                    self.parse_type()?;
                }
                Ok(self.raw(start))
            }
            Token::Word(_) | Token::Bang(_) => {
                self.parse_type()?;
                Ok(Attribute::Type(self.text_from(start)))
            }
            _ => Err(self.expected("an attribute")),
        }
    }

    /// The text from an offset to the end of the last token.
    fn text_from(&self, start: usize) -> String {
        self.lex.text[start..self.lex.before].to_string()
    }

    fn raw(&self, start: usize) -> Attribute {
        Attribute::Raw(self.text_from(start))
    }

    /// The spelling of the type behind a `:`, if one follows.
    fn optional_type(&mut self) -> Parse<Option<String>> {
        if !self.accept(b':') {
            return Ok(None);
        }
        let start = self.lex.start.offset;
        self.parse_type()?;
        Ok(Some(self.text_from(start)))
    }

    fn alias(&mut self, name: &'a str) -> Parse<Attribute> {
        let found = self.attribute_aliases.get(name).cloned();
        let (value, size) =
            found.ok_or_else(|| self.error_here(format!("#{name} is not defined")))?;
        self.expanded = self.expanded.saturating_add(size);
        if self.expanded > MAX_EXPANDED {
            return Err(self.error_here("attribute aliases expand to too much text"));
        }
        self.lex.bump();
        Ok(value)
    }

    /// What follows `#name = `, where it is no location.
    pub(super) fn attribute_alias(&mut self, name: &'a str) -> Parse<()> {
        let start = self.lex.start.offset;
        let before = self.expanded;
        let value = self.attribute()?;
        let size = (self.lex.before - start).saturating_add(self.expanded - before);
        self.attribute_aliases.insert(name, (value, size));
        Ok(())
    }

    /// `#stablehlo<precision DEFAULT>`, `#stablehlo.gather<...>`; others as text.
    fn dialect_attribute(&mut self, name: &'a str) -> Parse<Attribute> {
        let start = self.lex.start.offset;
        let parametric = self.lex.byte(self.lex.at) == b'<';
        match name {
            "stablehlo" | "chlo" if parametric => {
                self.lex.bump();
                self.expect(b'<')?;
                let kind = self.word("a kind of enumeration")?;
                let value = self.word("a name of the enumeration")?;
                self.expect(b'>')?;
                Ok(Attribute::Enum(kind.into(), value.into()))
            }
            "stablehlo.conv" if parametric => {
                self.lex.bump();
                self.expect(b'<')?;
                let fields = if self.accept_word("raw") {
                    self.fields()?
                } else {
                    self.convolution_dimensions()?
                };
                self.expect(b'>')?;
                Ok(Attribute::Struct(name.into(), fields))
            }
            "stablehlo.gather"
            | "stablehlo.scatter"
            | "stablehlo.dot"
            | "stablehlo.dot_algorithm"
            | "stablehlo.channel_handle"
            | "stablehlo.output_operand_alias"
                if parametric =>
            {
                self.lex.bump();
                self.expect(b'<')?;
                let fields = self.fields()?;
                self.expect(b'>')?;
                Ok(Attribute::Struct(name.into(), fields))
            }
            _ => {
                self.skip_parameters()?;
                if self.accept(b':') {
                    self.parse_type()?;
                }
                Ok(self.raw(start))
            }
        }
    }

    /// `name = value, ...` up to a `>`.
    pub(super) fn fields(&mut self) -> Parse<Attributes> {
        let mut fields = Attributes::new();
        while let Token::Word(name) = self.lex.token {
            self.lex.bump();
            self.expect(b'=')?;
            let value = match self.attribute()? {
                Attribute::Array(items) => plain_ints(items),
                other => other,
            };
            fields.0.push((name.into(), value));
            if !self.accept(b',') {
                break;
            }
        }
        Ok(fields)
    }

    /// A bare word.
    pub(super) fn word(&mut self, what: &str) -> Parse<&'a str> {
        let Token::Word(word) = self.lex.token else {
            return Err(self.expected(what));
        };
        self.lex.bump();
        Ok(word)
    }

    /// `dense<...> : type`.
    pub(super) fn dense(&mut self) -> Parse<Attribute> {
        let place = self.lex.start;
        let open = self.lex.at;
        if self.lex.byte(open) != b'<' {
            return Err(self.expected("dense<...>"));
        }
        let close = self.dense_end(open + 1)?;
        let content = &self.lex.text[open + 1..close];
        self.lex.jump(close + 1);
        self.expect(b':')?;
        match self.parse_type()? {
            Type::Tensor(ty) => match literals::parse(content, &ty) {
                Ok(literal) => Ok(Attribute::Dense(literal)),
                Err(message) => {
                    // Later ops can still be checked.
                    self.report(format!("{message} (type {ty})"), place);
                    Ok(Attribute::Raw(String::new()))
                }
            },
            _ => Ok(self.raw(place.offset)),
        }
    }

    /// The offset of the `>` that ends the elements that start at an offset.
    fn dense_end(&self, mut at: usize) -> Parse<usize> {
        while let Some(&byte) = self.lex.bytes.get(at) {
            match byte {
                b'>' => return Ok(at),
                b'"' => match self.lex.string_end(at) {
                    Some(end) => at = end,
                    None => break,
                },
                _ => at += 1,
            }
        }
        Err(self.error_here("dense<...> is not closed"))
    }

    /// `dense_resource<name> : type`, from the resources at the end of the text.
    fn dense_resource(&mut self) -> Parse<Attribute> {
        let place = self.lex.start;
        self.lex.bump();
        self.expect(b'<')?;
        let (Token::Word(name) | Token::Text(name)) = self.lex.token else {
            return Err(self.expected("a resource's name"));
        };
        self.lex.bump();
        self.expect(b'>')?;
        self.expect(b':')?;
        let Type::Tensor(ty) = self.parse_type()? else {
            return Ok(self.raw(place.offset));
        };
        let text = self.lex.text;
        let blob = self.resources.get_or_insert_with(|| resources(text)).get(name).copied();
        let literal = blob
            .ok_or_else(|| {
                format!(
                    "dense_resource<{name}>: the text has no such resource; print constants \
                         in full when exporting"
                )
            })
            .and_then(literals::hex_bytes)
            // The first four bytes are the alignment.
            .and_then(|bytes| match bytes.get(4..) {
                Some(data) => literals::from_blob(data.to_vec(), &ty),
                None => Err("a resource must start with its alignment".into()),
            });
        match literal {
            Ok(literal) => Ok(Attribute::Dense(literal)),
            Err(message) => {
                self.report(message, place);
                Ok(Attribute::Raw(String::new()))
            }
        }
    }

    /// `array<i64: 1, 2>`; other element types than integers are kept as text.
    fn array(&mut self) -> Parse<Attribute> {
        let start = self.lex.start.offset;
        let open = self.lex.at;
        self.lex.bump();
        self.expect(b'<')?;
        let element = self.word("an element type")?;
        if !matches!(element, "i1" | "i8" | "i16" | "i32" | "i64") {
            let end = self.lex.matching(open);
            let end = end.ok_or_else(|| self.error_here("array<...> is not closed"))?;
            // `jump` must not go back behind the current token.
            if end > self.lex.at {
                self.lex.jump(end);
            } else {
                self.lex.bump();
            }
            self.lex.before = end;
            return Ok(self.raw(start));
        }
        let mut values = Vec::new();
        if self.accept(b':') {
            loop {
                values.push(match self.lex.token {
                    Token::Word("true") => {
                        self.lex.bump();
                        1
                    }
                    Token::Word("false") => {
                        self.lex.bump();
                        0
                    }
                    _ => self.integer()?,
                });
                if !self.accept(b',') {
                    break;
                }
            }
        }
        self.expect(b'>')?;
        Ok(Attribute::Ints(values, element.into()))
    }
}

/// `[1, 2]` as integers, if all items are.
pub(super) fn plain_ints(items: Vec<Attribute>) -> Attribute {
    let ints: Option<Vec<i64>> = items
        .iter()
        .map(|item| match item {
            Attribute::Int(value, None) => i64::try_from(*value).ok(),
            _ => None,
        })
        .collect();
    match ints {
        Some(values) => Attribute::Ints(values, "i64".into()),
        None => Attribute::Array(items),
    }
}

/// The float whose bits an integer spells, if the type is a float type.
fn hex_float(bits: i128, ty: &str) -> Option<f64> {
    let bits = u64::try_from(bits).ok()?;
    Some(match ty {
        "f64" => f64::from_bits(bits),
        "f32" => f32::from_bits(u32::try_from(bits).ok()?).into(),
        "f16" => half::f16::from_bits(u16::try_from(bits).ok()?).into(),
        "bf16" => half::bf16::from_bits(u16::try_from(bits).ok()?).into(),
        _ => return None,
    })
}

/// Whether a bare word names a type without parameters.
fn is_type(word: &str) -> bool {
    let digits = |prefix: &str| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    matches!(word, "index" | "none" | "tf32")
        || ["i", "si", "ui", "f", "bf"].iter().any(|prefix| digits(prefix))
}

/// The resources in `{-# dialect_resources: { builtin: { name: "0x..." } } #-}`.
fn resources(text: &str) -> FxHashMap<&str, &str> {
    let mut found = FxHashMap::default();
    let Some(start) = text.rfind("{-#") else {
        return found;
    };
    let mut lexer = super::lexer::Lexer::new(&text[start..], 1);
    let mut name = None;
    while lexer.token != Token::End {
        match (lexer.token, name) {
            (Token::Word(word), _) => name = Some(word),
            (Token::Text(blob), Some(key)) if blob.starts_with("0x") => {
                found.insert(key, blob);
                name = None;
            }
            (Token::Text(word), _) => name = Some(word),
            _ => {}
        }
        lexer.bump();
    }
    found
}
