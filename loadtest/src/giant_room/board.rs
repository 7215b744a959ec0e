//! What all virtual gateways do, counted while they do it.

use crate::waits::{histogram, microseconds, quantile_ms};
use hdrhistogram::Histogram;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More reactions than a palette can have.
const KEYS_MAX: usize = 16;

/// Shared by all virtual gateways.
#[derive(Debug, Default)]
pub struct Board {
    /// Taps that people made.
    pub tapped: AtomicU64,
    /// Of these, refused since the open batch was full.
    pub refused: AtomicU64,
    /// Batches appended, each counted once however often it was.
    pub appended: AtomicU64,
    /// Appends that had to be repeated.
    pub repeated: AtomicU64,
    /// Taps acknowledged.
    pub acknowledged: AtomicU64,
    /// Taps of batches given up: they may count.
    pub given_up: AtomicU64,
    /// Taps acknowledged, by reaction.
    pub by_key: [AtomicU64; KEYS_MAX],
    /// The last error of an append.
    pub last_error: Mutex<Option<String>>,
    waits: Mutex<Waits>,
}

#[derive(Debug)]
struct Waits {
    late: Histogram<u64>,
    append: Histogram<u64>,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            late: histogram(),
            append: histogram(),
        }
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// See [`Board`].
    pub tapped: u64,
    /// See [`Board`].
    pub appended: u64,
    /// See [`Board`].
    pub acknowledged: u64,
}

impl Board {
    /// The counters now.
    pub fn counts(&self) -> Counts {
        Counts {
            tapped: self.tapped.load(Relaxed),
            appended: self.appended.load(Relaxed),
            acknowledged: self.acknowledged.load(Relaxed),
        }
    }

    /// A batch was begun so long after it was due, though nothing but the generator itself held it up.
    pub fn note_late(&self, late: Duration) {
        self.waits().late.saturating_record(microseconds(late));
    }

    /// An append took so long, from its sending to its answer.
    pub fn note_append(&self, took: Duration) {
        self.waits().append.saturating_record(microseconds(took));
    }

    /// Forgets the waits so far: the warm-up is over.
    pub fn forget_waits(&self) {
        *self.waits() = Waits::default();
    }

    /// Waits in milliseconds at a quantile: late batches, and appends.
    pub fn waits_ms(&self, quantile: f64) -> (f64, f64) {
        let waits = self.waits();
        (
            quantile_ms(&waits.late, quantile),
            quantile_ms(&waits.append, quantile),
        )
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
