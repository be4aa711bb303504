//! `dense<...>`: elements of constant tensors, read and printed.
//!
//! A tensor's elements stand before its type, so that the parser first finds the end of the list,
//! reads the type, and then reads the list's bytes again as elements of that type. A splat is never
//! expanded.

use super::lexer::shorten;
use crate::literal::Literal;
use crate::types::TensorType;
use half::{bf16, f16};
use jaxrs_kernel::DType;

/// The literal that the text between `dense<` and `>` spells.
pub(super) fn parse(content: &str, ty: &TensorType) -> Result<Literal, String> {
    let mut reader = Reader { bytes: content.as_bytes(), text: content, at: 0, dtype: ty.dtype };
    match reader.peek() {
        0 if ty.is_empty() => Ok(Literal::dense(ty.clone(), Vec::new())),
        0 => Err(format!("dense<> has no elements, {ty} has {}", ty.len())),
        b'"' => blob(content.trim(), ty),
        b'[' => {
            let mut out = Vec::with_capacity(capacity(content, ty));
            reader.list(&ty.shape, &mut out)?;
            reader.end()?;
            Ok(Literal::dense(ty.clone(), out))
        }
        _ => {
            let mut element = Vec::with_capacity(16);
            reader.element(&mut element)?;
            reader.end()?;
            Ok(Literal::splat(ty.clone(), &element))
        }
    }
}

/// Bytes to reserve: never more than the text can spell (an element takes two characters).
fn capacity(content: &str, ty: &TensorType) -> usize {
    (ty.bytes() as usize).min(content.len().saturating_mul(ty.dtype.size() as usize))
}

/// A literal from the bytes of a blob: all elements, or one for all. Elements of `i1` are bytes
/// (as MLIR writes them now) or bits (as it once did).
pub(super) fn from_blob(bytes: Vec<u8>, ty: &TensorType) -> Result<Literal, String> {
    let (count, size) = (ty.len(), ty.dtype.size());
    let given = bytes.len() as u64;
    if ty.dtype == DType::I1 {
        let truth = |byte: &u8| u8::from(*byte != 0);
        return if given == count {
            Ok(Literal::dense(ty.clone(), bytes.iter().map(truth).collect()))
        } else if given == 1 {
            Ok(Literal::splat(ty.clone(), &[truth(&bytes[0])]))
        } else if given == count.div_ceil(8) {
            let bit = |i: u64| (bytes[(i / 8) as usize] >> (i % 8)) & 1;
            Ok(Literal::dense(ty.clone(), (0..count).map(bit).collect()))
        } else {
            Err(format!("the blob has {given} bytes, {ty} needs {count}"))
        };
    }
    if given == count * size {
        Ok(Literal::dense(ty.clone(), bytes))
    } else if given == size {
        Ok(Literal::splat(ty.clone(), &bytes))
    } else {
        Err(format!("the blob has {given} bytes, {ty} needs {}", count * size))
    }
}

/// The bytes that `0x...` spells.
pub(super) fn hex_bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("0x").ok_or("a blob must start with 0x")?.as_bytes();
    if digits.len() % 2 != 0 {
        return Err("a blob must have an even number of digits".into());
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err("a blob has a character that is no hexadecimal digit"),
    };
    let mut out = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Ok(out)
}

fn blob(content: &str, ty: &TensorType) -> Result<Literal, String> {
    let inner = content
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or("expected one string of hexadecimal digits")?;
    from_blob(hex_bytes(inner)?, ty)
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    dtype: DType,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(&byte) => return byte,
                None => return 0,
            }
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            0 => Ok(()),
            _ => Err(format!("unexpected `{}` in dense<...>", self.rest())),
        }
    }

    fn rest(&self) -> String {
        shorten(self.text.get(self.at..).unwrap_or_default())
    }

    /// Lists nested as the shape says. An axis of no extent may be left out with what it holds.
    fn list(&mut self, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
        let Some((&extent, inner)) = shape.split_first() else {
            return self.element(out);
        };
        if self.peek() != b'[' {
            return Err(format!(
                "expected a list of {extent} in dense<...>, found {}",
                self.rest()
            ));
        }
        self.at += 1;
        let mut found = 0u64;
        if self.peek() != b']' {
            loop {
                if found == extent {
                    return Err(format!("a list in dense<...> has more than {extent} items"));
                }
                self.list(inner, out)?;
                found += 1;
                match self.peek() {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => {
                        return Err(format!("expected `,` or `]` in dense<...>: {}", self.rest()));
                    }
                }
            }
        }
        self.at += 1;
        if found != extent {
            return Err(format!("a list in dense<...> has {found} items, its axis {extent}"));
        }
        Ok(())
    }

    fn element(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let part = self.dtype.part();
        if !self.dtype.is_complex() {
            return self.scalar(part, out);
        }
        if self.peek() != b'(' {
            return Err(format!("expected (real, imaginary) in dense<...>: {}", self.rest()));
        }
        self.at += 1;
        self.scalar(part, out)?;
        if self.peek() != b',' {
            return Err(format!("expected `,` between real and imaginary: {}", self.rest()));
        }
        self.at += 1;
        self.scalar(part, out)?;
        if self.peek() != b')' {
            return Err(format!("expected `)` behind imaginary: {}", self.rest()));
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
        self.peek();
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'))
        {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if word.is_empty() {
            return Err(format!("expected an element of type {dtype}, found `{}`", self.rest()));
        }
        if dtype.is_float() { float(word, dtype, out) } else { integer(word, dtype, out) }
    }
}

fn integer(word: &str, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
    let value = match word {
        "true" | "false" if dtype == DType::I1 => i128::from(word == "true"),
        _ => parse_int(word)
            .ok_or_else(|| format!("`{}` is not an element of type {dtype}", shorten(word)))?,
    };
    if dtype == DType::I1 {
        // MLIR reads -1 as the one bit set.
        if !(-1..=1).contains(&value) {
            return Err(format!("{value} is out of range for i1"));
        }
        out.push(u8::from(value != 0));
        return Ok(());
    }
    // A type without sign takes any pattern of its bits, as in MLIR.
    let bits = dtype.bits();
    let least =
        if DType::is_int(dtype) && dtype.name().starts_with('u') { 0 } else { -1 << (bits - 1) };
    if value < least || value >= 1 << bits {
        return Err(format!("{value} is out of range for {dtype}"));
    }
    out.extend_from_slice(&value.to_le_bytes()[..dtype.size() as usize]);
    Ok(())
}

/// A decimal or hexadecimal integer.
pub(super) fn parse_int(word: &str) -> Option<i128> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from(u64::from_str_radix(hex, 16).ok()?),
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

fn float(word: &str, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
    if let Some(hex) = word.strip_prefix("0x") {
        let size = dtype.size() as usize;
        let bits = u64::from_str_radix(hex, 16)
            .ok()
            .filter(|bits| size == 8 || bits >> (8 * size) == 0)
            .ok_or_else(|| format!("{} does not fit into {dtype}", shorten(word)))?;
        out.extend_from_slice(&bits.to_le_bytes()[..size]);
        return Ok(());
    }
    let value: f64 = parse_float(word)
        .ok_or_else(|| format!("`{}` is not an element of type {dtype}", shorten(word)))?;
    // Through f64, as MLIR does.
    match dtype {
        DType::F64 => out.extend_from_slice(&value.to_le_bytes()),
        DType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        DType::F16 => out.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
        _ => out.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
    }
    Ok(())
}

/// A decimal number, `inf` or `nan`, with a sign.
pub(super) fn parse_float(word: &str) -> Option<f64> {
    match word.trim_start_matches(['-', '+']) {
        "inf" | "nan" => {}
        digits if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {}
        _ => return None,
    }
    word.parse().ok()
}
