//! Arrays and trees of arrays in files: safetensors and NumPy's `.npy`.

use crate::array::Array;
use crate::error::{Error, Place, Result};
use crate::tensor::{dtype_of, stored_as, write_whole};
use crate::tree::{Path, Tree};
use jaxrs_ir::{DType, TensorType};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::collections::BTreeMap;
use std::path::Path as FilePath;

/// Writes the arrays of a tree to a safetensors file, each under the way to it, e.g.
/// `layers.0.weight` (that of a single array is `array`).
///
/// ```
/// use jaxrs::prelude::*;
/// let path = std::env::temp_dir().join("jaxrs_files_save.safetensors");
/// let weights = (Array::ones([2]), Array::zeros([3]));
/// jaxrs::files::save(&weights, &path)?;
/// let read = jaxrs::files::load(&weights, &path)?;
/// assert_eq!(read.0.to_vec::<f32>()?, [1.0, 1.0]);
/// # std::fs::remove_file(path).expect("it was written");
/// # Ok::<(), jaxrs::Error>(())
/// ```
///
/// # Errors
/// If an array holds an error or is traced, if safetensors has no such element type
/// (`complex<f64>`), if two arrays have one name, or the file cannot be written.
#[track_caller]
pub fn save<T: Tree>(tree: &T, path: impl AsRef<FilePath>) -> Result<()> {
    let (path, place) = (path.as_ref(), Place::here());
    let mut arrays = Vec::new();
    tree.visit(&Path::default(), &mut |way, array| arrays.push((name(way), array.clone())));
    let mut views = BTreeMap::new();
    for (name, array) in &arrays {
        let dtype = stored_as(array.dtype()).ok_or_else(|| {
            let ty = array.ty();
            Error::new(format!("{name} is {ty}, which safetensors has no type for"), place)
        })?;
        let shape = array.shape().iter().map(|&extent| extent as usize).collect();
        let view = TensorView::new(dtype, shape, array.bytes(place)?)
            .map_err(|error| Error::new(format!("{name}: {error}"), place))?;
        if views.insert(name, view).is_some() {
            return Err(Error::new(format!("two arrays of the tree are named {name}"), place));
        }
    }
    let bytes =
        safetensors::serialize(views, None).map_err(|error| file_error(path, error, place))?;
    write_whole(path, &bytes).map_err(|error| file_error(path, error, place))
}

/// Reads a tree from a safetensors file that [`save`] wrote: the structure and the types are those
/// of `like`, whose elements do not matter.
///
/// # Errors
/// If the file cannot be read, lacks an array, or has one of another type.
#[track_caller]
pub fn load<T: Tree>(like: &T, path: impl AsRef<FilePath>) -> Result<T> {
    let (path, place) = (path.as_ref(), Place::here());
    let arrays = load_arrays(path)?;
    let mut fault = None;
    let tree = like.map_with_path(&Path::default(), &mut |way, array| {
        let name = name(way);
        let message = match arrays.get(&name) {
            Some(found) if found.ty() == array.ty() => return found.clone(),
            Some(found) => format!("{name} is {}, expected {}", found.ty(), array.ty()),
            None => format!("{name} is missing, a {}", array.ty()),
        };
        fault.get_or_insert(file_error(path, message, place));
        array.clone()
    });
    fault.map_or(Ok(tree), Err)
}

/// Reads all arrays of a safetensors file, by name.
///
/// # Errors
/// If the file cannot be read.
#[track_caller]
pub fn load_arrays(path: impl AsRef<FilePath>) -> Result<BTreeMap<String, Array>> {
    let (path, place) = (path.as_ref(), Place::here());
    let bytes = std::fs::read(path).map_err(|error| file_error(path, error, place))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| file_error(path, error, place))?;
    let mut arrays = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some(dtype) = dtype_of(view.dtype()) else {
            let message = format!("{name} is {:?}, which jaxrs has no type for", view.dtype());
            return Err(file_error(path, message, place));
        };
        let shape: Vec<u64> = view.shape().iter().map(|&extent| extent as u64).collect();
        let ty = TensorType::new(shape, dtype);
        arrays.insert(name.to_string(), array(ty, view.data().to_vec(), place));
    }
    Ok(arrays)
}

/// The name of an array in a file.
fn name(way: &Path<'_>) -> String {
    match way.to_string() {
        root if root.is_empty() => "array".into(),
        other => other,
    }
}

fn file_error(path: &FilePath, what: impl std::fmt::Display, place: Place) -> Error {
    Error::new(format!("{}: {what}", path.display()), place)
}

/// An array of bytes from outside: any but 0 is true.
fn array(ty: TensorType, mut bytes: Vec<u8>, place: Place) -> Array {
    if ty.dtype == DType::I1 {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Array::from_bytes(ty, bytes, place)
}

/// NumPy's letters for element types; NumPy has no `bf16`, and keeps the one of others as bytes.
const LETTERS: [(&str, DType); 15] = [
    ("b1", DType::I1),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("V2", DType::BF16),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("c8", DType::C64),
    ("c16", DType::C128),
];

const MAGIC: &[u8] = b"\x93NUMPY";

impl Array {
    /// Reads NumPy's `.npy` file.
    ///
    /// # Errors
    /// If the file cannot be read, is none, or has an element type that jaxrs has not.
    #[track_caller]
    pub fn load_npy(path: impl AsRef<FilePath>) -> Result<Array> {
        let (path, place) = (path.as_ref(), Place::here());
        let bytes = std::fs::read(path).map_err(|error| file_error(path, error, place))?;
        let (header, mut data) = parse(&bytes).map_err(|error| file_error(path, error, place))?;
        if header.swapped {
            let part = header.ty.dtype.part().size() as usize;
            data.chunks_mut(part).for_each(<[u8]>::reverse);
        }
        if !header.columns_first {
            return Ok(array(header.ty, data, place));
        }
        let shape: Vec<u64> = header.ty.shape.iter().rev().copied().collect();
        array(TensorType::new(shape, header.ty.dtype), data, place).t().ok()
    }

    /// Writes NumPy's `.npy` file; `bf16` as two bytes without a type, as NumPy does.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let path = std::env::temp_dir().join("jaxrs_files_save.npy");
    /// Array::arange(6).reshape([2, 3]).save_npy(&path)?;
    /// assert_eq!(Array::load_npy(&path)?.shape(), [2, 3]);
    /// # std::fs::remove_file(path).expect("it was written");
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the array holds an error or is traced, or the file cannot be written.
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<FilePath>) -> Result<()> {
        let (path, place) = (path.as_ref(), Place::here());
        let data = self.bytes(place)?;
        let letters = LETTERS.iter().find(|(_, dtype)| *dtype == self.dtype());
        let (letters, dtype) = letters.expect("every element type is in the list");
        let order = if dtype.part().size() == 1 { '|' } else { '<' };
        let mut shape: String = self.shape().iter().map(|extent| format!("{extent}, ")).collect();
        shape.truncate(shape.trim_end().len());
        let mut header = format!(
            "{{'descr': '{order}{letters}', 'fortran_order': False, 'shape': ({shape}), }}"
        );
        // The data starts at a multiple of 64 bytes.
        let length = (MAGIC.len() + 6 + header.len() + 1).next_multiple_of(64);
        header.extend(std::iter::repeat_n(' ', length - MAGIC.len() - 6 - header.len() - 1));
        header.push('\n');
        let mut bytes = MAGIC.to_vec();
        bytes.extend([2, 0]);
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        write_whole(path, &bytes).map_err(|error| file_error(path, error, place))
    }
}

/// What the head of a `.npy` file says.
struct Header {
    ty: TensorType,
    columns_first: bool,
    /// Whether elements are big-endian.
    swapped: bool,
}

/// The head and the data.
fn parse(bytes: &[u8]) -> std::result::Result<(Header, Vec<u8>), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let cut = || "the head is cut off".to_string();
    let [version, _, rest @ ..] = rest else { return Err(cut()) };
    let (length, rest) = match version {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (u16::from_le_bytes(*length) as usize, rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => return Err(format!("version {other} of the format is not known")),
    };
    let (head, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let head = String::from_utf8_lossy(head);
    let value = |key: &str| -> std::result::Result<&str, String> {
        let missing = || format!("the head has no {key}");
        let (_, rest) = head.split_once(&format!("'{key}'")).ok_or_else(missing)?;
        Ok(rest.trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start())
    };
    let descr = value("descr")?;
    let quoted = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    let letters = quoted.ok_or("element types with fields are not taken")?.0;
    let plain = letters.trim_start_matches(['<', '>', '|', '=']);
    let dtype = LETTERS.iter().find(|(known, _)| *known == plain).map(|(_, dtype)| *dtype);
    let dtype = dtype.ok_or_else(|| format!("element type {letters} is not taken"))?;
    let shape = value("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let shape = shape.ok_or("the shape is none")?.0;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape = extents
        .map(|extent| extent.parse::<u64>().map_err(|_| format!("the shape has extent {extent}")))
        .collect::<std::result::Result<Vec<u64>, String>>()?;
    let ty = TensorType::checked("the array", shape, dtype)?;
    if data.len() as u64 != ty.bytes() {
        return Err(format!("{} bytes do not make {ty}", data.len()));
    }
    let columns_first = value("fortran_order")?.starts_with("True");
    Ok((Header { ty, columns_first, swapped: letters.starts_with('>') }, data.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(head: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((head.len() as u16).to_le_bytes());
        bytes.extend(head.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn heads_are_read() {
        let head = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 1), }";
        let (header, data) = parse(&npy(head, &[0, 1, 0, 2])).expect("a head");
        assert_eq!(header.ty, TensorType::new([2, 1], DType::I16));
        assert!(header.swapped && header.columns_first);
        assert_eq!(data.len(), 4);
        let scalar = "{'descr': '<f8', 'fortran_order': False, 'shape': (), }";
        assert_eq!(parse(&npy(scalar, &[0; 8])).expect("a head").0.ty.rank(), 0);
    }

    #[test]
    fn broken_files_are_errors() {
        let whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 8]);
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length} bytes");
        }
        for head in [
            "{'descr': '<q4', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
            "{'descr': '<f4', 'shape': (2,), }",
        ] {
            assert!(parse(&npy(head, &[0; 8])).is_err(), "{head}");
        }
    }
}
