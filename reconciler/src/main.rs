//! The `stepgate` program.

fn main() {}
