//! The persister: from the logs in Redis to tables in Postgres, every counted tap exactly once.
//!
//! ```text
//!  log --reader--> step --one transaction--> taps, tap_counts, rooms, … and last the ledger --> offset and trim in Redis
//! ```
//!
//! Modules in the order of the flow.

pub mod settings;
mod metrics;
mod service;
mod context;
mod database;
mod sharing;
mod shard;
mod heads;
mod step;
mod store;
mod ledger;
mod commit;
mod dictionary;
mod tappers;
mod copy;
mod shed;
mod loads;
mod trim;
mod maintenance;
pub mod export;

pub use service::{Listeners, run};
pub use settings::Settings;
pub use shed::ShedSettings;

/// What the tests of the SQL step take hold of: the same code as the service, without the logs in front of it.
#[doc(hidden)]
pub mod for_tests {
    pub use crate::commit::{CommitError, Stored};
    pub use crate::database::connection::Connection;
    pub use crate::database::open;
    pub use crate::database::partitions::Partitions;
    pub use crate::shed::Shedding;
    pub use crate::step::Step;
    pub use crate::store::{Next, Store};
}
