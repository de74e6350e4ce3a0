//! A disk that is full before the upgrade, and one that gets full in the middle of it.

use anyhow::ensure;
use stepgate_node::files::digest::Digest;
use stepgate_node::step::Step;
use tests::node::{ByHand, Cluster, UpgraderImage, are_there, needed};
use tests::servers::isolated;

use crate::by_pod::{STEPGATE, assert_is_upgraded, journal};

const PLUGINS: &str = "/opt/cni/bin";

#[test]
fn full_disk_changes_nothing_and_the_upgrade_goes_on_with_room() {
    if !are_there() {
        return;
    }
    let name = "full_disk::full_disk_changes_nothing_and_the_upgrade_goes_on_with_room";
    isolated(name, &needed(), async |programs| {
        let image = UpgraderImage::make(&programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
        let cluster = Cluster::start_with_new_control_plane(&programs, &image, "full-disk").await?;
        let worker = &cluster.worker;
        let by_hand = ByHand::install(&cluster, &image, worker)?;
        worker.run("mkdir", &["-p", "/var/lib/stepgate"]).await?;
        worker.run("mount", &["-t", "tmpfs", "-o", "size=64m", "none", "/var/lib/stepgate"]).await?;
        let why = by_hand.fail("copy", 3).await?;
        ensure!(why.contains("/var/lib/stepgate/node has 64 MiB free"), "{why}");
        worker.run("umount", &["/var/lib/stepgate"]).await?;
        ensure!(journal(worker).is_none(), "nothing was begun");

        by_hand.succeed("copy").await?;
        by_hand.succeed("containerd").await?;
        // Room for what is there, and for no other plugin beside it.
        let script = format!(
            "mkdir -p /run/full && mount -t tmpfs none /run/full -o size=$(du -sk {PLUGINS} | cut -f1)k && \
             cp -a {PLUGINS}/. /run/full && mount --bind /run/full {PLUGINS}"
        );
        worker.run("sh", &["-c", &script]).await?;
        let why = by_hand.fail("cni-plugins", 1).await?;
        ensure!(why.contains("No space left") && why.contains(PLUGINS), "{why}");
        for file in journal(worker).unwrap().files.iter().filter(|file| file.path.as_str().starts_with(PLUGINS)) {
            let path = format!("/run/full/{}", file.path.name());
            let content = worker.run("sha256sum", &[&path]).await?;
            let digest: Digest = content.split_whitespace().next().unwrap().parse().unwrap();
            let is_whole = Some(digest) == file.before.map(|found| found.sha256) || digest == file.after.sha256;
            ensure!(is_whole, "{path} is neither old nor new");
        }
        worker.run("umount", &[PLUGINS]).await?;
        by_hand.upgrade_from(Step::CniPlugins).await?;
        assert_is_upgraded(&cluster, worker).await?;
        cluster.wait_for_workload(2).await?;
        cluster.done()
    });
}
