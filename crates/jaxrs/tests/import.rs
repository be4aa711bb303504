//! Programs out and in again as StableHLO.

use jaxrs::prelude::*;
use std::path::PathBuf;

type Outcome = Result<(), jaxrs::Error>;

#[jit(donate = [state])]
fn step(state: Array, by: &Array) -> (Array, Array) {
    let next = cond(&by.sum(..).gt(0.0), |x: &Array| x * 0.5 + by, |x: &Array| -x, &state);
    let sum = next.sum(..);
    (next, sum)
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("jaxrs-{name}-{}.mlir", std::process::id()));
    std::fs::write(&path, text).expect("a file in the temporary folder");
    path
}

#[test]
fn an_exported_program_comes_back() -> Outcome {
    let state = Array::from_vec(vec![1.0f32, 2.0, 3.0]);
    let by = Array::from_vec(vec![0.5f32, 0.25, 0.125]);
    let path = file("export", &step::lower(&state, &by)?.to_stablehlo()?);
    let imported = jaxrs::import(&path)?;
    let (next, sum) = step(state.copy(), &by)?;
    let address = state.address();
    let results = imported.call(vec![state, by.clone()])?;
    assert_eq!(results[0].to_vec::<f32>()?, next.to_vec::<f32>()?);
    assert_eq!(results[1].item::<f32>()?, sum.item::<f32>()?);
    // The file says that the state is donated.
    assert_eq!(results[0].address(), address);
    assert!(imported.memory_analysis().alias_bytes > 0);
    let wrong = imported.call(vec![by.clone()]).expect_err("one of two");
    assert!(wrong.message().contains("takes 2 arrays, 1 were given"), "{wrong}");
    // Inside a traced function it is a part of it.
    let inside = jit(|x: &Array| Ok(imported.call(vec![x.clone(), by.clone()])?.remove(1)));
    assert_eq!(inside(&next)?.dtype(), DType::F32);
    let slope = grad(|x: &Array| {
        imported.call(vec![x.clone(), by.clone()]).expect("the types fit").remove(1)
    })(&next);
    assert_eq!(slope.to_vec::<f32>()?, [0.5; 3]);
    std::fs::remove_file(path).expect("the file is there");
    Ok(())
}

#[test]
fn faults_of_a_file_are_told() {
    let error = jaxrs::import("no/such/file.mlir").err().expect("no file");
    assert!(error.message().starts_with("no/such/file.mlir: "), "{error}");
    let path = file(
        "wrong",
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = stablehlo.nothing %x : tensor<2xf32>\n  return %y : tensor<2xf32>\n}",
    );
    let error = jaxrs::import(&path).err().expect("an unknown op");
    assert!(error.message().contains("stablehlo.nothing"), "{error}");
    assert!(error.place().is_some_and(|place| place.file().ends_with("import.rs")));
    std::fs::remove_file(path).expect("the file is there");
}
