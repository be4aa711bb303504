//! Types: static tensors; any other type is kept as its text with the reason why it is not taken.

use super::lexer::{Token, shorten};
use super::parser::{Parse, Parser};
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// A type of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type<'a> {
    Tensor(TensorType),
    Function(Vec<Type<'a>>, Vec<Type<'a>>),
    /// Its text, and why no value can have it.
    Unsupported(&'a str, String),
}

/// More axes than this are refused.
const MAX_RANK: usize = 64;
/// Tensors of more bytes than an address space has are refused, so that sizes can be added without
/// overflow.
const MAX_BYTES: u64 = 1 << 47;

impl<'a> Parser<'a> {
    /// A type.
    pub(super) fn parse_type(&mut self) -> Parse<Type<'a>> {
        match self.lex.token {
            Token::Word("tensor") if self.lex.byte(self.lex.at) == b'<' => self.tensor(),
            Token::Word(word) => {
                let start = self.lex.start.offset;
                self.skip_parameters()?;
                let text = &self.lex.text[start..self.lex.before];
                let reason = match word {
                    "tuple" => "tuples are not supported: export the program without them",
                    _ => "values must be tensors of static shape",
                };
                Ok(Type::Unsupported(text, reason.into()))
            }
            Token::Bang(name) => {
                let start = self.lex.start.offset;
                if let Some(ty) = self.type_aliases.get(name) {
                    let ty = ty.clone();
                    self.lex.bump();
                    return Ok(ty);
                }
                self.skip_parameters()?;
                let text = &self.lex.text[start..self.lex.before];
                let reason = match name {
                    "stablehlo.token" => "tokens order side effects, which are not supported",
                    _ => "values must be tensors of static shape",
                };
                Ok(Type::Unsupported(text, reason.into()))
            }
            Token::Punct(b'(') => {
                self.enter()?;
                let (operands, results) = self.function_type()?;
                self.leave();
                Ok(Type::Function(operands, results))
            }
            _ => Err(self.expected("a type")),
        }
    }

    /// `(types) -> types`.
    pub(super) fn function_type(&mut self) -> Parse<(Vec<Type<'a>>, Vec<Type<'a>>)> {
        let operands = self.parenthesized_types()?;
        if self.lex.token != Token::Arrow {
            return Err(self.expected("`->`"));
        }
        self.lex.bump();
        Ok((operands, self.result_types()?))
    }

    /// One type, or several in parentheses.
    pub(super) fn result_types(&mut self) -> Parse<Vec<Type<'a>>> {
        if self.lex.token == Token::Punct(b'(') {
            self.parenthesized_types()
        } else {
            Ok(vec![self.parse_type()?])
        }
    }

    /// `type, type, ...`, at least one.
    pub(super) fn type_list(&mut self) -> Parse<Vec<Type<'a>>> {
        let mut types = vec![self.parse_type()?];
        while self.accept(b',') {
            types.push(self.parse_type()?);
        }
        Ok(types)
    }

    fn parenthesized_types(&mut self) -> Parse<Vec<Type<'a>>> {
        self.expect(b'(')?;
        if self.accept(b')') {
            return Ok(Vec::new());
        }
        let types = self.type_list()?;
        self.expect(b')')?;
        Ok(types)
    }

    /// Passes over the current token and the `<...>` that follows it at once, if one does.
    pub(super) fn skip_parameters(&mut self) -> Parse<()> {
        if self.lex.byte(self.lex.at) != b'<' {
            self.lex.bump();
            return Ok(());
        }
        match self.lex.matching(self.lex.at) {
            Some(end) => {
                self.lex.jump(end);
                // The end of what was passed over, not of the word before it.
                self.lex.before = end;
                Ok(())
            }
            None => Err(self.error_here("`<` is not closed")),
        }
    }

    /// `tensor<...>`, scanned byte by byte, since `4x8xf32` are no tokens.
    fn tensor(&mut self) -> Parse<Type<'a>> {
        let start = self.lex.start.offset;
        let open = self.lex.at;
        match self.tensor_body(open + 1) {
            Ok((ty, end)) => {
                self.lex.jump(end);
                Ok(Type::Tensor(ty))
            }
            Err(reason) => {
                let Some(end) = self.lex.matching(open) else {
                    return Err(self.error_here("`<` is not closed"));
                };
                self.lex.jump(end);
                Ok(Type::Unsupported(&self.lex.text[start..end], reason))
            }
        }
    }

    fn tensor_body(&self, mut at: usize) -> Result<(TensorType, usize), String> {
        let lex = &self.lex;
        let space = |mut at: usize| {
            while matches!(lex.byte(at), b' ' | b'\t' | b'\n' | b'\r') {
                at += 1;
            }
            at
        };
        let mut shape = Vec::new();
        loop {
            at = space(at);
            let mut extent = match lex.byte(at) {
                digit @ b'0'..=b'9' => u64::from(digit - b'0'),
                b'?' => {
                    return Err(format!(
                        "axis {} is dynamic (`?`): only static shapes are compiled, so export \
                         the program for fixed sizes",
                        shape.len()
                    ));
                }
                b'*' => return Err("its rank is not known: export with static shapes".into()),
                _ => break,
            };
            at += 1;
            while lex.byte(at).is_ascii_digit() {
                extent = extent
                    .checked_mul(10)
                    .and_then(|e| e.checked_add(u64::from(lex.byte(at) - b'0')))
                    .ok_or("an extent does not fit into 64 bits")?;
                at += 1;
            }
            at = space(at);
            if lex.byte(at) != b'x' {
                return Err("`x` is missing behind an extent".into());
            }
            at += 1;
            shape.push(extent);
            if shape.len() > MAX_RANK {
                return Err(format!("it has more than {MAX_RANK} axes"));
            }
        }
        let (name, end) = element_name(lex.bytes, at);
        let dtype = std::str::from_utf8(name)
            .ok()
            .and_then(dtype_of)
            .ok_or_else(|| unsupported_element(name))?;
        let ty = TensorType::new(shape, dtype);
        check_size(&ty)?;
        match lex.byte(space(end)) {
            b'>' => Ok((ty, space(end) + 1)),
            b',' => Err("its encoding (layout, bounds or sparsity) is not supported".into()),
            _ => Err("`>` is missing behind the element type".into()),
        }
    }
}

/// Extents whose number of bytes stays far from overflow.
fn check_size(ty: &TensorType) -> Result<(), String> {
    let mut bytes = ty.dtype.size();
    for &extent in ty.shape.iter().filter(|&&extent| extent > 0) {
        bytes = bytes.checked_mul(extent).filter(|&b| b <= MAX_BYTES).ok_or_else(|| {
            format!("it is larger than {MAX_BYTES} bytes, which no machine can address")
        })?;
    }
    Ok(())
}

/// The element type's spelling at an offset, and the offset behind it.
fn element_name(bytes: &[u8], start: usize) -> (&[u8], usize) {
    // `!` starts another dialect's type, which is named whole in the message.
    let mut end = start + usize::from(bytes.get(start) == Some(&b'!'));
    while bytes.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        end += 1;
    }
    if &bytes[start..end] == b"complex" && bytes.get(end) == Some(&b'<') {
        while bytes.get(end).is_some_and(|&b| b != b'>') {
            end += 1;
        }
        end = (end + 1).min(bytes.len());
    }
    (&bytes[start..end], end)
}

fn dtype_of(name: &str) -> Option<DType> {
    Some(match name {
        "f32" => DType::F32,
        "i1" => DType::I1,
        "i32" => DType::I32,
        // Signed integers are spelled `si32`, too.
        other => DType::from_name(other.strip_prefix('s').unwrap_or(other))?,
    })
}

fn unsupported_element(name: &[u8]) -> String {
    let known: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
    format!(
        "element type `{}` is not supported; supported are {}",
        shorten(&String::from_utf8_lossy(name)),
        known.join(", ")
    )
}
