//! A call after the first one takes no more memory than the plan says: its results beside those in
//! donated arguments, the arena, what library calls are known to allocate, and 64 KiB.
//!
//! Each program runs in a process of its own, whose allocator counts and whose mappings are added
//! up. The results of the first call are kept, so that their memory does not serve the second.
//! The programs are those of `tests/programs` and the small ones of `../shared/corpus`, if it is
//! there; with `JAXRS_SECOND_CALL=all` the large ones, too.

use jaxrs::compile::{Options, compile};
use jaxrs::tensor::Tensor;
use jaxrs_ir::{DType, TensorType};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with the bytes in use and the most there ever were.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: as the system's allocator, which does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(live, Relaxed);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: by the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes mapped to be written, without files behind.
fn mapped() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let bytes = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, access) = (words.next()?, words.next()?);
        let inode = words.nth(2)?;
        if !access.starts_with("rw") || inode != "0" {
            return None;
        }
        let (from, to) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(to)? - number(from)?)
    };
    maps.lines().filter_map(bytes).sum()
}

const PROGRAM: &str = "JAXRS_SECOND_CALL_PROGRAM";

/// What a child prints: its fault, or none.
const FAULT: &str = "too much: ";

#[test]
fn a_second_call_takes_what_the_plan_says() {
    if let Some(program) = std::env::var_os(PROGRAM) {
        if let Some(fault) = measure(Path::new(&program)) {
            println!("{FAULT}{fault}");
        }
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = std::env::var_os("JAXRS_SECOND_CALL").is_some_and(|v| v == "all");
    let mut folders = folders(&root.join("tests/programs"));
    folders.extend(self::folders(&root.join("../shared/corpus")));
    folders.extend(self::folders(&root.join("../../shared/corpus")));
    folders.retain(|path| all || !path.to_string_lossy().contains("_perf"));
    if cfg!(debug_assertions) && !all {
        folders = folders.into_iter().step_by(5).collect();
    }
    assert!(folders.len() > 3, "there are no programs");
    let mut faults = Vec::new();
    for folder in &folders {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_second_call_takes_what_the_plan_says", "--nocapture"])
            .env(PROGRAM, folder)
            // The C library keeps to what it is asked for.
            .envs([("MALLOC_TOP_PAD_", "0"), ("MALLOC_ARENA_MAX", "1")])
            .output()
            .expect("the program runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        let name = folder.file_name().expect("a folder").display();
        if !output.status.success() {
            faults.push(format!("{name}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        }
        faults.extend(
            text.lines().filter_map(|line| Some(format!("{name}: {}", line.split_once(FAULT)?.1))),
        );
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), folders.len(), faults.join("\n"));
}

/// Folders with a program.
fn folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("meta.json").exists())
        .collect();
    found.sort();
    found
}

/// How much more than allowed the second call takes.
fn measure(folder: &Path) -> Option<String> {
    let meta = std::fs::read(folder.join("meta.json")).expect("meta.json");
    let meta: serde_json::Value = serde_json::from_slice(&meta).expect("meta.json is JSON");
    let donated = meta["donated"].as_array().expect("a list in meta.json");
    let donate = donated.iter().map(|i| i.as_u64().expect("an index") as u32).collect();
    let options = Options { donate, threads: 2, ..Options::default() };
    let source = std::fs::read(folder.join("program.mlir")).expect("program.mlir");
    let compiled = match compile(&source, "program.mlir", &options) {
        Ok(compiled) => compiled,
        // Library calls that are not supported are refused.
        Err(_) if meta["unsupported_custom_call"] == true => return None,
        Err(error) => panic!("{error}"),
    };
    let arguments: Vec<Tensor> = compiled.parameter_types().iter().map(ones).collect();
    let mut caller = compiled.caller(&arguments).expect("they fit");
    let report = compiled.report("");
    let first = caller.call().expect("it runs");
    caller.renew_donated().expect("there is memory");
    let (live, maps) = (LIVE.load(Relaxed) as u64, mapped());
    MOST.store(live as usize, Relaxed);
    let second = caller.call().expect("it runs");
    let grown = MOST.load(Relaxed) as u64 - live;
    let mapped = mapped().saturating_sub(maps);
    drop((first, second));
    let planned = report.output_bytes - report.alias_bytes + report.arena_bytes;
    let library = report.library_scratch_bytes;
    let allowed = planned + library + (64 << 10);
    if std::env::var_os("JAXRS_SECOND_CALL_SHOW").is_some() {
        println!("{}: {grown} and {mapped} mapped of {allowed}", folder.display());
    }
    (grown.max(mapped) > allowed).then(|| {
        format!(
            "{grown} bytes are allocated and {mapped} mapped; results are {}, {} of them in \
             arguments, the arena is {}, library calls allocate {library}",
            report.output_bytes, report.alias_bytes, report.arena_bytes
        )
    })
}

/// A tensor of ones.
fn ones(ty: &TensorType) -> Tensor {
    let one: &[u8] = match ty.dtype {
        DType::F64 => &1f64.to_le_bytes(),
        DType::F32 => &1f32.to_le_bytes(),
        DType::F16 => &[0, 0x3C],
        DType::BF16 => &[0x80, 0x3F],
        DType::C64 => &[0, 0, 0x80, 0x3F, 0, 0, 0, 0],
        DType::C128 => &[0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0],
        dtype => &1u64.to_le_bytes()[..dtype.bits().div_ceil(8) as usize],
    };
    Tensor { ty: ty.clone(), bytes: one.repeat(ty.len() as usize) }
}
