//! What all measurements stand on: the rig, gateways one after the other, cores, and the report as it fills.

use super::phones::Phones;
use super::process::{Cores, Measured};
use super::report::FloorReport;
use super::{Interrupted, Plan};
use crate::api;
use rig::{Options, Rig, Service};
use serde_json::json;
use shared::room::RoomCode;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The two reactions that are tapped. Their keys are as long as they must be for a tick with both of them, at four
/// digits each, to be a frame of 62 bytes.
pub(super) const KEYS: [&str; 2] = ["hearty-cheer", "big-ovation"];
/// The frame's bytes.
pub(super) const FRAME_BYTES: usize = 62;

/// The bench. Dropping it takes everything down.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) plan: Plan,
    pub(super) cores: Cores,
    runtime: Handle,
    interrupted: CancellationToken,
    report: Arc<Mutex<FloorReport>>,
    _aggregator: Service,
    rig: Rig,
}

/// A gateway under measurement, alone on its core; killed when dropped.
#[derive(Debug)]
pub(super) struct Gateway {
    service: Service,
    runtime: Handle,
    pub(super) process: Measured,
    pub(super) room: RoomCode,
}

impl Bench {
    /// Starts Redis and an aggregator, on other cores than the one for what is measured.
    ///
    /// # Errors
    /// What did not start.
    pub(super) async fn start(
        plan: Plan,
        interrupted: CancellationToken,
        report: Arc<Mutex<FloorReport>>,
    ) -> anyhow::Result<Bench> {
        // Before the rig, which takes seconds: a stale binary should be told at once.
        for kind in ["gateway", "aggregator"] {
            rig::binary(kind)?;
        }
        let cores = Cores::choose()?;
        // All that is started from here on inherits it.
        Measured::new(std::process::id()).pin(&cores.others)?;
        eprintln!("starting a Redis Cluster of six nodes and an aggregator");
        let options = Options {
            postgres: false,
            ..Options::default()
        };
        let rig = Rig::start(options).await?;
        let aggregator = rig.service("aggregator", &[])?;
        aggregator.wait_ready().await?;
        Ok(Bench {
            plan,
            cores,
            runtime: Handle::current(),
            interrupted,
            report,
            _aggregator: aggregator,
            rig,
        })
    }

    /// A new gateway with a room of its own, on the core for what is measured.
    ///
    /// # Errors
    /// It did not start.
    pub(super) fn gateway(&self, settings: &[(&str, &str)]) -> anyhow::Result<Gateway> {
        self.check()?;
        let mut environment = vec![
            ("UPROAR_GATEWAY__WORKER_THREADS", "1"),
            // Phones tap as often as the measurement needs.
            ("UPROAR_GATEWAY__COOLDOWN_TOLERANCE_MS", "60000"),
            // Those that do not read stay for as long as it takes to see what they cost.
            ("UPROAR_GATEWAY__STALLED_CLOSE_SECONDS", "3600"),
            ("UPROAR_GATEWAY__SILENCE_CLOSE_SECONDS", "7200"),
        ];
        environment.extend_from_slice(settings);
        let service = self.rig.service("gateway", &environment)?;
        let process = Measured::new(service.pid());
        let room = self.runtime.block_on(async {
            service.wait_ready().await?;
            let entry = |(key, emoji)| json!({ "key": key, "emoji": emoji, "label": key });
            let palette: Vec<_> = KEYS.into_iter().zip(["👏", "🎉"]).map(entry).collect();
            let room = json!({ "title": "Floor", "palette": palette, "cooldown_ms": 250 });
            let room = api::make_room(service.listen(), self.rig.admin_key(), &room).await?;
            anyhow::Ok(room.code)
        })?;
        process.pin(&[self.cores.measured])?;
        Ok(Gateway {
            service,
            runtime: self.runtime.clone(),
            process,
            room,
        })
    }

    /// Nobody yet.
    pub(super) fn phones(&self) -> anyhow::Result<Phones> {
        Phones::new(KEYS[0], self.interrupted.clone())
    }

    /// Notes a figure.
    pub(super) fn note(&self, note: impl FnOnce(&mut FloorReport)) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut report);
        report.settle();
    }

    fn check(&self) -> Result<(), Interrupted> {
        match self.interrupted.is_cancelled() {
            true => Err(Interrupted),
            false => Ok(()),
        }
    }
}

impl Gateway {
    /// As a service for phones.
    pub(super) fn room(&self) -> super::connection::Service {
        super::connection::Service::Room(self.service.listen(), self.room.clone())
    }

    /// As a service for posts.
    pub(super) fn posts(&self) -> super::connection::Service {
        super::connection::Service::Post(self.service.listen(), self.room.clone())
    }

    /// Metrics of the gateway, by their names after `uproar_gateway_`.
    pub(super) fn metrics<const N: usize>(&self, names: [&str; N]) -> anyhow::Result<[f64; N]> {
        let (_, text) = self
            .runtime
            .block_on(rig::get(self.service.operations(), "/metrics"))?;
        // Counters end in `_total`.
        Ok(names.map(|name| rig::metric(&text, &format!("uproar_gateway_{name}"), "")))
    }
}
