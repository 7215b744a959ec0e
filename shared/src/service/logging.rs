//! Logs: to standard error, as text or JSON, with the ids one needs.

use super::settings::Reader;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Section `[log]`, used by all services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// One object a line, for collectors; else text for people.
    pub json: bool,
    /// `info`, or a filter such as `info,aggregator=debug`.
    pub level: String,
}

/// Reads section `[log]`.
pub fn read_log(reader: &mut Reader) -> LogSettings {
    let format = reader.choice(
        "log.format",
        "text",
        &["text", "json"],
        "how log lines look",
    );
    let doc = "what is logged: error, warn, info, debug or trace, also by module (info,shared::cluster=debug)";
    let level = reader.text("log.level", "info", doc);
    if !is_filter(&level) {
        reader.wrong(
            "log.level",
            &level,
            "error, warn, info, debug or trace, or module=level, separated by commas",
        );
    }
    LogSettings {
        json: format == "json",
        level,
    }
}

/// The filter's own parser takes any word for a module's name, and would then log nothing else: `inof` must not do that.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| {
        ["off", "error", "warn", "info", "debug", "trace"]
            .contains(&word.trim().to_ascii_lowercase().as_str())
    };
    let parts_are = text.split(',').all(|part| match part.rsplit_once('=') {
        Some((module, level)) => !module.trim().is_empty() && is_level(level),
        None => is_level(part),
    });
    parts_are && EnvFilter::try_new(text).is_ok()
}

/// Starts logging for the whole process; a second call changes nothing.
pub fn start(settings: &LogSettings) {
    // Checked when it was read.
    let filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = if settings.json {
        registry.with(layer.json().flatten_event(true)).try_init()
    } else {
        registry
            .with(layer.with_ansi(std::io::stderr().is_terminal()))
            .try_init()
    };
    // Only tests start it twice, in one process.
    drop(started);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters() {
        for right in [
            "info",
            "DEBUG",
            "off",
            "info,shared::cluster=debug",
            "aggregator=trace",
        ] {
            assert!(is_filter(right), "{right}");
        }
        for wrong in [
            "",
            "inof",
            "verbose",
            "info,",
            "info,=debug",
            "aggregator=loud",
            "3",
        ] {
            assert!(!is_filter(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_log_section() {
        let read = |toml: &str| {
            let mut reader = Reader::from_toml(toml, []).unwrap();
            let settings = read_log(&mut reader);
            reader.finish().map(|_| settings)
        };
        assert_eq!(
            read("").unwrap(),
            LogSettings {
                json: false,
                level: "info".into()
            }
        );
        assert!(read("[log]\nformat = 'JSON'").unwrap().json);
        let wrong = read("[log]\nformat = 'xml'\nlevel = 'verbose'")
            .unwrap_err()
            .0;
        assert_eq!(
            wrong[0],
            "log.format = \"xml\" (from the file): should be text or json"
        );
        assert!(
            wrong[1].starts_with("log.level = verbose (from the file): should be error, warn"),
            "{wrong:?}"
        );
    }
}
