//! Our services, as processes.

use crate::folder::tail;
use crate::ports::free_address;
use crate::process::{Process, Program};
use crate::{Rig, http};
use anyhow::{Context, bail, ensure};
use nix::sys::signal::Signal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// Secrets of one rig, so that all its gateways agree.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) admin: String,
    pub(crate) client_hash: String,
    host_token: String,
}

impl Keys {
    pub(crate) fn generate() -> Keys {
        let key = || format!("{:032x}", rand::random::<u128>());
        Keys {
            admin: key(),
            client_hash: key(),
            host_token: key() + &key(),
        }
    }
}

/// A running service; killed when dropped.
#[derive(Debug)]
pub struct Service {
    name: String,
    process: Process,
    listen: Option<SocketAddr>,
    operations: SocketAddr,
}

impl Service {
    pub(crate) fn start(
        rig: &Rig,
        name: &str,
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Service> {
        let program = binary(name)?;
        let operations = free_address()?;
        let listen = if name == "gateway" {
            Some(free_address()?)
        } else {
            None
        };
        // The port is no other's while this one runs, so it makes a name.
        let directory = rig.folder().join(format!("{name}-{}", operations.port()));
        std::fs::create_dir(&directory)?;
        let mut settings = settings(rig, name, listen, operations);
        for (key, value) in environment {
            settings.push(((*key).to_owned(), (*value).to_owned()));
        }
        let process = Program {
            name,
            program,
            arguments: Vec::new(),
            environment: settings,
            directory: &directory,
            log: directory.join("log"),
            user: None,
        }
        .start()?;
        Ok(Service {
            name: name.to_owned(),
            process,
            listen,
            operations,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where a gateway listens.
    ///
    /// # Panics
    /// When it is no gateway.
    pub fn listen(&self) -> SocketAddr {
        self.listen.expect("only a gateway listens")
    }

    /// Its operations port.
    pub fn operations(&self) -> SocketAddr {
        self.operations
    }

    /// The file with its log.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// The last lines of its log, for error messages.
    pub fn log_tail(&self) -> String {
        tail(self.log())
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// kill -9, and waits until it is gone.
    pub fn kill9(&self) {
        self.process.kill9();
    }

    /// SIGTERM: asks it to end in good order.
    pub fn terminate(&self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// Stops it in the middle of whatever it does (SIGSTOP).
    pub fn stall(&self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It still runs after `at_most`.
    pub async fn wait(&self, at_most: Duration) -> anyhow::Result<ExitStatus> {
        self.process.wait(at_most).await
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Errors
    /// It ended, or was not ready within half a minute; the message holds the end of its log.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let said = match http::get(self.operations, "/readyz").await {
                Ok((200, _)) => return Ok(()),
                Ok((status, body)) => format!("{status} {body}"),
                Err(error) => format!("{error:#}"),
            };
            let name = &self.name;
            if let Some(status) = self.process.exit_status() {
                bail!("the {name} ended ({status}):\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("the {name} is not ready ({said}):\n{}", self.log_tail());
            }
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// The value of a metric: the sum over all its label sets, or over those whose labels contain `labels`.
    ///
    /// # Errors
    /// The operations port does not answer.
    pub async fn metric(&self, name: &str, labels: &str) -> anyhow::Result<f64> {
        let (_, text) = http::get(self.operations, "/metrics").await?;
        Ok(metric(&text, name, labels))
    }
}

/// The value of a metric in the text of `/metrics`: see [`Service::metric`].
pub fn metric(text: &str, name: &str, labels: &str) -> f64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (of, value) = rest.rsplit_once(' ')?;
        let whole_name = of.is_empty() || of.starts_with('{');
        if whole_name && of.contains(labels) {
            value.parse::<f64>().ok()
        } else {
            None
        }
    });
    values.sum()
}

/// Settings of a service that fit the rig.
fn settings(
    rig: &Rig,
    name: &str,
    listen: Option<SocketAddr>,
    operations: SocketAddr,
) -> Vec<(String, String)> {
    let section = name.to_uppercase();
    let mut settings = vec![
        (
            "UPROAR_REDIS__NODES".to_owned(),
            rig.redis_nodes().join(","),
        ),
        (
            format!("UPROAR_{section}__OPERATIONS_LISTEN"),
            operations.to_string(),
        ),
    ];
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    if let Some(listen) = listen {
        set("UPROAR_GATEWAY__LISTEN", listen.to_string());
        set("UPROAR_GATEWAY__PUBLIC_URL", format!("http://{listen}"));
        set("UPROAR_GATEWAY__ADMIN_KEY", rig.keys.admin.clone());
        set(
            "UPROAR_GATEWAY__CLIENT_HASH_KEY",
            rig.keys.client_hash.clone(),
        );
        set(
            "UPROAR_GATEWAY__HOST_TOKEN_KEYS__RIG",
            rig.keys.host_token.clone(),
        );
    }
    if name == "persister" {
        set("UPROAR_POSTGRES__URL", rig.postgres_url());
    }
    settings
}

/// The path of a service's binary, beside the program that runs now.
///
/// # Errors
/// It is missing, or older than one of the sources it was made from: a test of yesterday's code proves nothing.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("this program does not know where it is")?;
    let mut folder = here.parent().context("this program lies in no folder")?;
    if folder.ends_with("deps") {
        folder = folder.parent().context("deps lies in no folder")?;
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(profile) => profile,
        None => "release",
    };
    let program = folder.join(format!("uproar-{name}"));
    let build = format!("cargo build --profile {profile} -p {name}");
    let built = modified(&program);
    let built =
        built.with_context(|| format!("{} is missing: run `{build}`", program.display()))?;
    // Cargo writes beside a binary what it was made from, sources of other crates in the workspace included.
    let sources = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    for source in sources
        .split_once(": ")
        .map_or("", |(_, sources)| sources)
        .split_whitespace()
    {
        let newer = modified(Path::new(source)).is_ok_and(|changed| changed > built);
        ensure!(
            !newer,
            "{} is older than {source}: run `{build}`",
            program.display()
        );
    }
    Ok(program)
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    std::fs::metadata(path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let text = "# HELP taps x\ntaps{shard=\"1\"} 2\ntaps{shard=\"2\"} 3\ntaps_total 9\nup 1\n";
        assert_eq!(metric(text, "taps", ""), 5.0);
        assert_eq!(metric(text, "taps", "shard=\"2\""), 3.0);
        assert_eq!(metric(text, "up", ""), 1.0);
    }
}
