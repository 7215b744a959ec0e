//! The front of the gateway: accepts connections, routes requests to pages, API, sockets and their fallback, and turns
//! every failure into an answer.
//!
//! Modules in the order in which a request passes through them.

pub mod accept;
pub mod address;
pub mod origins;
pub(crate) mod route;
pub(crate) mod router;
pub mod guesses;
pub mod tokens;
pub mod admin;
pub mod body;
pub(crate) mod input;
pub(crate) mod rooms;
pub(crate) mod change;
pub(crate) mod qr;
pub(crate) mod events;
pub(crate) mod socket;
pub mod pages;
pub(crate) mod openapi;
pub(crate) mod error;
pub mod security;
pub(crate) mod metrics;

use crate::settings::Settings;
use admin::AdminKey;
use metrics::HttpMetrics;
use prometheus_client::registry::Registry;

/// What the HTTP front keeps for itself.
#[derive(Debug)]
pub struct HttpState {
    pub(crate) admin_key: AdminKey,
    pub(crate) metrics: HttpMetrics,
    /// The web pages, ready to be sent.
    pub(crate) pages: pages::Pages,
}

impl HttpState {
    /// Registers the metrics of the HTTP front with the others.
    pub fn new(settings: &Settings, registry: &mut Registry) -> Self {
        HttpState {
            admin_key: AdminKey::new(settings.admin_key.as_ref()),
            metrics: HttpMetrics::new(registry),
            pages: pages::Pages::new(&settings.public_url, &settings.slides_hosts),
        }
    }
}
