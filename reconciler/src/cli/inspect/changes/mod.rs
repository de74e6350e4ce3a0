//! What is going to change: plans, and the files and objects behind them.

pub(in crate::cli) mod diff;
mod lines;
mod object_text;
pub(in crate::cli) mod plan;
mod plan_text;
mod range;
