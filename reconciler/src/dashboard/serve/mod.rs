//! What is answered by HTTP: pages, their reports, and what people do.

mod actions;
mod assets;
mod audit;
mod calendar;
mod events;
mod guard;
mod login;
mod rehearsals;
mod router;

pub(super) use actions::{OfferReport, OffersReport};
pub(super) use assets::{LIVE_SCRIPT, STYLE_SHEET};
pub use audit::Audit;
pub(super) use rehearsals::AT_ONCE;
pub use router::{Actors, Dashboard, Publisher};
