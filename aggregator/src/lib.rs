//! The aggregator: folds each shard's log into totals and tells all gateways what changed.
//!
//! ```text
//!  shares ----> shard: load -> read (barrier) -> state (fold) -> commit (one script: totals, offset, tick)
//!  (leases,       ^  |
//!   members)      +--+ any failure, mismatch, lost answer or change of master: everything is discarded and loaded again
//! ```
//!
//! What makes counting exact is in `shared::counting` and in `commit.lua`; here is only what drives it.

pub mod settings;
mod metrics;
mod shares;
mod shard;
mod load;
mod rates;
mod state;
mod commit;
mod expiry;
mod service;

pub use service::run;
pub use settings::{Listeners, Settings};
