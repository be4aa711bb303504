//! One kernel compiled alone, for tests, measurements and looking at its code.

use crate::CompileError;
use crate::codegen::target::{Effort, Target, Texts, Workspace};
use crate::codegen::{self, Vectors};
use crate::helpers::Helper;
use crate::memory::CodeMemory;
use crate::pool::KernelFn;
use jaxrs_kernel::Kernel;

/// A compiled kernel.
pub struct LoneKernel {
    code: CodeMemory,
    lengths: Vec<u64>,
    /// Cranelift's text.
    pub clif: String,
    /// The disassembly.
    pub asm: String,
}

impl LoneKernel {
    /// Compiles a kernel.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn new(kernel: &Kernel) -> Result<LoneKernel, CompileError> {
        LoneKernel::with(kernel, Vectors::Best)
    }

    /// Compiles a kernel to code with 128-bit vectors.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn portable(kernel: &Kernel) -> Result<LoneKernel, CompileError> {
        LoneKernel::with(kernel, Vectors::Portable)
    }

    /// Compiles a kernel to code for one element at a time.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn scalar(kernel: &Kernel) -> Result<LoneKernel, CompileError> {
        LoneKernel::with(kernel, Vectors::None)
    }

    fn with(kernel: &Kernel, vectors: Vectors) -> Result<LoneKernel, CompileError> {
        let target = Target::host(Effort::Fast)?;
        let code =
            codegen::compile_kernel(target, &mut Workspace::new(), Texts(true), kernel, vectors)?;
        let memory = CodeMemory::new(code.bytes, |bytes, _| {
            for &(offset, symbol, addend) in &code.relocations {
                let target = Helper::ALL[symbol.index as usize].address();
                let value = (target as i64 + addend).to_le_bytes();
                bytes[offset..][..8].copy_from_slice(&value);
            }
        })?;
        let lengths = kernel.params.values().map(|p| p.len * p.dtype.size()).collect();
        Ok(LoneKernel { code: memory, lengths, clif: code.clif, asm: code.asm })
    }

    /// Runs it over a range of its outer index on buffers with the parameters' bytes.
    pub fn run(&self, buffers: &mut [&mut [u8]], lo: i64, hi: i64) {
        assert_eq!(buffers.len(), self.lengths.len(), "one buffer a parameter");
        for (buffer, &length) in buffers.iter().zip(&self.lengths) {
            assert!(buffer.len() as u64 >= length, "a buffer is too small");
        }
        let pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr()).collect();
        // SAFETY: the code starts with the kernel's function.
        let function: KernelFn = unsafe { std::mem::transmute(self.code.address(0)) };
        // SAFETY: a kernel accesses its parameters within their lengths only, checked above, and
        // the buffers are borrowed exclusively.
        unsafe { function(pointers.as_ptr(), lo, hi) };
    }
}
