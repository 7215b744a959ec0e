//! What the words of the report mean.

use super::section as section_of;
use maud::{Markup, html};

/// The section.
pub(super) fn section() -> Markup {
    let content = html! {
        dl.definitions {
            @for (term, meaning) in DEFINITIONS {
                div { dt { (term) } dd { (meaning) } }
            }
        }
    };
    section_of("definitions", "What the words mean", "", &content)
}

/// Terms in the order in which the page uses them.
const DEFINITIONS: [(&str, &str); 13] = [
    (
        "Tick",
        "Several times a second the aggregator publishes the new totals of every room in which something was tapped. \
         A gateway makes one frame of it and sends the same bytes to each phone in the room.",
    ),
    (
        "Seen by others (tick)",
        "The time from when a tap was due to the first frame in which another phone of the room sees it counted. It \
         includes two waits by design: the gateway gathers taps for a moment before it appends them (the flush), and \
         totals go out at ticks.",
    ),
    (
        "Beyond the window",
        "The same, less the flush interval and the tick interval that this very tap waited for, by the servers' own \
         clock stamps. What is left is work, queues and the network: what a faster server would make shorter.",
    ),
    (
        "Acknowledged (ack)",
        "The time from when a tap was due to the server's word that it counts: by then it is in a log on every replica \
         that could take over.",
    ),
    (
        "Due time, coordinated omission",
        "Each phone's taps are planned beforehand, and each wait counts from the planned moment. A generator that \
         instead waits for one answer before it taps again goes quiet whenever the server does, and so leaves out just \
         the waits that matter.",
    ),
    (
        "p50, p95, p99",
        "So many of a hundred waits were no longer than this.",
    ),
    (
        "Expected frames",
        "Each tick in which a room changed had to reach each phone that was in the room from before the tick to after \
         it. Totals only grow, so a phone that was behind and then got a later total has got the earlier ones with it.",
    ),
    (
        "Delivered",
        "How many of the expected frames arrived, counted phone by phone.",
    ),
    (
        "Lost",
        "Taps that were acknowledged, and yet are in no total. There must be none, whatever else happens.",
    ),
    (
        "Doubled",
        "Taps that were counted more often than they were made, for instance because a phone sent one again after it \
         had lost its connection.",
    ),
    (
        "Unsettled",
        "Taps that in the end were neither acknowledged nor refused.",
    ),
    (
        "Warm-up, measured window",
        "From the last arrival on there is a pause in which caches fill and memory is taken; only then does the \
         measured window begin. Waits of taps due before it are in no percentile; frames and taps are counted from the \
         beginning to the end.",
    ),
    (
        "Generator busy, late",
        "The share of a core that the busiest thread of the generator used, and how much later than due it sent taps. \
         Above 80 %, or with one tap of a hundred more than 50 ms late, the figures tell more about the generator than \
         about the servers, and the run counts for nothing.",
    ),
];
