//! From what stands in a file or a variable to the types of settings. Variables are texts, so every type can be read
//! from a text too.

use super::Secret;
use config::{Value, ValueKind};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A text as TOML: what JSON escapes, TOML's basic strings escape alike.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value as a message shows it.
pub(super) fn shown(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => quoted(text),
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(values) => {
            format!(
                "[{}]",
                values.iter().map(shown).collect::<Vec<_>>().join(", ")
            )
        }
        _ => value.to_string(),
    }
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::String(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn as_number(value: &Value) -> Option<u64> {
    match &value.kind {
        ValueKind::I64(number) => u64::try_from(*number).ok(),
        ValueKind::U64(number) => Some(*number),
        ValueKind::String(text) => text.trim().replace('_', "").parse().ok(),
        _ => None,
    }
}

pub(super) fn as_switch(value: &Value) -> Option<bool> {
    match &value.kind {
        ValueKind::Boolean(switch) => Some(*switch),
        ValueKind::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn as_address(value: &Value) -> Option<SocketAddr> {
    as_text(value)?.trim().parse().ok()
}

pub(super) fn as_list(value: &Value) -> Option<Vec<String>> {
    match &value.kind {
        ValueKind::Array(values) => values.iter().map(as_text).collect(),
        ValueKind::String(text) => {
            let parts = text
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty());
            Some(parts.map(str::to_owned).collect())
        }
        _ => None,
    }
}

pub(super) fn as_secrets(value: &Value) -> Option<BTreeMap<String, Secret>> {
    match &value.kind {
        ValueKind::Table(table) => table
            .iter()
            .map(|(id, value)| Some((id.clone(), Secret::new(as_text(value)?))))
            .collect(),
        _ => None,
    }
}
