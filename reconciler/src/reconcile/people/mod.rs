//! What is read of people: who wrote what is rolled out, who owns it, and whose words count.

pub(in crate::reconcile) mod authors;
pub mod facts;
mod owners;
pub mod words;
