//! Errors of the front end: what is wrong, where, and facts beside it.

use crate::array::Array;
use jaxrs_ir::Location;
use std::cell::Cell;
use std::fmt;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A result of the front end.
pub type Result<T> = std::result::Result<T, Error>;

/// Where in the user's source a value was made or a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(&'static panic::Location<'static>);

thread_local! {
    /// The place of the operation whose parts are being recorded, if one is.
    static WHOLE: Cell<Option<Place>> = const { Cell::new(None) };
}

impl Place {
    /// The caller's place; inside of a composed operation, that one's.
    #[track_caller]
    pub fn here() -> Place {
        WHOLE.get().unwrap_or(Place(panic::Location::caller()))
    }

    /// Runs what makes up one operation: all its parts stand at this place.
    pub(crate) fn during<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Place>);

        impl Drop for Restore {
            fn drop(&mut self) {
                WHOLE.set(self.0);
            }
        }

        let _restore = Restore(WHOLE.replace(Some(self)));
        f()
    }

    /// The file.
    pub fn file(self) -> &'static str {
        self.0.file()
    }

    /// The line, from 1.
    pub fn line(self) -> u32 {
        self.0.line()
    }

    /// The place as the IR keeps it.
    pub(crate) fn location(self) -> Location {
        let source = Some((Arc::from(self.file()), self.line(), self.0.column()));
        Location { source, ..Location::default() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file(), self.line(), self.0.column())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What went wrong: the first fault on the way to a value, with its place. Cheap to clone.
///
/// An error that nobody looks at is written to standard error when it is dropped.
#[derive(Clone)]
pub struct Error(Arc<Data>);

struct Data {
    message: String,
    place: Option<Place>,
    notes: Vec<String>,
    seen: AtomicBool,
    donated: Mutex<Vec<Array>>,
}

impl Error {
    /// A fault at a place.
    pub fn new(message: impl Into<String>, place: Place) -> Error {
        Error::with(message.into(), Some(place), Vec::new())
    }

    fn with(message: String, place: Option<Place>, notes: Vec<String>) -> Error {
        let (seen, donated) = (AtomicBool::new(false), Mutex::default());
        Error(Arc::new(Data { message, place, notes, seen, donated }))
    }

    /// An error of its own that also keeps the arrays which a call was to use up.
    pub(crate) fn keep(self, donated: Vec<Array>) -> Error {
        if donated.is_empty() {
            return self;
        }
        self.seen();
        let error = Error::with(self.0.message.clone(), self.0.place, self.0.notes.clone());
        *error.0.donated.lock().unwrap_or_else(PoisonError::into_inner) = donated;
        error
    }

    /// The arrays that the failed call was given to use up, in the order of its donated arguments:
    /// a call that fails consumes nothing. They can be taken once; until then the error keeps them
    /// alive.
    pub fn take_donated(&self) -> Vec<Array> {
        std::mem::take(&mut *self.0.donated.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// With one more fact, or a fix.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Error {
        let mut notes = self.0.notes.clone();
        notes.push(note.into());
        self.seen();
        let donated = self.take_donated();
        Error::with(self.0.message.clone(), self.0.place, notes).keep(donated)
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where the wrong call stands.
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }

    /// Facts and fixes.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Notes that the user has got the error.
    pub(crate) fn seen(&self) {
        self.0.seen.store(true, Ordering::Relaxed);
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if !self.seen.load(Ordering::Relaxed) && !std::thread::panicking() {
            eprintln!("an array that was never read held an error\n{}", Shown(self));
        }
    }
}

struct Shown<'a>(&'a Data);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.0.message)?;
        if let Some(place) = self.0.place {
            write!(f, "\n  --> {place}")?;
        }
        for note in &self.0.notes {
            write!(f, "\n   = note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen();
        fmt::Display::fmt(&Shown(&self.0), f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
