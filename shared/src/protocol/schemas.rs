//! The frames as JSON Schemas, for people who write a client.

use super::client::{Join, TapFrame};
use super::server::ServerFrame;
use std::collections::BTreeMap;

/// One thing that a client sends: an object with one key that names it. Unknown keys and unknown frames are ignored.
#[derive(schemars::JsonSchema)]
#[schemars(rename = "ClientFrame", rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "only its schema is used; frames are read by ClientFrame::parse"
)]
enum ClientFrameShape {
    /// The first frame, within ten seconds.
    Join(Join),
    /// One tap.
    Tap(TapFrame),
    /// Answered with a pong; the number is 1.
    Ping(u8),
}

/// The schemas by name: `client` for what a client sends, `server` for what it gets.
pub fn schemas() -> BTreeMap<&'static str, serde_json::Value> {
    let client = schemars::schema_for!(ClientFrameShape);
    let server = schemars::schema_for!(ServerFrame);
    BTreeMap::from([("client", client.to_value()), ("server", server.to_value())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_described() {
        let schemas = schemas();
        for (name, frames) in [
            ("client", &["join", "tap", "ping"][..]),
            (
                "server",
                &[
                    "room", "tick", "ack", "refused", "audience", "pong", "time", "bye",
                ],
            ),
        ] {
            let variants = schemas[name]["oneOf"].as_array().unwrap();
            let described: Vec<&str> = variants
                .iter()
                .map(|variant| variant["required"][0].as_str().unwrap())
                .collect();
            assert_eq!(described, frames);
        }
    }

    #[test]
    fn the_bounds_are_told() {
        let client = &schemas()["client"]["$defs"];
        assert_eq!(
            client["Join"]["properties"]["client"]["pattern"],
            "^[0-9a-fA-F]{32}$"
        );
        assert_eq!(
            client["TapFrame"]["properties"]["key"]["pattern"],
            "^[a-z0-9_-]{1,24}$"
        );
        assert_eq!(client["TapFrame"]["properties"]["seq"]["minimum"], 1);
        assert_eq!(
            client["TapFrame"]["required"],
            serde_json::json!(["key", "seq"])
        );
    }
}
