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
use jaxrs_kernel::dtype::Class;

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

/// More elements than this are printed as hexadecimal digits of their bytes, as MLIR does.
const MAX_LISTED: u64 = 100;

/// What stands between `dense<` and `>`.
pub(super) fn print(out: &mut String, literal: &Literal) {
    let ty = literal.ty();
    if ty.is_empty() {
        return;
    }
    if let Some(bytes) = literal.as_splat() {
        print_element(out, ty.dtype, bytes);
        return;
    }
    let bytes = literal.bytes();
    if ty.len() > MAX_LISTED {
        out.push_str("\"0x");
        for byte in bytes.iter() {
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
        out.push('"');
        return;
    }
    let size = ty.dtype.size() as usize;
    for (position, element) in bytes.chunks_exact(size).enumerate() {
        // Where a row of an axis starts, so do its brackets.
        let (mut opened, mut extent) = (0, 1);
        for &axis in ty.shape.iter().rev() {
            extent *= axis as usize;
            if position % extent == 0 {
                opened += 1;
            }
        }
        if position > 0 {
            (0..opened).for_each(|_| out.push(']'));
            out.push_str(", ");
        }
        (0..opened).for_each(|_| out.push('['));
        print_element(out, ty.dtype, element);
    }
    ty.shape.iter().for_each(|_| out.push(']'));
}

fn print_element(out: &mut String, dtype: DType, bytes: &[u8]) {
    if dtype.is_complex() {
        let (real, imaginary) = bytes.split_at(bytes.len() / 2);
        out.push('(');
        print_element(out, dtype.part(), real);
        out.push_str(", ");
        print_element(out, dtype.part(), imaginary);
        out.push(')');
        return;
    }
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let shift = 64 - 8 * bytes.len() as u32;
    match dtype.class() {
        Class::Bool => out.push_str(if bits == 0 { "false" } else { "true" }),
        Class::Unsigned => out.push_str(&bits.to_string()),
        Class::Signed => out.push_str(&(((bits << shift) as i64) >> shift).to_string()),
        Class::Float | Class::Complex => out.push_str(&print_float(bits, dtype)),
    }
}

/// A float, in decimal if that reads back to the same bits.
fn print_float(bits: u64, dtype: DType) -> String {
    let value = match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => f16::from_bits(bits as u16).into(),
        _ => bf16::from_bits(bits as u16).into(),
    };
    let digits = 2 * dtype.size() as usize;
    if value.is_finite() {
        let shortest = match dtype {
            DType::F64 => format!("{value:e}"),
            _ => format!("{:e}", value as f32),
        };
        for text in [format!("{value:.6e}"), shortest] {
            let text = with_exponent(&text);
            let mut read = Vec::new();
            if float(&text, dtype, &mut read).is_ok() && read == bits.to_le_bytes()[..digits / 2] {
                return text;
            }
        }
    }
    format!("0x{bits:0digits$X}")
}

/// A float of an attribute; its bits in the given type if it is not finite.
pub(super) fn print_attribute(value: f64, ty: Option<&str>) -> String {
    if value.is_finite() {
        return print_float(value.to_bits(), DType::F64);
    }
    match ty {
        Some("f32") => print_float((value as f32).to_bits().into(), DType::F32),
        Some("f16") => print_float(f16::from_f64(value).to_bits().into(), DType::F16),
        Some("bf16") => print_float(bf16::from_f64(value).to_bits().into(), DType::BF16),
        _ => print_float(value.to_bits(), DType::F64),
    }
}

/// Rust's `1.5e-7` as MLIR's `1.5e-07`, with a decimal point.
fn with_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.to_string();
    };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}{point}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(content: &str, shape: &[u64], dtype: DType, printed: &str) {
        let ty = TensorType::new(shape, dtype);
        let literal = parse(content, &ty).unwrap_or_else(|error| panic!("{content}: {error}"));
        let mut out = String::new();
        print(&mut out, &literal);
        assert_eq!(out, printed);
        assert_eq!(parse(&out, &ty), Ok(literal));
    }

    #[test]
    fn forms() {
        round_trip("1", &[4], DType::I32, "1");
        round_trip("[1, -2]", &[2], DType::I8, "[1, -2]");
        round_trip("[[1,2],[3,4]]", &[2, 2], DType::U64, "[[1, 2], [3, 4]]");
        round_trip("[[[1],[2]],[[3],[4]]]", &[2, 2, 1], DType::I16, "[[[1], [2]], [[3], [4]]]");
        round_trip("", &[2, 0], DType::F32, "");
        round_trip("[[], []]", &[2, 0], DType::F32, "");
        round_trip("255", &[], DType::I8, "-1");
        round_trip("[true, false]", &[2], DType::I1, "[true, false]");
        round_trip("18446744073709551615", &[], DType::U64, "18446744073709551615");
        round_trip("0x7FC00000", &[], DType::F32, "0x7FC00000");
        round_trip("-3.40282347E+38", &[], DType::F32, "-3.4028235e+38");
        round_trip("1.000000e+00", &[2], DType::BF16, "1.000000e+00");
        round_trip("0xFF80", &[2], DType::BF16, "0xFF80");
        round_trip("0.1", &[], DType::F64, "1.000000e-01");
        round_trip(
            "[(1.0, 2.0), (0x7F800000,-0.0)]",
            &[2],
            DType::C64,
            "[(1.000000e+00, 2.000000e+00), (0x7F800000, -0.000000e+00)]",
        );
        round_trip("\"0x0100000002000000\"", &[2], DType::I32, "[1, 2]");
        round_trip("\"0x05\"", &[3], DType::I1, "true");
        round_trip(
            "\"0x0501\"",
            &[9],
            DType::I1,
            "[true, false, true, false, false, false, false, false, true]",
        );
        round_trip("\"0x010001\"", &[3], DType::I1, "[true, false, true]");
    }

    #[test]
    fn faults() {
        let fault = |content: &str, shape: &[u64], dtype| {
            parse(content, &TensorType::new(shape, dtype)).expect_err(content)
        };
        assert_eq!(fault("256", &[], DType::I8), "256 is out of range for i8");
        assert_eq!(fault("-1", &[], DType::U8), "-1 is out of range for ui8");
        assert_eq!(
            fault("[1, 2, 3]", &[2], DType::I8),
            "a list in dense<...> has more than 2 items"
        );
        assert_eq!(fault("[1]", &[2], DType::I8), "a list in dense<...> has 1 items, its axis 2");
        assert_eq!(fault("1.5", &[], DType::I8), "`1.5` is not an element of type i8");
        assert_eq!(
            fault("\"0x00\"", &[2], DType::F32),
            "the blob has 1 bytes, tensor<2xf32> needs 8"
        );
        assert!(fault("[1, 2", &[2], DType::I8).starts_with("expected `,` or `]`"));
    }

    /// A splat of a huge type takes no memory.
    #[test]
    fn huge_splat() {
        let ty = TensorType::new([1 << 50], DType::F32);
        let literal = parse("0.0", &ty).expect("a splat");
        assert_eq!(literal.stored_bytes(), 4);
    }
}
