//! A file per command.

pub mod compare;
pub mod demo;
pub mod smoke;
pub mod rig;
pub mod idle;
pub mod run;
pub mod find_limit;
pub mod agent;
pub mod giant_room;
pub mod backlog;
pub mod floor;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The command was used wrongly: exit code 2, as for what `clap` finds.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct WrongUse(anyhow::Error);

impl WrongUse {
    /// Says what would be right.
    pub fn new(what: &str) -> Self {
        WrongUse(anyhow::anyhow!("{what}"))
    }

    /// From what was found to be wrong.
    pub fn from(error: impl Into<anyhow::Error>) -> Self {
        WrongUse(error.into())
    }
}

/// Ctrl-C and SIGTERM, for commands that report what they have measured so far.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// The first one came.
    pub token: CancellationToken,
    again: CancellationToken,
}

impl Interrupt {
    /// A second one came: end at once.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn twice(&self) {
        self.again.cancelled().await;
    }
}

/// Listens for Ctrl-C and SIGTERM from now on.
///
/// # Errors
/// The system does not allow it.
pub fn interrupted() -> anyhow::Result<Interrupt> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let (token, again) = (CancellationToken::new(), CancellationToken::new());
    let (first, second) = (token.clone(), again.clone());
    tokio::spawn(async move {
        for told in [&first, &second] {
            // Both are cancel-safe.
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if !first.is_cancelled() {
                eprintln!("\nending with what was measured so far; once more ends at once");
            }
            told.cancel();
            // One press is sometimes seen as two.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    Ok(Interrupt { token, again })
}

/// Lets this process, and the services it starts, open as many files as the system allows: each phone takes some.
pub fn raise_open_files_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Runs to the end, or to Ctrl-C or SIGTERM: then what runs is dropped, which takes down what it started.
///
/// # Errors
/// That of `work`, or that it was interrupted.
pub async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}

/// Runs until Ctrl-C or SIGTERM, which are how it is meant to end.
///
/// # Errors
/// That of `work`.
pub async fn until_interrupted(
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
