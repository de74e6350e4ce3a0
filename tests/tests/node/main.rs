//! Upgrades of real nodes, by the Pods and the image that a cluster gets. `./tests/run --node` runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod breaking;
mod by_pod;
mod disturbed;
mod full_disk;
mod harness;
mod whole;

/// The program on a node uses nothing of the controller, so that both name the steps.
#[test]
fn pods_and_the_program_on_the_node_name_the_same_steps() {
    let of_pods: Vec<&str> = in_place::pod::NodeStep::ALL.iter().map(|step| step.as_str()).collect();
    let of_the_program: Vec<&str> = stepgate_node::step::Step::ALL.iter().map(|step| step.as_str()).collect();
    assert_eq!(of_pods, of_the_program);
}
