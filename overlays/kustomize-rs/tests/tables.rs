//! The tables in the crate are those of the kustomize release, where its tables are present.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout
)]

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/make_tables.rs"]
mod make_tables;
mod support;

#[test]
fn the_tables_are_what_the_example_makes_of_the_release() {
    let Some(directory) = skip::shared("data/kustomize/tables") else { return };
    let made = make_tables::tables(directory.to_str().unwrap());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/tables.txt");
    let kept = std::fs::read_to_string(file).unwrap();
    let differs = made.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
    assert_eq!(made, kept, "first at line {:?}; make it anew with examples/make_tables.rs", differs.map(|at| at + 1));
}
