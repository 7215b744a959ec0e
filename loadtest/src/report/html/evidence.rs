//! Why the figures can be believed: room by room, and what others than the generator say.

use super::{section, sign};
use crate::report::number::{grouped, whole};
use crate::report::{RoomReport, RunReport};
use maud::{Markup, html};
use std::cmp::Reverse;

/// More rows are for the JSON.
const ROOMS_MAX: usize = 100;

/// Each room with what its phones had to get, got, and what was counted.
pub(super) fn rooms(report: &RunReport) -> Markup {
    if report.rooms.is_empty() {
        return html! {};
    }
    let mut rooms: Vec<&RoomReport> = report.rooms.iter().collect();
    // Those with something missing first, then the large ones.
    rooms.sort_by_key(|room| (room.delivered == room.expected, Reverse(room.phones)));
    let left_out = rooms.len().saturating_sub(ROOMS_MAX);
    let columns = [
        "Phones",
        "Expected frames",
        "Delivered",
        "Missing",
        "Taps acknowledged",
        "Counted",
    ];
    let content = html! {
        div.scroll role="region" aria-labelledby="rooms-caption" tabindex="0" {
            table {
                caption id="rooms-caption" { "What each room's phones had to receive, and did" }
                thead { tr {
                    th scope="col" { "Room" }
                    @for column in columns { th.number scope="col" { (column) } }
                } }
                tbody { @for room in rooms.iter().take(ROOMS_MAX) { (row(room)) } }
            }
        }
        @if left_out > 0 { p.note { "And " (whole(left_out as u64)) " more, which are in the JSON." } }
    };
    section("rooms", "Room by room", "", &content)
}

fn row(room: &RoomReport) -> Markup {
    let missing = room.expected.saturating_sub(room.delivered);
    html! {
        tr {
            th scope="row" { (room.code) }
            td.number { (whole(room.phones)) }
            td.number { (whole(room.expected)) }
            td.number { (whole(room.delivered)) }
            td.number.crossed[missing > 0] { (whole(missing)) }
            td.number { (whole(room.acked)) }
            td.number { (room.totals.map_or_else(|| "not measured".to_owned(), whole)) }
        }
    }
}

/// The same figures from several sides.
pub(super) fn cross_checks(report: &RunReport) -> Markup {
    if report.cross_checks.is_empty() {
        return html! {};
    }
    let content = html! {
        table.cards role="table" {
            caption { "The same counts, from independent sides" }
            thead role="rowgroup" { tr role="row" {
                @for column in ["What", "One side", "Another side", "Agree"] {
                    th scope="col" role="columnheader" { (column) }
                }
            } }
            tbody role="rowgroup" {
                @for check in &report.cross_checks {
                    tr role="row" {
                        th scope="row" role="rowheader" { (check.what) }
                        td role="cell" data-name="One side" { (check.one) ": " b { (grouped(check.one_says)) } }
                        td role="cell" data-name="Another side" { (check.other) ": " b { (grouped(check.other_says)) } }
                        td role="cell" data-name="Agree" {
                            (sign(check.agrees, if check.agrees { "agree" } else { "differ" }))
                        }
                    }
                }
            }
        }
    };
    let about = "What the servers, the kernel and a browser say beside the generator. A mistake of the generator's \
                 counting would have to be made by each of them.";
    section("cross-checks", "From other sides", about, &content)
}

/// What went wrong at the generator, if anything did.
pub(super) fn errors(report: &RunReport) -> Markup {
    if report.errors.is_empty() {
        return html! {};
    }
    let content = html! {
        table {
            caption { "Failed and broken connections and the like, as the generator saw them" }
            thead { tr { th scope="col" { "What" } th.number scope="col" { "Times" } } }
            tbody {
                @for (error, times) in &report.errors {
                    tr { td { (error) } td.number { (whole(*times)) } }
                }
            }
        }
    };
    section("errors", "What went wrong on the way", "", &content)
}
