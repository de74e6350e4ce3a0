//! The dashboard: where every cluster stands, in a browser, and what people do about it.
//!
//! Pages are rendered here from the reports that `-o json` prints, so that a page, its `.json` and the command line agree.
//! The script of a page only fetches the page again when something has changed: without it, everything can be read as well.
//!
//! Architecture Invariant: a page is made of a snapshot that was published beside the passes. No request holds up a pass.
//!
//! Architecture Invariant: what people do here are the commits and leases of the command line, made by the same functions. Nothing else
//! that a request says is ever written anywhere.

mod access;
mod detail;
mod documents;
mod pages;
mod reader;
mod serve;
mod snapshot;

pub use access::{AccessError, AccessSettings, DashboardAccess, OidcSettings};
pub use documents::Document;
pub use reader::FleetReader;
pub use serve::{Actors, Audit, Dashboard, Publisher};
pub use snapshot::{ReadBy, Snapshot};
