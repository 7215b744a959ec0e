//! A rig with the services on it: gateways behind one port, aggregators, persisters.

use anyhow::Context;
use rig::{Options, Proxy, Rig, Service};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

/// What to start.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// How many gateways stand behind the one port.
    pub gateways: usize,
    /// How many aggregators share the shards.
    pub aggregators: usize,
    /// How many persisters do.
    pub persisters: usize,
    /// The one port; none: any free one of 127.0.0.1.
    pub listen: Option<SocketAddr>,
    /// What links begin with; none: the one port.
    pub public_url: Option<String>,
    /// Further settings, `UPROAR_SECTION__NAME` and value; each goes to the services that know its section.
    pub settings: Vec<(String, String)>,
}

impl Default for StackOptions {
    fn default() -> Self {
        StackOptions {
            gateways: 2,
            aggregators: 1,
            persisters: 1,
            listen: None,
            public_url: None,
            settings: Vec::new(),
        }
    }
}

/// The running system. Dropping it takes everything down.
#[derive(Debug)]
pub struct Stack {
    /// What browsers and phones connect to: the gateways in turn. Cuts and stalls on demand.
    pub front: Proxy,
    public_url: String,
    options: StackOptions,
    services: Mutex<Services>,
    /// Redis and Postgres. Last: the services end before them.
    pub rig: Rig,
}

/// The services by kind; a killed one keeps its place.
#[derive(Debug, Default)]
pub struct Services {
    /// Take taps.
    pub gateways: Vec<Service>,
    /// Count them.
    pub aggregators: Vec<Service>,
    /// Keep them.
    pub persisters: Vec<Service>,
}

impl Services {
    /// All of a kind: `gateway`, `aggregator` or `persister`.
    ///
    /// # Errors
    /// There is no such kind.
    pub fn of_kind(&mut self, kind: &str) -> anyhow::Result<&mut Vec<Service>> {
        match kind {
            "gateway" => Ok(&mut self.gateways),
            "aggregator" => Ok(&mut self.aggregators),
            "persister" => Ok(&mut self.persisters),
            _ => anyhow::bail!("{kind:?} is none of gateway, aggregator, persister"),
        }
    }
}

impl Stack {
    /// Starts all of it and waits until every service is ready. `progress` is told each step.
    ///
    /// # Errors
    /// What did not start, with the end of its log.
    pub async fn start(options: StackOptions, progress: impl Fn(&str)) -> anyhow::Result<Stack> {
        // Before the rig, which takes seconds: a stale binary should be told at once.
        for kind in ["gateway", "aggregator", "persister"] {
            rig::binary(kind)?;
        }
        progress("starting a Redis Cluster of six nodes and Postgres");
        let rig = Rig::start(Options::default()).await?;
        progress("starting the services");
        // The port of the front is settled first, since links contain it, and the gateways must exist before it.
        let listen = match options.listen {
            Some(listen) => listen,
            None => rig::free_address()?,
        };
        let public_url = options
            .public_url
            .clone()
            .unwrap_or_else(|| format!("http://{listen}"));
        let mut services = Services::default();
        for _ in 0..options.aggregators {
            services
                .aggregators
                .push(start(&rig, "aggregator", &public_url, &options)?);
        }
        for _ in 0..options.persisters {
            services
                .persisters
                .push(start(&rig, "persister", &public_url, &options)?);
        }
        for _ in 0..options.gateways {
            services
                .gateways
                .push(start(&rig, "gateway", &public_url, &options)?);
        }
        let Services {
            gateways,
            aggregators,
            persisters,
        } = &services;
        for service in gateways.iter().chain(aggregators).chain(persisters) {
            service.wait_ready().await?;
        }
        let targets = services.gateways.iter().map(Service::listen).collect();
        let front = Proxy::balance(listen, targets).await?;
        Ok(Stack {
            front,
            public_url,
            options,
            services: Mutex::new(services),
            rig,
        })
    }

    /// What links begin with.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// `http://` and the address of the one port.
    pub fn url(&self) -> String {
        format!("http://{}", self.front.address())
    }

    /// The services; locked while looked at.
    pub fn services(&self) -> MutexGuard<'_, Services> {
        self.services
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What was set for the services.
    pub fn settings(&self) -> &[(String, String)] {
        &self.options.settings
    }

    /// The last lines of each service's log, to see what went wrong before they are gone.
    pub fn log_tails(&self) -> String {
        let services = self.services();
        let Services {
            gateways,
            aggregators,
            persisters,
        } = &*services;
        let mut tails = String::new();
        for service in gateways.iter().chain(aggregators).chain(persisters) {
            let (log, tail) = (service.log().display(), service.log_tail());
            tails += &format!("--- {log}\n{tail}\n");
        }
        tails
    }

    /// Starts one more service. A further gateway is reached by its own port only.
    ///
    /// # Errors
    /// There is no such kind, or its binary is missing or stale.
    pub fn start_service(&self, kind: &str) -> anyhow::Result<()> {
        let service = start(&self.rig, kind, &self.public_url, &self.options)?;
        self.services().of_kind(kind)?.push(service);
        Ok(())
    }
}

fn start(
    rig: &Rig,
    kind: &str,
    public_url: &str,
    options: &StackOptions,
) -> anyhow::Result<Service> {
    let sections = ["REDIS", "LOG", "POSTGRES", &kind.to_uppercase()];
    let mut environment = Vec::new();
    if kind == "gateway" {
        environment.push(("UPROAR_GATEWAY__PUBLIC_URL", public_url));
    }
    for (name, value) in &options.settings {
        let section = name
            .strip_prefix("UPROAR_")
            .and_then(|rest| rest.split("__").next());
        let section = section.with_context(|| format!("{name} is not UPROAR_SECTION__NAME"))?;
        // The url of Postgres is unknown to all but the persister.
        if sections.contains(&section) && (section != "POSTGRES" || kind == "persister") {
            environment.push((name, value));
        }
    }
    rig.service(kind, &environment)
}
