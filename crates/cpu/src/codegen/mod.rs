//! Machine code with Cranelift: the one module that knows its interface.
//!
//! [`nest`] writes a kernel's loops, [`scalar`] its instructions one element at a time; [`lanes`]
//! writes the vector code of [`crate::wide`] for 128-bit vectors; [`entry`] writes the function
//! that runs a program's steps, with what [`tight`] finds in [`registers`]; [`target`] compiles what they write.

mod access;
pub(crate) mod entry;
mod lanes;
pub(crate) mod nest;
mod registers;
pub(crate) mod scalar;
pub(crate) mod target;
pub(crate) mod tight;

use crate::CompileError;
use cranelift_codegen::ir::types;
use jaxrs_kernel::Kernel;
use target::{Code, Target, Texts, Workspace};

/// What a kernel may be compiled to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// The widest the machine has.
    #[default]
    Best,
    /// 128-bit vectors, which all machines have.
    Portable,
    /// None: one element at a time.
    None,
}

/// Compiles a kernel to a `fn(ptrs: *const *mut u8, lo: i64, hi: i64)`.
pub(crate) fn compile_kernel(
    target: &Target,
    work: &mut Workspace,
    texts: Texts,
    kernel: &Kernel,
    vectors: Vectors,
) -> Result<Code, CompileError> {
    if vectors == Vectors::Best
        && let Some((bytes, text)) = crate::wide::compile(kernel, texts.0)
    {
        let asm = if texts.0 { disassembly(&bytes) } else { String::new() };
        return Ok(Code { bytes, alignment: 64, relocations: Vec::new(), clif: text, asm });
    }
    if vectors != Vectors::None
        && has_vectors()
        && let Some(code) = crate::wide::portable(kernel)
    {
        let mut known = Ok(());
        let compiled = target.compile(work, &[types::I64; 3], texts, |builder| {
            known = lanes::emit(builder, target, &code);
        });
        if known.is_ok() {
            return compiled;
        }
    }
    target.compile(work, &[types::I64; 3], texts, |builder| {
        nest::emit_kernel(builder, target, kernel);
    })
}

/// Whether the machine has the 128-bit instructions that Cranelift wants.
fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("ssse3")
            && std::arch::is_x86_feature_detected!("sse4.1")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}

/// The instructions up to the only return, then the constants.
#[cfg(feature = "disassembly")]
fn disassembly(bytes: &[u8]) -> String {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, Mnemonic};
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let mut text = String::new();
    for instruction in &mut decoder {
        text += &format!("{:6x}: ", instruction.ip());
        formatter.format(&instruction, &mut text);
        text.push('\n');
        if instruction.mnemonic() == Mnemonic::Ret {
            break;
        }
    }
    text + &hex(&bytes[decoder.position()..])
}

/// Without a disassembler, the bytes.
#[cfg(not(feature = "disassembly"))]
fn disassembly(bytes: &[u8]) -> String {
    hex(bytes)
}

/// Bytes, 32 a line.
fn hex(bytes: &[u8]) -> String {
    let line = |chunk: &[u8]| chunk.iter().map(|b| format!("{b:02x} ")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}
