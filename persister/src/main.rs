//! `uproar-persister`: see the library.

use persister::export::{self, ExportSettings, Request};
use persister::{Listeners, Settings};
use shared::service::main::{About, command, serve_matches};
use std::process::ExitCode;

fn main() -> ExitCode {
    let about = About {
        name: "uproar-persister",
        what: "Stores every counted tap in Postgres.",
        examples: "\
Examples:
  uproar-persister --config uproar.toml
  uproar-persister export --room KX7M2P --csv > room.csv
  uproar-persister export --room KX7M2P --json --from 2026-05-12T09:00:00Z --to 2026-05-12T10:00:00Z",
    };
    let matches = command(about).subcommand(export::command()).get_matches();
    let Some(("export", arguments)) = matches.subcommand() else {
        return serve_matches(
            about,
            &matches,
            Settings::read,
            |_| 0,
            |settings, shutdown| async {
                let listeners = Listeners::bind(&settings).await?;
                persister::run(settings, listeners, shutdown).await
            },
        );
    };
    let request = match Request::from_matches(arguments) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("{}: {error:#}", about.name);
            return ExitCode::from(2);
        }
    };
    serve_matches(
        about,
        arguments,
        ExportSettings::read,
        |_| 1,
        |settings, shutdown| async move {
            tokio::select! {
                exported = export::to_stdout(&settings, &request) => exported,
                () = shutdown.cancelled() => anyhow::bail!("interrupted: what was written is not whole"),
            }
        },
    )
}
