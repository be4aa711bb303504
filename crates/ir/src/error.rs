//! Errors with their places.

use jaxrs_kernel::program::SourcePlace;
use std::fmt;
use std::sync::Arc;

/// Where an op comes from: its position in the program text and, where the text has a `loc`, the
/// innermost `file:line:column` and the name it gives. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// Line and column, from 1, in the program text; 0 where there is no text.
    pub text: (u32, u32),
    /// File, line and column of the source.
    pub source: Option<(Arc<str>, u32, u32)>,
    /// The name in the `loc`, e.g. `jit(f)/dot_general`.
    pub name: Option<Arc<str>>,
}

impl Location {
    /// The place to show for a value made here.
    pub fn place(&self) -> Option<SourcePlace> {
        match &self.source {
            Some((file, line, column)) => {
                Some(SourcePlace { file: Some(file.to_string()), line: *line, column: *column })
            }
            None if self.text.0 > 0 => {
                Some(SourcePlace { file: None, line: self.text.0, column: self.text.1 })
            }
            None => None,
        }
    }
}

/// One fault: what is wrong, where, and facts or a fix in the notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong, in one line, with the facts.
    pub message: String,
    /// Where.
    pub location: Location,
    /// Facts and fixes.
    pub notes: Vec<String>,
    /// Whether the program may well be right, but uses what there is no support for.
    pub unsupported: bool,
}

impl Error {
    /// A fault at a place.
    pub fn new(message: impl Into<String>, location: &Location) -> Error {
        Error {
            message: message.into(),
            location: location.clone(),
            notes: Vec::new(),
            unsupported: false,
        }
    }

    /// With one more note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Error {
        self.notes.push(note.into());
        self
    }
}

/// One or more faults of a program, with the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    /// The program's file as the user named it.
    pub file: String,
    /// The faults, in the order of their places; not empty.
    pub errors: Vec<Error>,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.errors.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "error: {}", error.message)?;
            let (line, column) = error.location.text;
            if line > 0 {
                write!(f, "\n  --> {}:{line}:{column}", self.file)?;
            }
            if let Some((file, line, column)) = &error.location.source {
                write!(f, "\n   = note: made at {file}:{line}:{column}")?;
            }
            for note in &error.notes {
                write!(f, "\n   = note: {note}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
