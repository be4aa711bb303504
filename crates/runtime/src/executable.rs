//! What a back end makes of a program.

use jaxrs_kernel::DType;
use jaxrs_kernel::program::{Bytes, Donation};
use jaxrs_plan::{Planned, Region};

/// Element type and shape of an argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The element type.
    pub dtype: DType,
    /// Extents of the axes.
    pub shape: Vec<u64>,
}

impl TensorInfo {
    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        (self.shape.iter().product::<u64>() * self.dtype.size()) as usize
    }
}

/// An argument.
#[derive(Clone, Debug)]
pub struct ArgumentInfo {
    /// Its type.
    pub tensor: TensorInfo,
    /// Whether the program may write to its buffer.
    pub donated: bool,
}

/// A result.
#[derive(Clone, Debug)]
pub struct ResultInfo {
    /// Its type.
    pub tensor: TensorInfo,
    /// Where it is after a run: a donated argument's buffer or its own output buffer.
    pub region: Region,
}

impl ResultInfo {
    /// The argument whose memory it has.
    pub fn donor(&self) -> Option<usize> {
        match self.region {
            Region::Argument(argument) => Some(argument as usize),
            Region::Output(_) | Region::Arena | Region::Constant(_) => None,
        }
    }
}

/// What a caller of an executable must know.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The program's name.
    pub name: String,
    /// The arguments.
    pub arguments: Vec<ArgumentInfo>,
    /// The results.
    pub results: Vec<ResultInfo>,
    /// Bytes of the arena.
    pub arena: Bytes,
}

impl Interface {
    /// The results that have no donor, in order.
    pub fn fresh(&self) -> impl Iterator<Item = &ResultInfo> {
        self.results.iter().filter(|info| info.donor().is_none())
    }

    /// The interface of a planned program.
    pub fn new(planned: &Planned) -> Interface {
        let program = &planned.program;
        let tensor = |value| {
            let value: &jaxrs_kernel::program::Value = &program.values[value];
            TensorInfo { dtype: value.dtype, shape: value.shape.clone() }
        };
        Interface {
            name: program.name.clone(),
            arguments: program
                .parameters
                .iter()
                .map(|parameter| ArgumentInfo {
                    tensor: tensor(parameter.value),
                    donated: parameter.donation != Donation::Kept,
                })
                .collect(),
            results: program
                .results
                .iter()
                .zip(&planned.results)
                .map(|(&value, &region)| ResultInfo { tensor: tensor(value), region })
                .collect(),
            arena: planned.arena,
        }
    }
}

/// A compiled program.
pub trait Executable: Send + Sync {
    /// What it takes and gives.
    fn interface(&self) -> &Interface;

    /// Runs it, on the calling thread and what threads it has of its own.
    ///
    /// # Safety
    /// `arguments` has an address for every argument, `outputs` for every result (unused where the
    /// result's region is an argument), each aligned to 64 bytes and valid for the tensor's bytes,
    /// rounded up to 64; `arena` is aligned to 64 and valid for the arena's bytes. Outputs, the
    /// arena and donated arguments are not accessed by anyone else during the call, the other
    /// arguments not written; none of them overlap, but arguments that are not donated may.
    unsafe fn run(&self, arguments: &[*mut u8], outputs: &[*mut u8], arena: *mut u8);
}
