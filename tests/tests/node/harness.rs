//! What the other tests stand on.

use tests::node::{Cluster, OLD, are_there, needed};
use tests::servers::isolated;

#[test]
fn nodes_come_back_after_reboot_and_power_cut() {
    if !are_there() {
        return;
    }
    let name = "harness::nodes_come_back_after_reboot_and_power_cut";
    isolated(name, &needed(), async |programs| {
        let cluster = Cluster::start(&programs, "harness").await?;
        cluster.worker.reboot().await?;
        cluster.wait_until_ready("w1", OLD.kubernetes).await?;
        cluster.control_plane.power_cut().await?;
        cluster.control_plane.boot().await?;
        cluster.wait_until_ready("cp1", OLD.kubernetes).await?;
        cluster.wait_for_workload(2).await?;
        cluster.done()
    });
}
