//! Machines that Cluster API upgrades in place, because the extension says that they can be; and what happens to those that cannot.
//!
//! Machines are in memory: the controller beside the extension makes Pods, and this test is the kubelet that runs them.

pub(crate) mod bench;
mod certificate;
pub(crate) mod kubelets;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::DeleteParams;
use tests::servers::isolated;
use tests::servers::manifests::{apply, kind_of_cluster};

use bench::{Bench, CONTROL_PLANE, EXTENSION_CONFIG, NEW, WORKERS, needed};

/// How long nothing is seen to happen.
const QUIET: Duration = Duration::from_secs(25);

#[test]
fn machines_go_to_the_next_minor_in_place_one_after_another() {
    let name = "in_place::machines_go_to_the_next_minor_in_place_one_after_another";
    isolated(name, &needed(), async |programs| {
        let mut bench = Bench::start(&programs, "hold").await?;
        let before = bench.uids().await?;
        let (kubelets, watcher) = bench.start_kubelets().await?;
        bench.set_version(CONTROL_PLANE, NEW).await?;
        bench.first_is_under_way().await?;
        // Whoever is killed in the middle goes on.
        bench.extension.kill()?;
        bench.extension.restart()?;
        bench.provider.managers.control_plane.kill()?;
        bench.provider.managers.control_plane.restart()?;
        bench.all_are(CONTROL_PLANE, 3, NEW).await?;
        bench.set_version(WORKERS, NEW).await?;
        bench.all_are(WORKERS, 2, NEW).await?;
        assert_eq!(bench.uids().await?, before, "no machine was replaced");
        let upgraded = kubelets.upgraded()?;
        let nodes: BTreeSet<&String> = upgraded.iter().collect();
        assert_eq!((upgraded.len(), nodes.len(), watcher.most_at_once()), (5, 5, 1), "each once, one at a time");
        bench.folder.done();
        Ok(())
    });
}

#[test]
fn what_cannot_be_done_in_place_is_held_or_replaced_as_chosen() {
    let name = "in_place::what_cannot_be_done_in_place_is_held_or_replaced_as_chosen";
    isolated(name, &needed(), async |programs| {
        let bench = Bench::start(&programs, "hold").await?;
        let before = bench.uids().await?;
        let (kubelets, _watcher) = bench.start_kubelets().await?;
        // A new template of the provider's machine: no node upgrader makes another machine of it.
        bench.change_machines().await?;
        bench.set_version(CONTROL_PLANE, NEW).await?;
        bench.declined("startupDuration").await?;
        // What is shown is that nothing happens: that takes a while.
        tokio::time::sleep(QUIET).await;
        assert_eq!(bench.uids().await?, before, "held: nothing is replaced");
        bench.choose("replace").await?;
        bench.all_are(CONTROL_PLANE, 3, NEW).await?;
        let after = bench.uids().await?;
        assert_eq!(after.intersection(&before).count(), 2, "replaced, but for the workers");
        assert_eq!(kubelets.upgraded()?, Vec::<String>::new());
        bench.folder.done();
        Ok(())
    });
}

#[test]
fn a_second_extension_stops_everything_and_nothing_is_replaced() {
    let name = "in_place::a_second_extension_stops_everything_and_nothing_is_replaced";
    isolated(name, &needed(), async |programs| {
        let mut bench = Bench::start(&programs, "hold").await?;
        let before = bench.uids().await?;
        apply(&bench.client, &[bench.registration("another")]).await?;
        bench.is_discovered("another").await?;
        // A manager that runs may not know it yet, and would begin; one that starts asks every extension first.
        bench.provider.managers.control_plane.kill()?;
        bench.provider.managers.control_plane.restart()?;
        bench.provider.managers.wait_until_ready().await?;
        bench.set_version(CONTROL_PLANE, NEW).await?;
        bench.control_plane_manager_says("only one hook is supported").await?;
        assert_eq!(bench.uids().await?, before);
        let registrations = kind_of_cluster(&bench.client, EXTENSION_CONFIG).await?;
        registrations.delete("another", &DeleteParams::default()).await?;
        bench.wake_control_plane().await?;
        let (kubelets, _watcher) = bench.start_kubelets().await?;
        bench.all_are(CONTROL_PLANE, 3, NEW).await?;
        assert_eq!((bench.uids().await?, kubelets.upgraded()?.len()), (before, 3));
        bench.folder.done();
        Ok(())
    });
}

#[test]
fn cluster_api_that_starts_before_the_extension_waits_for_it() {
    let name = "in_place::cluster_api_that_starts_before_the_extension_waits_for_it";
    isolated(name, &needed(), async |programs| {
        let mut bench = Bench::start(&programs, "hold").await?;
        bench.extension.kill()?;
        let core = &mut bench.provider.managers.core;
        core.kill()?;
        core.restart()?;
        bench.set_version(CONTROL_PLANE, NEW).await?;
        bench.extension.restart()?;
        bench.provider.managers.wait_until_ready().await?;
        let (kubelets, _watcher) = bench.start_kubelets().await?;
        bench.all_are(CONTROL_PLANE, 3, NEW).await?;
        assert_eq!(kubelets.upgraded()?.len(), 3);
        bench.folder.done();
        Ok(())
    });
}
