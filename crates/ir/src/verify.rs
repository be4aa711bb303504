//! What a well-formed module is.
