//! What must not compile, and what the compiler says then.
//!
//! The cases are checked in a project that `trybuild` makes, for which all dependencies are checked
//! once more (minutes at the first time, seconds afterwards). So the test runs where it is asked for:
//! `cargo test -p jaxrs --test ui -- --ignored`; with `TRYBUILD=overwrite` it writes the expected
//! messages.

#[test]
#[ignore = "checks all dependencies once more: run it with --ignored"]
fn mistakes_are_told() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
