//! What an [`Array`] is behind its handle.
//!
//! A thread keeps some of the blocks behind handles that have ended, so that making and dropping
//! arrays in a steady state allocates nothing.

use super::live::Ticket;
use super::{Array, Value};
use crate::error::Place;
use jaxrs_ir::TensorType;
use jaxrs_runtime::{Buffer, OutOfMemory};
use std::cell::RefCell;
use std::sync::Arc;

/// Blocks that a thread keeps.
const KEPT: usize = 64;

pub(super) struct Inner {
    pub ty: TensorType,
    pub value: Value,
    pub place: Place,
    /// The array's row among those that have memory.
    ticket: Ticket,
}

thread_local! {
    static SPARE: RefCell<Vec<Arc<Inner>>> = const { RefCell::new(Vec::new()) };
}

impl Array {
    pub(crate) fn new(ty: TensorType, value: Value, place: Place) -> Array {
        let ticket = match value {
            Value::Concrete(_) => Ticket::new(&ty, place),
            _ => Ticket::default(),
        };
        let inner = Inner { ty, value, place, ticket };
        if let Some(mut spare) = spare()
            && let Some(slot) = Arc::get_mut(&mut spare)
        {
            *slot = inner;
            return Array(Some(spare));
        }
        Array(Some(Arc::new(inner)))
    }

    /// An array of this type whose memory is to be filled by a call.
    pub(crate) fn blank(ty: &TensorType, place: Place) -> Array {
        if let Some(mut spare) = spare()
            && let Some(slot) = Arc::get_mut(&mut spare)
        {
            slot.ty.shape.clone_from(&ty.shape);
            (slot.ty.dtype, slot.place) = (ty.dtype, place);
            slot.value = Value::Concrete(Buffer::empty());
            slot.ticket = Ticket::new(ty, place);
            return Array(Some(spare));
        }
        Array::new(ty.clone(), Value::Concrete(Buffer::empty()), place)
    }

    /// Nothing: stands where an array was that is used elsewhere for the length of a call.
    pub(crate) const fn hollow() -> Array {
        Array(None)
    }

    pub(super) fn data(&self) -> &Inner {
        self.0.as_deref().expect("hollow arrays stay inside of calls")
    }

    /// An array with memory of its own that holds the same elements, if it has elements.
    pub(crate) fn duplicate(&self, place: Place) -> Result<Array, OutOfMemory> {
        let Some(buffer) = self.buffer() else { return Ok(self.clone()) };
        let mut copy = Array::blank(self.ty(), place);
        let copied = Buffer::from_bytes(buffer.as_bytes())?;
        if let Some(memory) = copy.buffer_mut() {
            *memory = copied;
        }
        Ok(copy)
    }

    /// The memory, if this is the only handle to it.
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut Buffer> {
        match Arc::get_mut(self.0.as_mut()?)?.value {
            Value::Concrete(ref mut buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Notes that a call has put an array of this type in the memory, to which this is the only
    /// handle.
    pub(crate) fn became(&mut self, ty: &TensorType, place: Place) {
        let inner = self.0.as_mut().and_then(Arc::get_mut).expect("the only handle");
        if inner.ty != *ty {
            inner.ty.shape.clone_from(&ty.shape);
            inner.ty.dtype = ty.dtype;
        }
        inner.place = place;
        inner.ticket.update(ty, place);
    }

    /// Whether this is the only handle to the memory.
    pub(crate) fn is_unique(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| Arc::strong_count(inner) == 1)
    }

    /// What tells this array's handles from others'.
    pub(crate) fn key(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| Arc::as_ptr(inner) as usize)
    }
}

fn spare() -> Option<Arc<Inner>> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten()
}

impl Drop for Array {
    fn drop(&mut self) {
        let Some(mut handle) = self.0.take() else { return };
        if Arc::strong_count(&handle) > 1 {
            return;
        }
        let Some(inner) = Arc::get_mut(&mut handle) else { return };
        inner.value = Value::Shape;
        inner.ticket = Ticket::default();
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(move |spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(handle);
            }
        });
    }
}
