//! Drives the whole system from outside: simulated phones over real WebSockets, a ledger of what each of them sent,
//! and a comparison of that with what Redis, Postgres and another phone say.
//!
//! Modules in the order in which a run uses them.

pub mod process;
pub mod waits;
pub mod scenario;
pub mod stack;
pub mod api;
pub mod ledger;
pub mod phone;
pub mod crowd;
pub mod compare;
pub mod evidence;
pub mod swarm;
pub mod report;
pub mod agent;
pub mod floor;
pub mod smoke;
pub mod run;
pub mod giant_room;
pub mod backlog;
pub mod commands;
