//! The scenarios that are part of the program, so that it works anywhere; their files are what users copy.

/// A scenario of the program.
pub(super) struct BuiltIn {
    /// What it is asked for by.
    pub(super) name: &'static str,
    /// Its file.
    pub(super) text: &'static str,
}

/// All of them, in the order in which they are listed.
pub(super) const ALL: [BuiltIn; 6] = [
    BuiltIn {
        name: "hall",
        text: include_str!("../../scenarios/hall.toml"),
    },
    BuiltIn {
        name: "conference",
        text: include_str!("../../scenarios/conference.toml"),
    },
    BuiltIn {
        name: "channels-of-100",
        text: include_str!("../../scenarios/channels-of-100.toml"),
    },
    BuiltIn {
        name: "join-storm",
        text: include_str!("../../scenarios/join-storm.toml"),
    },
    BuiltIn {
        name: "wifi-drop",
        text: include_str!("../../scenarios/wifi-drop.toml"),
    },
    BuiltIn {
        name: "slow-phones",
        text: include_str!("../../scenarios/slow-phones.toml"),
    },
];
