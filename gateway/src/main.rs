//! `uproar-gateway`: see the library.

use gateway::settings::Settings;
use shared::service::main::{About, command, serve_matches};
use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// A handshake takes some 20 KB for a moment, an open socket 1 KB for hours. glibc keeps what a crowd's handshakes took,
/// torn up by the sockets among it: 2.2 KB per idle phone. How this one is set stands in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let about = About {
        name: "uproar-gateway",
        what: "Takes taps from phones and shows everyone the room's totals.",
        examples: "\
Examples:
  uproar-gateway --config uproar.toml
  UPROAR_REDIS__NODES=redis-0:6379,redis-1:6379 uproar-gateway --check-config",
    };
    let matches = command(about).get_matches();
    serve_matches(
        about,
        &matches,
        Settings::read,
        |settings| settings.worker_threads,
        |settings, shutdown| async move {
            let listeners = gateway::Listeners::bind(&settings).await?;
            gateway::run(settings, listeners, shutdown).await
        },
    )
}
