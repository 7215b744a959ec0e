//! How long a tap may have to wait for a flush and for a tick: as the services are set, since only that much of a wait
//! is meant to be.

/// Between two flushes of a gateway, and between two ticks of an aggregator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// `gateway.flush_interval_ms`.
    pub flush_ms: u64,
    /// `aggregator.tick_interval_ms`.
    pub tick_ms: u64,
}

impl Default for Windows {
    /// The services' defaults.
    fn default() -> Self {
        Windows {
            flush_ms: 25,
            tick_ms: 250,
        }
    }
}

impl Windows {
    /// Of services that were started with these variables, the last of a name counting; all else has its default.
    pub fn of_settings(settings: &[(String, String)]) -> Windows {
        let mut windows = Windows::default();
        for (name, value) in settings {
            let window = match name.as_str() {
                "UPROAR_GATEWAY__FLUSH_INTERVAL_MS" => &mut windows.flush_ms,
                "UPROAR_AGGREGATOR__TICK_INTERVAL_MS" => &mut windows.tick_ms,
                _ => continue,
            };
            // The service refuses to start with anything else.
            if let Ok(milliseconds) = value.trim().parse() {
                *window = milliseconds;
            }
        }
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_counts_and_all_else_has_its_default() {
        let settings = |pairs: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Windows::of_settings(&pairs.iter().map(owned).collect::<Vec<_>>())
        };
        assert_eq!(settings(&[]), Windows::default());
        let set = settings(&[
            ("UPROAR_GATEWAY__FLUSH_INTERVAL_MS", "40"),
            ("UPROAR_GATEWAY__WORKER_THREADS", "1"),
            ("UPROAR_AGGREGATOR__TICK_INTERVAL_MS", "500"),
            ("UPROAR_GATEWAY__FLUSH_INTERVAL_MS", "60"),
        ]);
        assert_eq!((set.flush_ms, set.tick_ms), (60, 500));
    }
}
