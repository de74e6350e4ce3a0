//! What people say of waves as a whole, with Stepgate itself.

mod answer;
mod error;
mod record;

pub use answer::{AnsweredWave, Said, answer_wave};
pub use error::WaveError;
