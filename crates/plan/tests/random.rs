//! Random programs are planned and the plans hold.

mod common;

use jaxrs_plan::{Ideas, Options, PlanError, plan, validate};
use proptest::prelude::{ProptestConfig, any, proptest};

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 300 } else { 1_000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_hold(seed in any::<u64>(), size in 1usize..25, threads in 1u32..3, strict_aliases: bool, off in 0u8..32) {
        let program = common::random(seed, size);
        // Half of the plans use everything.
        let on = |bit: u8| off >= 16 || off >> bit & 1 == 0;
        let ideas = Ideas { reorder: on(0), in_place: on(1), rooms: on(2), packing: on(3) };
        let options = Options { threads, strict_aliases, validate: false, ideas };
        match plan(program, &options) {
            Ok(planned) => validate::validate(&planned).unwrap(),
            // Pairs that the source names may be impossible.
            Err(PlanError::Alias { .. }) if strict_aliases => (),
            Err(error) => panic!("{error}"),
        }
    }
}
