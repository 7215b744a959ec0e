//! The scripts: each a file of Lua beside this one, with its keys and arguments named at its top. A script is not
//! rolled back when it fails midway, so each checks everything before it writes anything.
//!
//! A new script is a file here and a line in the list at the end.

use redis::Cmd;
use std::sync::LazyLock;

/// A script and the SHA-1 by which Redis knows it.
#[derive(Debug)]
pub struct Script {
    inner: redis::Script,
    code: String,
}

impl Script {
    /// A script from its Lua.
    pub fn new(lua: &str) -> Self {
        Script {
            inner: redis::Script::new(lua),
            code: lua.to_owned(),
        }
    }

    /// Its SHA-1, in hex.
    pub fn sha(&self) -> &str {
        self.inner.get_hash()
    }

    /// `EVALSHA` with these keys and arguments.
    pub(super) fn call<A: redis::ToRedisArgs>(&self, keys: &[String], arguments: &[A]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.sha()).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        for argument in arguments {
            command.arg(argument);
        }
        command
    }

    /// `SCRIPT LOAD`.
    pub(super) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.code);
        command
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!($file)));)*
    };
}

scripts! {
    /// Takes a lease, if it is still as it was seen.
    CLAIM = "claim.lua";
    /// Keeps a lease: the write that every read of a log carries.
    RENEW = "renew.lua";
    /// Lets a lease go.
    RELEASE = "release.lua";
    /// Writes the layout of the data once, and reads it.
    LAYOUT = "layout.lua";
    /// Shows that an instance is alive, and reads all that do.
    MEMBERS = "members.lua";
    /// Commits what an aggregator folded, and publishes the tick.
    COMMIT = "commit.lua";
    /// Puts the expiry of a room into its shard's log.
    EXPIRE = "expire.lua";
    /// Makes or changes a room together with its log entry.
    CHANGE_ROOM = "change_room.lua";
}
