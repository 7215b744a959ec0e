//! What figures are called, and what they mean in a few words: the same in tables, pages and comparisons.

/// What a figure's name stands for.
pub fn meaning(figure: &str) -> &str {
    match figure {
        "delivered" => "frames delivered, of those that had to be",
        "lost" => "taps acknowledged and not counted",
        "doubled" => "taps counted more often than sent",
        "unsettled" => "taps neither acknowledged nor refused",
        "joins_refused" => "joins turned away or not answered",
        "join_p95_ms" => "to join, 95 of 100 phones",
        "joined_max_ms" => "to join, the slowest phone",
        "ack_p99_ms" => "from a tap to its acknowledgement, 99 of 100",
        "tick_p99_ms" => "from a tap to its being seen by others, 99 of 100",
        "beyond_window_p99_ms" => "the same, less the waits that are meant to be",
        other => other,
    }
}

/// What a distribution's name stands for: short enough for a legend.
pub fn wait(name: &str) -> &str {
    match name {
        "join" => "join",
        "ack" => "acknowledged",
        "tick" => "seen by others",
        "beyond_window" => "beyond the window",
        other => other,
    }
}
