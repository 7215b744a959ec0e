//! What is loaded: a rig of our own, or a system that runs elsewhere.

use super::windows::Windows;
use crate::api::{self, MadeRoom};
use crate::scenario::Scenario;
use crate::stack::{Stack, StackOptions};
use crate::swarm::assignment::RoomPlan;
use anyhow::{Context, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};

/// A system elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Elsewhere {
    /// `http://host:port`.
    pub url: String,
    /// Makes rooms.
    pub admin_key: String,
    /// `host:port` of some Redis nodes, where they can be reached.
    pub redis: Vec<String>,
    /// The database, where it can be reached.
    pub postgres: Option<String>,
    /// The key of client hashes: needed to compare rows by client.
    pub client_hash_key: Option<String>,
    /// `host:port` of operations ports: `gateway=host:port` and so on.
    pub operations: Vec<(String, SocketAddr)>,
    /// How its services are set.
    pub windows: Windows,
}

impl Elsewhere {
    /// Figures of the report that nobody can measure there, and what to give so that somebody can.
    pub fn out_of_reach(&self) -> BTreeMap<String, String> {
        let redis = self.redis.is_empty().then_some("give --redis");
        let key = self.client_hash_key.is_none();
        let key = key.then_some("set UPROAR_CLIENT_HASH_KEY");
        let needs = [
            ("lost", [redis, None]),
            ("doubled", [redis, None]),
            ("tick_p99_ms", [redis, key]),
            ("beyond_window_p99_ms", [redis, key]),
        ];
        let lacking = needs.into_iter().filter_map(|(figure, needs)| {
            let needs: Vec<&str> = needs.into_iter().flatten().collect();
            (!needs.is_empty()).then(|| (figure.to_owned(), needs.join(" and ")))
        });
        lacking.collect()
    }
}

/// A system that runs.
#[derive(Debug)]
pub enum Target {
    /// Ours; taken down when dropped.
    Rig(Box<Stack>),
    /// Somebody else's.
    Elsewhere(Elsewhere, Vec<SocketAddr>),
}

impl Target {
    /// Starts a rig for a scenario.
    ///
    /// # Errors
    /// Something did not start.
    pub async fn rig(
        scenario: &Scenario,
        settings: Vec<(String, String)>,
        progress: impl Fn(&str),
    ) -> anyhow::Result<Target> {
        let options = StackOptions {
            gateways: scenario.gateways,
            settings,
            ..StackOptions::default()
        };
        Ok(Target::Rig(Box::new(
            Stack::start(options, progress).await?,
        )))
    }

    /// Finds a system elsewhere.
    ///
    /// # Errors
    /// The address is none, or cannot be resolved.
    pub fn elsewhere(elsewhere: Elsewhere) -> anyhow::Result<Target> {
        let url = url::Url::parse(&elsewhere.url).with_context(|| {
            format!(
                "--target {:?} is no URL such as http://10.0.0.5:8080",
                elsewhere.url
            )
        })?;
        if url.scheme() != "http" {
            bail!(
                "--target {url} is not plain http: TLS is not spoken here, so give the address behind the load balancer"
            );
        }
        let host = url.host_str().context("--target has no host")?;
        let port = url.port_or_known_default().unwrap_or(80);
        let addresses: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .with_context(|| format!("{host} cannot be found"))?
            .collect();
        if addresses.is_empty() {
            bail!("{host} has no address");
        }
        Ok(Target::Elsewhere(elsewhere, addresses))
    }

    /// Where phones connect.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            // Straight to the gateways: the rig's front would cost CPU and files of this process.
            Target::Rig(stack) => {
                let services = stack.services();
                services.gateways.iter().map(rig::Service::listen).collect()
            }
            Target::Elsewhere(_, addresses) => addresses.clone(),
        }
    }

    /// The `Host` header.
    pub fn host(&self) -> String {
        match self {
            Target::Rig(stack) => stack.front.address().to_string(),
            Target::Elsewhere(elsewhere, _) => {
                let url = elsewhere.url.trim_start_matches("http://");
                url.split('/').next().unwrap_or(url).to_owned()
            }
        }
    }

    /// What pages begin with.
    pub fn url(&self) -> String {
        match self {
            Target::Rig(stack) => stack.url(),
            Target::Elsewhere(elsewhere, _) => elsewhere.url.trim_end_matches('/').to_owned(),
        }
    }

    fn admin_key(&self) -> &str {
        match self {
            Target::Rig(stack) => stack.rig.admin_key(),
            Target::Elsewhere(elsewhere, _) => &elsewhere.admin_key,
        }
    }

    /// `host:port` of Redis; empty where it is out of reach.
    pub fn redis(&self) -> Vec<String> {
        match self {
            Target::Rig(stack) => stack.rig.redis_nodes(),
            Target::Elsewhere(elsewhere, _) => elsewhere.redis.clone(),
        }
    }

    /// The database, where it can be reached.
    pub fn postgres(&self) -> Option<String> {
        match self {
            Target::Rig(stack) => Some(stack.rig.postgres_url()),
            Target::Elsewhere(elsewhere, _) => elsewhere.postgres.clone(),
        }
    }

    /// The key of client hashes, where it is known.
    pub fn client_hash_key(&self) -> Option<String> {
        match self {
            Target::Rig(stack) => Some(stack.rig.client_hash_key().to_owned()),
            Target::Elsewhere(elsewhere, _) => elsewhere.client_hash_key.clone(),
        }
    }

    /// How its services are set.
    pub fn windows(&self) -> Windows {
        match self {
            Target::Rig(stack) => Windows::of_settings(stack.settings()),
            Target::Elsewhere(elsewhere, _) => elsewhere.windows,
        }
    }

    /// See [`Elsewhere::out_of_reach`]; of a rig nothing is.
    pub fn out_of_reach(&self) -> BTreeMap<String, String> {
        match self {
            Target::Rig(_) => BTreeMap::new(),
            Target::Elsewhere(elsewhere, _) => elsewhere.out_of_reach(),
        }
    }

    /// Operations ports of a kind of service.
    pub fn operations(&self, kind: &str) -> Vec<SocketAddr> {
        match self {
            Target::Rig(stack) => {
                let mut services = stack.services();
                let services = services.of_kind(kind);
                services.map_or_else(
                    |_| Vec::new(),
                    |services| services.iter().map(rig::Service::operations).collect(),
                )
            }
            Target::Elsewhere(elsewhere, _) => {
                let of_kind = elsewhere.operations.iter().filter(|(of, _)| of == kind);
                of_kind.map(|(_, address)| *address).collect()
            }
        }
    }

    /// Processes of this machine: kind, name, process id.
    pub async fn processes(&self) -> Vec<(&'static str, String, u32)> {
        let Target::Rig(stack) = self else {
            return Vec::new();
        };
        let mut processes = Vec::new();
        {
            let services = stack.services();
            for (kind, of_kind) in [
                ("gateway", &services.gateways),
                ("aggregator", &services.aggregators),
                ("persister", &services.persisters),
            ] {
                for (number, service) in (1..).zip(of_kind) {
                    processes.push((kind, format!("{kind} {number}"), service.pid()));
                }
            }
        }
        let view = stack.rig.cluster.view().await.unwrap_or_default();
        for address in stack.rig.redis_nodes() {
            if let Ok(pid) = stack.rig.cluster.pid(&address) {
                let is_master = view
                    .iter()
                    .any(|node| node.address == address && node.is_master);
                let role = if is_master { "master" } else { "replica" };
                let port = address.rsplit(':').next().unwrap_or(&address);
                processes.push(("redis", format!("redis {role} {port}"), pid));
            }
        }
        processes
    }

    /// Makes the scenario's rooms.
    ///
    /// # Errors
    /// The gateway refuses or does not answer.
    pub async fn make_rooms(
        &self,
        scenario: &Scenario,
    ) -> anyhow::Result<Vec<(MadeRoom, RoomPlan)>> {
        let gateway = *self.addresses().first().context("there is no gateway")?;
        let palette = scenario.palette();
        let entries: Vec<_> = palette
            .iter()
            .map(|(key, emoji)| json!({ "key": key, "emoji": emoji, "label": key }))
            .collect();
        let keys: Vec<_> = palette
            .iter()
            .map(|(key, _)| key.parse())
            .collect::<Result<_, _>>()?;
        let mut rooms = Vec::new();
        for number in 1..=scenario.rooms.count {
            let room = json!({
                "title": format!("{} {number}", scenario.title),
                "cooldown_ms": scenario.rooms.cooldown_ms,
                "palette": entries,
            });
            let made = api::make_room(gateway, self.admin_key(), &room)
                .await
                .context("the rooms cannot be made")?;
            let plan = RoomPlan {
                code: made.code.clone(),
                keys: keys.clone(),
            };
            rooms.push((made, plan));
        }
        Ok(rooms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_says_what_to_give() {
        let mut elsewhere = Elsewhere::default();
        let lacking = elsewhere.out_of_reach();
        assert_eq!(lacking["lost"], "give --redis");
        assert_eq!(
            lacking["tick_p99_ms"],
            "give --redis and set UPROAR_CLIENT_HASH_KEY"
        );
        elsewhere.redis = vec!["redis-0:6379".to_owned()];
        let lacking = elsewhere.out_of_reach();
        assert_eq!(lacking.get("doubled"), None);
        assert_eq!(
            lacking["beyond_window_p99_ms"],
            "set UPROAR_CLIENT_HASH_KEY"
        );
        elsewhere.client_hash_key = Some("key".to_owned());
        assert!(elsewhere.out_of_reach().is_empty());
    }
}
