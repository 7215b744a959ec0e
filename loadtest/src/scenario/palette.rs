//! The reactions of a scenario's rooms.

use super::Scenario;

/// Keys and emoji, as many as a palette may have; the first six are those of a room that named none.
const REACTIONS: [(&str, &str); 12] = [
    ("clap", "👏"),
    ("heart", "❤️"),
    ("fire", "🔥"),
    ("laugh", "😂"),
    ("wow", "😮"),
    ("think", "🤔"),
    ("party", "🎉"),
    ("rocket", "🚀"),
    ("hundred", "💯"),
    ("thumbs", "👍"),
    ("sad", "😢"),
    ("eyes", "👀"),
];

impl Scenario {
    /// The key and the emoji of each reaction; a tap names one by its index.
    pub fn palette(&self) -> &'static [(&'static str, &'static str)] {
        &REACTIONS[..self.rooms.reactions.min(REACTIONS.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::room::{Palette, PaletteDraft, REACTIONS_MAX};

    #[test]
    fn palettes_are_what_rooms_take() {
        let mut scenario = Scenario::named_or_path("hall").unwrap();
        for count in 1..=REACTIONS_MAX {
            scenario.rooms.reactions = count;
            let palette = scenario.palette();
            assert_eq!(palette.len(), count);
            let draft = |(key, emoji): &(&str, &str)| PaletteDraft {
                key: (*key).to_owned(),
                emoji: (*emoji).to_owned(),
                label: None,
            };
            Palette::from_drafts(palette.iter().map(draft).collect()).unwrap();
        }
    }
}
