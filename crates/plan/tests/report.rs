//! The report says what the plan holds.

mod common;

use common::Build;
use jaxrs_plan::report::Report;
use jaxrs_plan::{Options, plan};
use serde_json::Value;

/// What scripts recompute from `values`: nothing overlaps, and the totals follow.
fn audit(json: &Value) -> Result<(), String> {
    let rows = json["values"].as_array().ok_or("values")?;
    let number = |r: &Value, key: &str| r[key].as_u64().unwrap_or(u64::MAX);
    let mut height = 0;
    for (i, a) in rows.iter().enumerate() {
        if number(a, "start") >= number(a, "end") {
            return Err(format!("{} is live for no time", a["name"]));
        }
        if a["region"] == "arena" {
            height = height.max(number(a, "offset") + number(a, "bytes"));
        }
        if a["region"] == "constant" {
            continue;
        }
        for b in &rows[..i] {
            let same = ["region", "index"].iter().all(|k| a[k] == b[k]);
            let meet = |low: &str, high: &dyn Fn(&Value) -> u64| {
                number(a, low) < high(b) && number(b, low) < high(a)
            };
            if same
                && a["buffer"] != b["buffer"]
                && meet("start", &|r| number(r, "end"))
                && meet("offset", &|r| number(r, "offset") + number(r, "bytes"))
            {
                return Err(format!("{} and {} share bytes", a["name"], b["name"]));
            }
        }
    }
    if number(json, "arena_bytes") < height {
        return Err("the arena is too small".into());
    }
    if number(json, "lower_bound_bytes") > number(json, "arena_bytes") {
        return Err("the bound is above the arena".into());
    }
    Ok(())
}

#[test]
fn random_reports_add_up() {
    for seed in 0..300 {
        let program = common::random(seed, 1 + seed as usize % 20);
        let planned = plan(program, &Options::default()).expect("a plan");
        let report = Report::new(&planned, "test");
        let json = serde_json::from_str(&report.json()).expect("JSON");
        audit(&json).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(!report.text(true).is_empty());
        assert!(report.html().contains("</html>"));
    }
}

#[test]
fn a_small_report_reads_well() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let (x, w) = (build.donated(256), build.kept(256));
    let h = build.dot(&mut steps, &[x, w], 1024);
    let h = build.elementwise(&mut steps, &[h]);
    let y = build.dot(&mut steps, &[h, w], 256);
    let z = build.update(&mut steps, &[w, y]);
    let program = build.finish(steps, &[y, z]);
    let planned = plan(program, &Options::default()).expect("a plan");
    let text = Report::new(&planned, "test").text(true);
    for part in [
        "4.00 KiB",
        "the lower bound",
        "argument 0",
        "result",
        "argument 1 is written in place but is not donated",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_page_holds_any_name() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let x = build.kept(16);
    let y = build.elementwise(&mut steps, &[x]);
    build.program.values[y].op = "<!--<script></script>".into();
    let program = build.finish(steps, &[y]);
    let planned = plan(program, &Options::default()).expect("a plan");
    let page = Report::new(&planned, "</title>{{data}}{{peak}}").html();
    let script = &page[page.find("<script>").expect("the page's own")..];
    let end = script.find("</script>").expect("its end");
    assert!(script[end..].trim_end().ends_with("</html>") && script[end..].len() < 40, "{script}");
    assert!(!page.contains("<!--") && page.contains("&lt;/title&gt;&#123;"));
}

#[test]
fn the_last_reader_is_the_step_inside_a_loop() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let x = build.kept(256);
    let weights = build.dot(&mut steps, &[x], 1024);
    let mut reader = None;
    let results = build.repeat(&mut steps, &[x], |build, body, carries| {
        let next = build.dot(body, &[carries[0], weights], 256);
        reader = Some(next);
        vec![build.elementwise(body, &[next])]
    });
    let program = build.finish(steps, &results);
    let name = |v| program.values[v].name.clone();
    let (weights, reader) = (name(weights), name(reader.expect("the body is made")));
    let planned = plan(program, &Options::default()).expect("a plan");
    let report = Report::new(&planned, "test");
    let row = report.values.iter().find(|row| row.name == weights).expect("it has memory");
    assert_eq!(row.last_reader, Some(reader));
}
