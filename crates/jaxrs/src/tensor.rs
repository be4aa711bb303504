//! Tensors on the host, and safetensors files of them.

use jaxrs_ir::{DType, TensorType};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A dense row-major tensor on the host: little-endian elements, an `i1` a byte 0 or 1.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Shape and element type.
    pub ty: TensorType,
    /// The elements; `ty.bytes()` of them.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.ty)
    }
}

/// What went wrong with a file of tensors.
#[derive(Debug, thiserror::Error)]
pub enum TensorFileError {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what was expected.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong, with the fix.
        message: String,
    },
}

const NAMES: [(&str, DType); 14] = [
    ("BOOL", DType::I1),
    ("I8", DType::I8),
    ("I16", DType::I16),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("U8", DType::U8),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("BF16", DType::BF16),
    ("F16", DType::F16),
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("C64", DType::C64),
];

/// What the tensors of a file are to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its arguments.
    Arguments,
    /// What it is expected to give.
    Results,
}

impl Role {
    fn verb(self) -> &'static str {
        match self {
            Role::Arguments => "takes",
            Role::Results => "gives",
        }
    }
}

/// The tensors `0`, `1`, ... of a safetensors file, checked against types; more or fewer tensors,
/// other shapes or element types are errors that name them.
pub fn load(path: &Path, types: &[TensorType], role: Role) -> Result<Vec<Tensor>, TensorFileError> {
    let verb = role.verb();
    let shown = path.display().to_string();
    let content = |message: String| TensorFileError::Content { path: shown.clone(), message };
    let bytes = std::fs::read(path)
        .map_err(|source| TensorFileError::Io { path: shown.clone(), source })?;
    let file = safetensors::SafeTensors::deserialize(&bytes)
        .map_err(|error| content(format!("not a safetensors file: {error}")))?;
    let mut found = BTreeMap::new();
    for (name, view) in file.iter() {
        let position = name.parse::<usize>().ok().filter(|&p| p < types.len());
        let Some(position) = position else {
            return Err(content(format!(
                "tensor \"{name}\" has no place in the program, which {verb} {}",
                match types.len() {
                    0 => "none".to_string(),
                    1 => "one, named \"0\"".to_string(),
                    many => format!("{many}, named \"0\" to \"{}\" in order", many - 1),
                }
            )));
        };
        let stored = format!("{:?}", view.dtype());
        let dtype = dtype_of(view.dtype());
        let shape: Vec<u64> = view.shape().iter().map(|&e| e as u64).collect();
        let wanted = &types[position];
        if dtype != Some(wanted.dtype) || shape != wanted.shape {
            let found = dtype.map_or(format!("{stored}{shape:?}"), |d| {
                TensorType::new(shape.clone(), d).to_string()
            });
            return Err(content(format!(
                "tensor \"{name}\" is {found}, the program {verb} {wanted}"
            )));
        }
        let mut bytes = view.data().to_vec();
        if wanted.dtype == DType::I1 {
            // Any other byte than 0 or 1 is a truth value, too, but no `i1` in memory.
            bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        found.insert(position, Tensor { ty: wanted.clone(), bytes });
    }
    for (position, ty) in types.iter().enumerate() {
        if !found.contains_key(&position) {
            return Err(content(format!(
                "tensor \"{position}\" is missing: the program {verb} {ty} there"
            )));
        }
    }
    Ok(found.into_values().collect())
}

/// Writes tensors as `0`, `1`, ... to a safetensors file, whole or not at all.
pub fn save(path: &Path, tensors: &[Tensor]) -> Result<(), TensorFileError> {
    let shown = path.display().to_string();
    let content = |message: String| TensorFileError::Content { path: shown.clone(), message };
    let mut views = Vec::new();
    for (position, tensor) in tensors.iter().enumerate() {
        let dtype = stored_as(tensor.ty.dtype).ok_or_else(|| {
            content(format!(
                "result {position} is {}, which safetensors has no type for; convert it in the \
                 program",
                tensor.ty
            ))
        })?;
        let shape = tensor.ty.shape.iter().map(|&e| e as usize).collect();
        let view = safetensors::tensor::TensorView::new(dtype, shape, &tensor.bytes)
            .map_err(|error| content(error.to_string()))?;
        views.push((position.to_string(), view));
    }
    let bytes = safetensors::serialize(views, None).map_err(|error| content(error.to_string()))?;
    write_whole(path, &bytes).map_err(|source| TensorFileError::Io { path: shown, source })
}

/// Writes a file, whole or not at all: what stood there stays until the new content is on disk. What
/// is no plain file (a device, a pipe) is written to as it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some((target, partial)) = partial(path)? else { return std::fs::write(path, bytes) };
    let outcome = File::create(&partial)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            if let Ok(replaced) = std::fs::metadata(&target) {
                file.set_permissions(replaced.permissions())?;
            }
            Ok(())
        })
        .and_then(|()| std::fs::rename(&partial, &target));
    if outcome.is_err() {
        // The first fault is the one to tell.
        let _ = std::fs::remove_file(&partial);
    }
    outcome
}

/// Whether [`write_whole`] could write there now, to be asked before long work.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let Some((_, partial)) = partial(path)? else { return Ok(()) };
    File::create(&partial)?;
    std::fs::remove_file(&partial)
}

/// The file that is meant, links followed, and a name beside it; None for what is no plain file.
fn partial(path: &Path) -> io::Result<Option<(PathBuf, PathBuf)>> {
    let target = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(found) if found.permissions().readonly() => {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(_) => path.canonicalize()?,
        Err(_) => path.to_path_buf(),
    };
    let Some(name) = target.file_name() else { return Err(io::ErrorKind::NotFound.into()) };
    let name = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
    let partial = target.with_file_name(name);
    Ok(Some((target, partial)))
}

/// The element type of a tensor in a file, if programs have it.
pub(crate) fn dtype_of(stored: safetensors::Dtype) -> Option<DType> {
    let stored = format!("{stored:?}");
    NAMES.iter().find(|(name, _)| *name == stored).map(|(_, dtype)| *dtype)
}

/// The element type in files, if they have it.
pub(crate) fn stored_as(dtype: DType) -> Option<safetensors::Dtype> {
    let (name, _) = NAMES.iter().find(|(_, known)| *known == dtype)?;
    stored_dtype(name)
}

fn stored_dtype(name: &str) -> Option<safetensors::Dtype> {
    use safetensors::Dtype as D;
    let all = [
        D::BOOL,
        D::I8,
        D::I16,
        D::I32,
        D::I64,
        D::U8,
        D::U16,
        D::U32,
        D::U64,
        D::BF16,
        D::F16,
        D::F32,
        D::F64,
        D::C64,
    ];
    all.into_iter().find(|d| format!("{d:?}") == name)
}
