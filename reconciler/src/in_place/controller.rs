//! The loop that upgrades nodes in place: one process of several works, by a Lease.

use std::time::Duration;

use cluster::kubernetes::{ClusterTurn, Connection, Holder, Lease, UpgradeController};
use in_place::order::Settings;
use jiff::Timestamp;
use tokio::time::sleep;

/// The Lease of the process that works.
const LEASE: &str = "stepgate-in-place";

/// How long the Lease is held without being renewed.
const HELD: Duration = Duration::from_secs(15);

/// Works until it is aborted. Nothing is written but while the Lease is held.
pub async fn run(
    connection: Connection,
    competing: Connection,
    namespace: String,
    identity: String,
    settings: Settings,
) {
    let lease = Lease::new(competing, &namespace, LEASE, &identity, HELD);
    let fenced = connection.fenced(Some(lease.leadership().clone()));
    let controller = UpgradeController::new(fenced, settings);
    let holding = async {
        loop {
            match lease.hold(Timestamp::now()).await {
                Ok(Holder::Us | Holder::Other(_)) => {}
                Err(error) => tracing::warn!("the Lease of upgrades in place: {error}"),
            }
            sleep(lease.pace()).await;
        }
    };
    let working = async {
        loop {
            if lease.leadership().remaining().is_some() {
                match controller.turn(Timestamp::now()).await {
                    Ok(turns) => turns.iter().for_each(tell),
                    Err(error) => tracing::warn!("upgrades in place: {error}"),
                }
            }
            sleep(lease.pace()).await;
        }
    };
    tokio::join!(holding, working);
}

fn tell(turn: &ClusterTurn) {
    let ClusterTurn { namespace, name, done, error } = turn;
    for action in done {
        tracing::debug!(cluster = %format_args!("{namespace}/{name}"), "done: {action:?}");
    }
    if let Some(error) = error {
        tracing::warn!(cluster = %format_args!("{namespace}/{name}"), "upgrades in place: {error}");
    }
}
