//! The host as Cranelift sees it, and the compilation of one function.

use super::CompileError;
use crate::helpers::Helper;
use cranelift_codegen::Context;
use cranelift_codegen::FinalizedRelocTarget;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, Signature, Type, UserExternalName,
    types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::sync::OnceLock;

/// Namespaces of the names that code refers to.
pub(crate) mod namespace {
    /// Functions of this crate, by number of [`super::Helper`].
    pub(crate) const HELPER: u32 = 0;
    /// Compiled kernels.
    pub(crate) const KERNEL: u32 = 1;
    /// Parts of the entry.
    pub(crate) const ENTRY: u32 = 2;
}

/// What code is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Code that runs its loops itself.
    Fast,
    /// Code that is over when it has called what does the work: quickly made.
    Once,
}

/// The host.
pub(crate) struct Target {
    isa: OwnedTargetIsa,
    /// Whether it multiplies and adds with one rounding.
    pub(crate) fma: bool,
}

/// What a relocation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) namespace: u32,
    pub(crate) index: u32,
}

/// The machine code of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// The instructions and their constants.
    pub(crate) bytes: Vec<u8>,
    /// Alignment of the first byte.
    pub(crate) alignment: usize,
    /// Where 8-byte addresses go.
    pub(crate) relocations: Vec<(usize, Symbol, i64)>,
    /// Cranelift's text, if asked for.
    pub(crate) clif: String,
    /// The disassembly, if asked for.
    pub(crate) asm: String,
}

/// Whether texts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) bool);

/// Memory that compiling functions one after the other reuses.
pub(crate) struct Workspace {
    context: Context,
    builder: FunctionBuilderContext,
    control: ControlPlane,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        Workspace {
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
            control: ControlPlane::default(),
        }
    }
}

impl Target {
    /// The machine this runs on, looked at once.
    pub(crate) fn host(effort: Effort) -> Result<&'static Target, CompileError> {
        static FAST: OnceLock<Result<Target, String>> = OnceLock::new();
        static ONCE: OnceLock<Result<Target, String>> = OnceLock::new();
        let target = match effort {
            Effort::Fast => &FAST,
            Effort::Once => &ONCE,
        };
        let made = target.get_or_init(|| Target::new(effort).map_err(|e| e.to_string()));
        made.as_ref().map_err(|e| CompileError::Target(e.clone()))
    }

    fn new(effort: Effort) -> Result<Target, CompileError> {
        let mut flags = settings::builder();
        let (level, registers) = match effort {
            Effort::Fast => ("speed", "backtracking"),
            Effort::Once => ("none", "single_pass"),
        };
        let verify = if cfg!(debug_assertions) { "true" } else { "false" };
        for (name, value) in [
            ("opt_level", level),
            ("regalloc_algorithm", registers),
            ("enable_verifier", verify),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_probestack", "false"),
            ("unwind_info", "false"),
            ("enable_alias_analysis", "false"),
            ("preserve_frame_pointers", "false"),
        ] {
            flags.set(name, value).map_err(|e| CompileError::Target(e.to_string()))?;
        }
        let builder = cranelift_native::builder().map_err(|e| CompileError::Target(e.into()))?;
        let isa = builder
            .finish(settings::Flags::new(flags))
            .map_err(|e| CompileError::Target(e.to_string()))?;
        #[cfg(target_arch = "x86_64")]
        let fma = std::arch::is_x86_feature_detected!("fma");
        #[cfg(not(target_arch = "x86_64"))]
        let fma = true;
        Ok(Target { isa, fma })
    }

    /// Compiles a function whose body `build` writes.
    pub(crate) fn compile(
        &self,
        work: &mut Workspace,
        params: &[Type],
        texts: Texts,
        build: impl FnOnce(&mut FunctionBuilder<'_>),
    ) -> Result<Code, CompileError> {
        let context = &mut work.context;
        context.clear();
        context.func = Function::new();
        context.func.signature = self.signature(params, &[]);
        let mut builder = FunctionBuilder::new(&mut context.func, &mut work.builder);
        build(&mut builder);
        builder.seal_all_blocks();
        builder.finalize(self.isa.frontend_config());
        context.set_disasm(texts.0);
        let clif = if texts.0 { context.func.display().to_string() } else { String::new() };
        context
            .compile(&*self.isa, &mut work.control)
            .map_err(|e| CompileError::Code(format!("{:?}", e.inner)))?;
        let code = context.compiled_code().expect("just compiled");
        let mut out = Code {
            bytes: code.code_buffer().to_vec(),
            alignment: code.buffer.alignment.max(32) as usize,
            relocations: Vec::new(),
            clif,
            asm: code.vcode.clone().unwrap_or_default(),
        };
        for relocation in code.buffer.relocs() {
            let symbol = match (&relocation.kind, &relocation.target) {
                (Reloc::Abs8, FinalizedRelocTarget::ExternalName(ExternalName::User(name))) => {
                    let name = &context.func.params.user_named_funcs()[*name];
                    Symbol { namespace: name.namespace, index: name.index }
                }
                other => return Err(CompileError::Code(format!("relocation {other:?}"))),
            };
            out.relocations.push((relocation.offset as usize, symbol, relocation.addend));
        }
        Ok(out)
    }

    fn signature(&self, params: &[Type], returns: &[Type]) -> Signature {
        let mut signature = Signature::new(CallConv::triple_default(self.isa.triple()));
        signature.params.extend(params.iter().map(|&ty| AbiParam::new(ty)));
        signature.returns.extend(returns.iter().map(|&ty| AbiParam::new(ty)));
        signature
    }

    /// A function outside the one being built.
    pub(crate) fn import(
        &self,
        builder: &mut FunctionBuilder<'_>,
        symbol: Symbol,
        params: &[Type],
        returns: &[Type],
    ) -> FuncRef {
        let signature = builder.import_signature(self.signature(params, returns));
        let name = UserExternalName::new(symbol.namespace, symbol.index);
        let name = builder.func.declare_imported_user_function(name);
        builder.import_function(ExtFuncData {
            name: ExternalName::User(name),
            signature,
            colocated: false,
            patchable: false,
        })
    }

    /// A helper.
    pub(crate) fn helper(&self, builder: &mut FunctionBuilder<'_>, helper: Helper) -> FuncRef {
        use types::{F32, F64, I64};
        let (params, returns): (&[Type], &[Type]) = match helper {
            Helper::RemF32 => (&[F32, F32], &[F32]),
            Helper::RemF64 => (&[F64, F64], &[F64]),
            Helper::FmaF32 => (&[F32, F32, F32], &[F32]),
            Helper::FmaF64 => (&[F64, F64, F64], &[F64]),
            Helper::ParallelFor | Helper::Tile => (&[I64; 5], &[]),
            Helper::Copy | Helper::Library => (&[I64; 4], &[]),
            Helper::Fill | Helper::Hook => (&[I64; 3], &[]),
        };
        let symbol = Symbol { namespace: namespace::HELPER, index: helper as u32 };
        self.import(builder, symbol, params, returns)
    }
}
