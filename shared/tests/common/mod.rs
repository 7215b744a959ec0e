//! What several test programs of this crate use.

pub(crate) mod random;
pub(crate) mod commit_model;
