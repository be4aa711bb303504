//! The crates depend on each other only as `docs/architecture.md` says.

use std::collections::BTreeMap;
use std::process::Command;

const ALLOWED: &[(&str, &[&str])] = &[
    ("jaxrs-kernel", &[]),
    ("jaxrs-ir", &["jaxrs-kernel"]),
    ("jaxrs-plan", &["jaxrs-kernel"]),
    ("jaxrs-opt", &["jaxrs-ir", "jaxrs-kernel", "jaxrs-plan"]),
    ("jaxrs-runtime", &["jaxrs-kernel", "jaxrs-plan"]),
    ("jaxrs-cpu", &["jaxrs-kernel", "jaxrs-plan", "jaxrs-runtime"]),
    (
        "jaxrs",
        &[
            "jaxrs-cpu",
            "jaxrs-ir",
            "jaxrs-kernel",
            "jaxrs-macros",
            "jaxrs-opt",
            "jaxrs-plan",
            "jaxrs-runtime",
        ],
    ),
    ("jaxrs-macros", &[]),
    ("jaxrs-compile", &["jaxrs", "jaxrs-plan"]),
];

#[test]
fn crates_depend_only_downwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the list"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // Tests may look at more than the code they test.
            let ours = dependency["name"].as_str().filter(|n| n.starts_with("jaxrs"));
            let Some(ours) = ours.filter(|_| dependency["kind"].is_null()) else { continue };
            assert!(allowed.contains(&ours), "{name} must not depend on {ours}");
        }
    }
}
