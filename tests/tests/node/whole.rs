//! One minor version up, undisturbed.

use in_place::objects::Role;
use in_place::pod::Way;
use tests::node::{Cluster, UpgraderImage, are_there, needed};
use tests::servers::isolated;

use crate::by_pod::{STEPGATE, assert_control_plane_is_new, assert_is_upgraded, done, install, pod, start};

#[test]
fn control_plane_and_worker_go_one_minor_up_by_their_pods() {
    if !are_there() {
        return;
    }
    let name = "whole::control_plane_and_worker_go_one_minor_up_by_their_pods";
    isolated(name, &needed(), async |programs| {
        let image = UpgraderImage::make(&programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
        let cluster = Cluster::start(&programs, "whole").await?;
        install(&cluster, &image).await?;
        let kept = cluster.get(&["configmap", "kept"]).await.unwrap();
        for (machine, role) in [(&cluster.control_plane, Role::FirstControlPlane), (&cluster.worker, Role::Worker)] {
            let pod = pod(&image, machine.name(), role);
            start(&cluster, &pod, Way::Upgrade).await?;
            done(&cluster, machine, &pod.name(Way::Upgrade)).await?;
            assert_is_upgraded(&cluster, machine).await?;
        }
        assert_control_plane_is_new(&cluster).await?;
        cluster.wait_for_workload(2).await?;
        assert_eq!(cluster.get(&["configmap", "kept"]).await.unwrap()["metadata"]["uid"], kept["metadata"]["uid"]);
        // A node that is at its target is left alone.
        let pod = pod(&image, "w1", Role::Worker);
        start(&cluster, &pod, Way::Upgrade).await?;
        done(&cluster, &cluster.worker, &pod.name(Way::Upgrade)).await?;
        cluster.done()
    });
}
