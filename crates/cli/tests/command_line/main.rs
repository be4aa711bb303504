//! The command line as a user meets it.

mod bad_input;
mod common;
mod donation;
mod main_paths;
