//! The front of each binary: `--help`, `--version`, `--config FILE`, `--check-config`, `--print-config`; logging, the
//! panic hook, signals, exit codes.

use super::settings::{Reader, SettingsError};
use std::future::Future;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// What a binary is called and says of itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// `uproar-gateway`.
    pub name: &'static str,
    /// One sentence.
    pub what: &'static str,
    /// Shown below the options.
    pub examples: &'static str,
}

/// Exit code for settings that are wrong (sysexits EX_CONFIG).
pub const EXIT_SETTINGS: u8 = 78;

/// Runs a service: reads its settings with `read`, then runs `run` until SIGTERM or Ctrl-C cancels its token.
/// `run` gives an error when the service could not start or did not end cleanly: exit code 1.
pub fn serve<S, F>(
    _about: About,
    _read: impl FnOnce(&mut Reader) -> S,
    _run: impl FnOnce(S, CancellationToken) -> F,
) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    todo!()
}

/// As [`Reader::finish`], for tests: reads settings from a TOML text.
///
/// # Errors
/// All that was wrong.
pub fn settings_from_toml<S>(
    _toml: &str,
    _read: impl FnOnce(&mut Reader) -> S,
) -> Result<S, SettingsError> {
    todo!()
}
