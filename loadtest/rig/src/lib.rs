//! A private Redis Cluster, Postgres, the services as processes and proxies that break connections, for tests, the
//! demo and the load test. Linux only: children die with their parent by `setpriv --pdeathsig`.
//!
//! Everything lives in one temporary folder and on free ports of 127.0.0.1. Nothing is left behind, however the
//! process that started it ends: see `folder.rs` and `process.rs`. This crate knows none of ours; services are
//! started by the path of their binary.

mod ports;
mod folder;
mod process;
mod cluster;
mod nodes;
mod slots;
mod postgres;
mod proxy;
mod http;
mod service;

pub use cluster::Cluster;
pub use http::get;
pub use nodes::NodeView;
pub use ports::free_address;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::Proxy;
pub use service::{Service, binary, metric};

use anyhow::Context;
use folder::Folder;
use std::path::Path;
use tokio::sync::OnceCell;

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Postgres beside Redis.
    pub postgres: bool,
    /// Further lines for each node's `redis.conf`, such as `("maxmemory", "50mb")`.
    pub redis: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            postgres: true,
            redis: Vec::new(),
        }
    }
}

/// A running rig; dropping it takes everything down and removes its folder.
#[derive(Debug)]
pub struct Rig {
    /// Three masters and three replicas. Declared before `folder`: the nodes must be dead before their folder goes.
    pub cluster: Cluster,
    /// The database server, if it was asked for.
    pub postgres: Postgres,
    keys: service::Keys,
    folder: Folder,
}

impl Rig {
    /// Starts Redis and Postgres side by side and waits until both can be used; some three seconds.
    ///
    /// # Errors
    /// A program is missing, or a server did not come up; the message holds the end of its log.
    ///
    /// # Cancel safety
    /// When dropped midway, all that was started is taken down.
    pub async fn start(options: Options) -> anyhow::Result<Rig> {
        let folder = Folder::create()?;
        let postgres = async {
            if options.postgres {
                Postgres::start(folder.path())
                    .await
                    .context("Postgres did not start")
            } else {
                Ok(Postgres::none())
            }
        };
        let cluster = async {
            let started = Cluster::start(folder.path(), &options.redis).await;
            started.context("the Redis Cluster did not start")
        };
        let (cluster, postgres) = tokio::try_join!(cluster, postgres)?;
        Ok(Rig {
            cluster,
            postgres,
            keys: service::Keys::generate(),
            folder,
        })
    }

    /// `host:port` of all six nodes.
    pub fn redis_nodes(&self) -> Vec<String> {
        self.cluster.addresses()
    }

    /// The URL of the database `uproar`.
    ///
    /// # Panics
    /// When the rig was started without Postgres.
    pub fn postgres_url(&self) -> String {
        self.postgres.url("uproar")
    }

    /// The URL of a new, empty database, for a test that wants its own.
    ///
    /// # Errors
    /// Postgres does not answer.
    ///
    /// # Panics
    /// When the rig was started without Postgres.
    pub async fn create_database(&self) -> anyhow::Result<String> {
        self.postgres.create_database().await
    }

    /// A single Redis that is no cluster, with these lines in its `redis.conf`, for tests of what services refuse.
    /// Gives its address, and the process, which dies when dropped.
    ///
    /// # Errors
    /// It did not come up.
    pub async fn redis_alone(&self, lines: &[(&str, &str)]) -> anyhow::Result<(String, Process)> {
        nodes::start_alone(self.folder.path(), lines).await
    }

    /// The key with which rooms are made, as [`Rig::service`] gives it to gateways.
    pub fn admin_key(&self) -> &str {
        &self.keys.admin
    }

    /// The key with which gateways hash client ids, as [`Rig::service`] gives it to them.
    pub fn client_hash_key(&self) -> &str {
        &self.keys.client_hash
    }

    /// Starts a service (`gateway`, `aggregator` or `persister`) on ports of its own, with settings that fit this rig
    /// and `environment` on top of them (full names, `UPROAR_GATEWAY__FLUSH_INTERVAL_MS`). Does not wait for it: see
    /// [`Service::wait_ready`].
    ///
    /// # Errors
    /// Its binary is missing or older than its sources.
    pub fn service(&self, name: &str, environment: &[(&str, &str)]) -> anyhow::Result<Service> {
        Service::start(self, name, environment)
    }

    /// The rig's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

static SHARED: OnceCell<Rig> = OnceCell::const_new();

/// One rig for all tests of a binary: they keep apart by rooms and databases, and do not break it.
///
/// # Panics
/// When it cannot be started: no test of the binary makes sense then.
pub async fn shared() -> &'static Rig {
    let start = || async { Rig::start(Options::default()).await };
    match SHARED.get_or_try_init(start).await {
        Ok(rig) => rig,
        Err(error) => panic!("the shared rig cannot be started: {error:#}"),
    }
}
