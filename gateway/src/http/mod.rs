//! Pages, API and the accept loop.

pub mod accept;
pub mod tokens;
