//! Random programs are planned and the plans hold.

mod common;

use jaxrs_plan::{Options, plan, validate};
use proptest::prelude::{ProptestConfig, any, proptest};

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 300 } else { 1_000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_hold(seed in any::<u64>(), size in 1usize..25, threads in 1u32..3, strict: bool) {
        let program = common::random(seed, size);
        let options = Options { threads, strict_aliases: strict, validate: false };
        let planned = plan(program, &options).map_err(|e| e.to_string()).unwrap();
        validate::validate(&planned).unwrap();
    }
}
