//! What every service needs around its work: settings, logging, shutdown, the operations port.

pub mod settings;
pub mod logging;
pub mod operations;
pub mod main;
