//! Comments below a pull request: the commands in them, and what they come to.

pub mod command;
pub mod conversation;
