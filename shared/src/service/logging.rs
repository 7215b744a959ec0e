//! Logs: to standard error, as text or JSON, with the ids one needs.
