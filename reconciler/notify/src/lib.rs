//! Announcements on their way to people: what is still to be told is kept in one file, and sinks tell it.
//!
//! What is told is decided elsewhere, by `rollout::announcements` and `rollout::standing`. This package writes it down, hands it
//! to sinks in order, and tries again where one is away.
//!
//! Architecture Invariant: what is to be told is on the disk before any of it is sent, and what was sent is noted
//! after. So everything is told at least once, and what is told again after a crash has the same name.
//!
//! Architecture Invariant: nobody waits for a sink but what that sink is still to tell, and that is bounded.

mod delivery;
mod error;
mod journal;
mod message;
mod notifier;
mod plain;
mod settings;
mod silencer;
mod sinks;

pub use error::NotifyError;
pub use journal::Journal;
pub use message::{FluxObject, Message, Outgoing, Route};
pub use notifier::{Happened, Notifier};
pub use settings::{SinkName, Sinks};
pub use silencer::Silencer;
