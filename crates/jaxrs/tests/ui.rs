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

/// A user's crate with ten jitted functions, dependencies done.
#[test]
#[ignore = "builds all dependencies once more: run it with --ignored"]
fn ten_functions_build_within_ten_seconds() {
    use std::fmt::Write as _;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ten");
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    let jaxrs = env!("CARGO_MANIFEST_DIR");
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"ten\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\njaxrs = {{ path = \"{jaxrs}\" }}\n\n[workspace]\n"
        ),
    );
    let lock = std::fs::read_to_string(format!("{jaxrs}/../../Cargo.lock")).expect("the lock file");
    write("Cargo.lock", &lock);
    let mut source = "use jaxrs::prelude::*;\n\n#[derive(Tree, Clone)]\n\
                      pub struct Model { w: Array, b: Array }\n"
        .to_string();
    for n in 0..10 {
        write!(
            source,
            "\n#[jit(donate = [model])]\n\
             pub fn step{n}(model: Model, x: &Array, y: &Array, lr: Scalar<f32>) -> (Model, Array) {{\n    \
                 let loss = |m: &Model| ((x.dot(&m.w) + &m.b).tanh() * {n}.5 - y).square().mean(..);\n    \
                 let (loss, grads) = value_and_grad(loss)(&model);\n    \
                 (model.zip_map(&grads, |p, g| p - &*lr * g), loss)\n}}\n"
        )
        .expect("a string takes all");
    }
    source.push_str("\nfn main() {}\n");
    write("src/main.rs", &source);
    let cargo = |arguments: &[&str]| {
        let begin = std::time::Instant::now();
        let mut command = std::process::Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
        assert!(command.status().expect("cargo runs").success());
        begin.elapsed().as_secs_f64()
    };
    cargo(&["build"]);
    cargo(&["clean", "-p", "ten"]);
    let seconds = cargo(&["build"]);
    println!("ten functions: {seconds:.1} s");
    assert!(seconds < 10.0, "{seconds} s");
}
