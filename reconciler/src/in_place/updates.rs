//! How far a machine is, read off the management cluster each time.

use cluster::kubernetes::{Connection, node_upgrades};
use in_place::hooks::{Progress, UpdateMachine};

use super::extension::Updates;

/// What the `NodeKubeadmUpgrade` objects of this cluster say.
#[must_use]
pub fn of_cluster(connection: Connection) -> Updates {
    Updates::new(move |request: UpdateMachine| {
        let connection = connection.clone();
        Box::pin(async move {
            let namespace = request.namespace().to_owned();
            let upgrades = node_upgrades(&connection, &namespace).await.map_err(|error| error.to_string())?;
            Progress::of(&request, &upgrades)
        })
    })
}
