//! The front of the gateway: accepts connections, routes requests to pages, API, sockets and their fallback, and turns
//! every failure into an answer.
//!
//! Modules in the order in which a request passes through them.

pub mod accept;
pub mod address;
pub mod origins;
pub mod guesses;
pub mod tokens;
pub mod body;
pub(crate) mod error;
pub(crate) mod input;
pub mod pages;

use crate::settings::Settings;
use prometheus_client::registry::Registry;

/// What the HTTP front keeps for itself.
#[derive(Debug)]
pub struct HttpState {}

impl HttpState {
    /// Registers the metrics of the HTTP front with the others.
    pub fn new(_settings: &Settings, _registry: &mut Registry) -> Self {
        HttpState {}
    }
}
