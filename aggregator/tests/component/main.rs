//! Component tests of the aggregator: `run()` in this process, against a real Redis Cluster.

mod support;
mod totals;
mod script;
mod sharing;
mod faults;
