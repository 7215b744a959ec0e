//! A file per command.

pub mod demo;
pub mod smoke;
pub mod rig;
pub mod idle;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

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
