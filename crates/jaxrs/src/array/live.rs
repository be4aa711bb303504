//! The list of arrays that have memory.
//!
//! Each is a row that its array gives back when it ends. Rows are reused, so that keeping the list
//! allocates nothing in a steady state.

use crate::error::Place;
use jaxrs_ir::{DType, TensorType};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An array that has memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveArray {
    /// The extents of its axes.
    pub shape: Vec<u64>,
    /// Its element type.
    pub dtype: DType,
    /// Bytes of its elements.
    pub bytes: u64,
    /// What made it: the call that gave it.
    pub place: Place,
}

/// Threads note their arrays in different parts of the list.
const SHARDS: usize = 16;

static LIST: [Mutex<Shard>; SHARDS] = [const { Mutex::new(Shard::new()) }; SHARDS];

struct Shard {
    rows: Vec<Row>,
    free: Vec<usize>,
}

struct Row {
    shape: Vec<u64>,
    dtype: DType,
    /// None: the row is free.
    place: Option<Place>,
}

impl Shard {
    const fn new() -> Shard {
        Shard { rows: Vec::new(), free: Vec::new() }
    }
}

fn lock(shard: usize) -> MutexGuard<'static, Shard> {
    LIST[shard].lock().unwrap_or_else(PoisonError::into_inner)
}

/// An array's row in the list; given back when dropped.
#[derive(Default)]
pub(super) struct Ticket(Option<(usize, usize)>);

impl Ticket {
    pub fn new(ty: &TensorType, place: Place) -> Ticket {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static SHARD: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        let shard = SHARD.try_with(Cell::get).unwrap_or(0);
        let mut list = lock(shard);
        let row = match list.free.pop() {
            Some(row) => row,
            None => {
                list.rows.push(Row { shape: Vec::new(), dtype: ty.dtype, place: None });
                let room = list.rows.capacity();
                list.free.reserve(room);
                list.rows.len() - 1
            }
        };
        list.rows[row].set(ty, place);
        Ticket(Some((shard, row)))
    }

    /// Notes that the memory holds another array now.
    pub fn update(&self, ty: &TensorType, place: Place) {
        if let Some((shard, row)) = self.0 {
            lock(shard).rows[row].set(ty, place);
        }
    }
}

impl Row {
    fn set(&mut self, ty: &TensorType, place: Place) {
        self.shape.clone_from(&ty.shape);
        (self.dtype, self.place) = (ty.dtype, Some(place));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((shard, row)) = self.0.take() {
            let mut list = lock(shard);
            list.rows[row].place = None;
            list.free.push(row);
        }
    }
}

/// The arrays that have memory now, the largest first.
pub fn live_arrays() -> Vec<LiveArray> {
    let mut all = Vec::new();
    for shard in 0..SHARDS {
        for row in &lock(shard).rows {
            let Some(place) = row.place else { continue };
            let (shape, dtype) = (row.shape.clone(), row.dtype);
            let bytes = TensorType::new(shape.clone(), dtype).bytes();
            all.push(LiveArray { shape, dtype, bytes, place });
        }
    }
    all.sort_by(|a, b| {
        let place = |array: &LiveArray| (array.place.file(), array.place.line());
        b.bytes.cmp(&a.bytes).then_with(|| place(a).cmp(&place(b)))
    });
    all
}
