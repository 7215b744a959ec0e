//! The aggregator's binary.

use aggregator::{Listeners, Settings, run};
use shared::service::main::{About, serve};
use std::process::ExitCode;

const ABOUT: About = About {
    name: "uproar-aggregator",
    what: "Counts the taps in the logs of all rooms and tells the gateways the new totals, four times a second.",
    examples: "Examples:\n  \
        uproar-aggregator --config uproar.toml\n  \
        UPROAR_REDIS__NODES=redis-0:6379,redis-1:6379 uproar-aggregator\n  \
        uproar-aggregator --print-config > uproar.toml\n\n\
        Several may run at once: they share the rooms, and take over from one that dies in about two seconds.",
};

fn main() -> ExitCode {
    serve(ABOUT, Settings::read, async |settings, shutdown| {
        let listeners = Listeners::bind(&settings)?;
        run(settings, listeners, shutdown).await
    })
}
