//! A fixed pool of threads that share out ranges of indices.
//!
//! [`Pool::run`] splits `[0, range)` into equal parts, at most one a thread and none below the
//! grain, and returns when all have run. The calling thread takes parts too, also those whose
//! thread has not woken up yet, so that a busy machine delays a call by no more than one part.
//! A call allocates nothing; work of one part, calls from inside a part, and calls while another
//! caller has the pool run on the calling thread alone.
//!
//! A thread that has nothing to do spins for a few tens of microseconds and then parks.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread looks for new work before it parks.
const SPIN: Duration = Duration::from_micros(40);

/// A kernel's function: buffers and a range of its outer index.
pub type KernelFn = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// Threads that run parts of a range.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Pays no heed to grains.
    eager: bool,
}

/// What callers and workers share.
///
/// A job is open from `open = true` to `open = false`. A worker reads it only between raising
/// `inside` (and then seeing `open`) and lowering it; the caller waits for `inside == 0` after
/// closing. All of these are `SeqCst`, so that either the worker sees the job closed or the caller
/// sees the worker inside.
struct Shared {
    /// Whether a caller has the pool.
    taken: AtomicBool,
    /// Raised with each job.
    epoch: AtomicU64,
    open: AtomicBool,
    inside: AtomicUsize,
    /// The next part to run.
    next: AtomicI64,
    job: UnsafeCell<Job>,
    stop: AtomicBool,
    sleepers: Box<[Sleeper]>,
}

/// Whether a worker is parked.
struct Sleeper {
    asleep: AtomicBool,
}

/// Parts `0..parts` of a range, each a call of `call(context, lo, hi, thread)`.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), i64, i64, usize),
    context: *const (),
    range: i64,
    parts: i64,
}

// SAFETY: `job` is written only by the caller that holds `taken` while the job is closed and no
// worker is inside, and read only by workers inside an open job. The context it points to is
// shared by reference to a `Sync` closure.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

thread_local! {
    /// The thread's index while it runs a part.
    static INSIDE: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Pool {
    /// A pool of this many threads, the calling one included.
    pub fn new(threads: usize) -> Pool {
        Pool::with(threads, false)
    }

    fn with(threads: usize, eager: bool) -> Pool {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            taken: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            open: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            next: AtomicI64::new(0),
            job: UnsafeCell::new(Job {
                call: nothing,
                context: std::ptr::null(),
                range: 0,
                parts: 0,
            }),
            stop: AtomicBool::new(false),
            sleepers: (0..workers).map(|_| Sleeper { asleep: AtomicBool::new(false) }).collect(),
        });
        let workers = (0..workers)
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                // A machine that refuses a thread gets a smaller pool: results are the same.
                std::thread::Builder::new()
                    .name(format!("jaxrs-{}", index + 1))
                    .spawn(move || shared.work(index))
                    .ok()
            })
            .collect();
        Pool { shared, workers, eager }
    }

    /// The process's pool of this many threads, made at the first use and ended with the last.
    pub fn shared(threads: usize) -> Arc<Pool> {
        Pool::find(threads, false)
    }

    /// The same of a pool that shares out even the least work.
    pub fn eager(threads: usize) -> Arc<Pool> {
        Pool::find(threads, true)
    }

    fn find(threads: usize, eager: bool) -> Arc<Pool> {
        static POOLS: Mutex<Vec<(usize, Weak<Pool>)>> = Mutex::new(Vec::new());
        let mut pools = POOLS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        pools.retain(|(_, pool)| pool.strong_count() > 0);
        let mut found = pools.iter().filter(|(count, _)| *count == threads);
        let fits = |pool: &Arc<Pool>| pool.eager == eager;
        if let Some(pool) = found.find_map(|(_, pool)| pool.upgrade().filter(fits)) {
            return pool;
        }
        let pool = Arc::new(Pool::with(threads, eager));
        pools.push((threads, Arc::downgrade(&pool)));
        pool
    }

    /// Whether work should stay on the calling thread that is not worth waking another for.
    pub fn spares(&self) -> bool {
        !self.eager
    }

    /// Threads, the calling one included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f(lo, hi, thread)` on disjoint parts of `[0, range)` that cover it, each of at least
    /// `grain` indices (but for the last), on at most as many threads as the pool has. `thread` is
    /// below [`Pool::threads`] and no two calls of `f` that run at once get the same.
    pub fn run<F: Fn(i64, i64, usize) + Sync>(&self, range: i64, grain: i64, f: F) {
        if range <= 0 {
            return;
        }
        let grain = if self.eager { 1 } else { grain };
        let parts = parts(range, grain, self.threads());
        if parts <= 1 || INSIDE.get().is_some() || !self.shared.take() {
            let thread = INSIDE.get().filter(|&thread| thread < self.threads());
            f(0, range, thread.unwrap_or(0));
            return;
        }
        let job = Job { call: call::<F>, context: (&raw const f).cast(), range, parts };
        // SAFETY: the pool is ours, and `f` outlives the job because `run_job` waits for the end.
        unsafe { self.run_job(job) };
    }

    /// Calls `f(index, thread)` for every index of `[0, range)`; a thread that is done with one
    /// takes the next that nobody has.
    pub fn each<F: Fn(i64, usize) + Sync>(&self, range: i64, f: F) {
        let next = AtomicI64::new(0);
        self.run(range.min(self.threads() as i64), 1, |_, _, thread| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= range {
                    return;
                }
                f(index, thread);
            }
        });
    }

    /// # Safety
    /// The pool is taken by the caller; the job's context is valid until the return.
    unsafe fn run_job(&self, job: Job) {
        /// Closes the job and waits for the workers, also when a part panics.
        struct Close<'a>(&'a Shared);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.open.store(false, Ordering::SeqCst);
                let mut spins = 0u32;
                while self.0.inside.load(Ordering::SeqCst) != 0 {
                    spins += 1;
                    if spins < 4096 { std::hint::spin_loop() } else { std::thread::yield_now() }
                }
                INSIDE.set(None);
                self.0.taken.store(false, Ordering::SeqCst);
            }
        }
        let shared = &*self.shared;
        // SAFETY: the last job is closed and nobody is inside, see `Close`.
        unsafe { *shared.job.get() = job };
        shared.next.store(0, Ordering::SeqCst);
        let close = Close(shared);
        INSIDE.set(Some(0));
        shared.open.store(true, Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        for (sleeper, worker) in
            shared.sleepers.iter().zip(&self.workers).take(job.parts as usize - 1)
        {
            if sleeper.asleep.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        // SAFETY: the context is valid, by the caller.
        unsafe { shared.run_parts(job, 0) };
        drop(close);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker that panicked has nothing left to clean up.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// A worker's life.
    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait(index, seen);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.inside.fetch_add(1, Ordering::SeqCst);
            if self.open.load(Ordering::SeqCst) {
                // SAFETY: the job is open and we are inside.
                let job = unsafe { *self.job.get() };
                INSIDE.set(Some(index + 1));
                // A panic in a part is a bug of ours; the caller must not wait forever for it.
                let parts = std::panic::AssertUnwindSafe(|| {
                    // SAFETY: the caller keeps the context valid while we are inside.
                    unsafe { self.run_parts(job, index + 1) };
                });
                let result = std::panic::catch_unwind(parts);
                INSIDE.set(None);
                if result.is_err() {
                    std::process::abort();
                }
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits for an epoch other than `seen` and returns it.
    fn wait(&self, index: usize, seen: u64) -> u64 {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                let epoch = self.epoch.load(Ordering::SeqCst);
                if epoch != seen {
                    return epoch;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() < SPIN {
                continue;
            }
            let asleep = &self.sleepers[index].asleep;
            asleep.store(true, Ordering::SeqCst);
            while self.epoch.load(Ordering::SeqCst) == seen {
                std::thread::park();
                if !asleep.load(Ordering::SeqCst) {
                    break;
                }
            }
            asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Runs parts that nobody has taken until there are none.
    ///
    /// # Safety
    /// The job's context is valid.
    unsafe fn run_parts(&self, job: Job, thread: usize) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= job.parts {
                return;
            }
            let (lo, hi) = bounds(job.range, job.parts, part);
            // SAFETY: by the caller.
            unsafe { (job.call)(job.context, lo, hi, thread) };
        }
    }
}

/// Runs a kernel over `[0, range)` on the pool's threads, for compiled code.
///
/// # Safety
/// `pool` points to a [`Pool`]; `kernel` may run with `buffers` over any disjoint parts of the
/// range at once, and does not unwind.
pub unsafe extern "C" fn run_kernel(
    pool: *const Pool,
    kernel: KernelFn,
    buffers: *const *mut u8,
    range: i64,
    grain: i64,
) {
    /// A pointer that threads share.
    struct Buffers(*const *mut u8);
    // SAFETY: the caller says that the kernel may run on several threads.
    unsafe impl Sync for Buffers {}
    let buffers = Buffers(buffers);
    // SAFETY: by the caller.
    let pool = unsafe { &*pool };
    pool.run(range, grain, |lo, hi, _| {
        let buffers = &buffers;
        // SAFETY: by the caller.
        unsafe { kernel(buffers.0, lo, hi) };
    });
}

/// Calls the closure behind `context`.
///
/// # Safety
/// `context` points to an `F`.
unsafe fn call<F: Fn(i64, i64, usize)>(context: *const (), lo: i64, hi: i64, thread: usize) {
    // SAFETY: by the caller.
    unsafe { (*context.cast::<F>())(lo, hi, thread) }
}

unsafe fn nothing(_: *const (), _: i64, _: i64, _: usize) {}

/// In how many parts a range runs.
fn parts(range: i64, grain: i64, threads: usize) -> i64 {
    (range / grain.max(1)).clamp(1, threads as i64)
}

/// The bounds of a part.
fn bounds(range: i64, parts: i64, part: i64) -> (i64, i64) {
    let (each, more) = (range / parts, range % parts);
    let lo = part * each + part.min(more);
    (lo, lo + each + i64::from(part < more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pool: &Pool, range: i64, grain: i64) {
        let counts: Vec<AtomicUsize> = (0..range).map(|_| AtomicUsize::new(0)).collect();
        pool.run(range, grain, |lo, hi, thread| {
            assert!(thread < pool.threads());
            for i in lo..hi {
                counts[i as usize].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{range} by {grain}");
    }

    #[test]
    fn every_index_runs_once() {
        for threads in [1, 2, 3, 5] {
            let pool = Pool::new(threads);
            for range in [0, 1, 2, 3, 7, 100, 1001] {
                for grain in [0, 1, 3, 64, 5000] {
                    covers(&pool, range, grain);
                }
            }
            let sum = AtomicI64::new(0);
            pool.each(100, |i, _| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn several_callers_and_nested_calls() {
        let pool = Pool::shared(3);
        assert!(Arc::ptr_eq(&pool, &Pool::shared(3)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicI64::new(0);
                        pool.run(10, 1, |lo, hi, outer| {
                            pool.run(hi - lo, 1, |a, b, thread| {
                                assert_eq!(outer, thread);
                                sum.fetch_add(b - a, Ordering::Relaxed);
                            });
                        });
                        assert_eq!(sum.into_inner(), 10);
                    }
                });
            }
        });
    }

    #[test]
    fn parked_workers_wake() {
        let pool = Pool::new(2);
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(2));
            covers(&pool, 1000, 1);
        }
    }
}
