//! The scripts: each a file of Lua beside this one, with its keys and arguments named at its top. A script is not
//! rolled back when it fails midway, so each checks everything before it writes anything.

/// A script and the SHA-1 by which Redis knows it.
#[derive(Debug)]
pub struct Script {
    inner: redis::Script,
}

impl Script {
    /// A script from its Lua.
    pub fn new(lua: &str) -> Self {
        Script { inner: redis::Script::new(lua) }
    }

    /// Its SHA-1, in hex.
    pub fn sha(&self) -> &str {
        self.inner.get_hash()
    }
}
