//! Generators on other machines: an agent waits for a coordinator, plays its share of the phones, and sends back what
//! they saw. Each keeps its own clock; the coordinator measures how far they are apart.

pub mod wire;
mod serve;
mod remote;

pub use remote::Remote;
pub use serve::{Agent, LOCAL, key_or_local};

/// What travels between coordinator and agent changes with the program: both must be of one version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
