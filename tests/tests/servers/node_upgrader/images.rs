//! Images of the new version, before anything is changed on the node.

use anyhow::ensure;
use serde_json::json;
use stepgate_node::files::digest::Digest;
use tests::servers::{ApiServer, ApiServerOptions, FakeKubelet, Folder, isolated};

use super::kubelet::{self, StaticPods};
use super::machine::{Machine, write};
use super::release::{NEW, OLD, Release};
use super::{Caller, NEEDED, NODE, accounts, copy, is_cordoned, kubeadm_config};

#[test]
fn images_that_kubeadm_starts_are_there_before_the_drain() {
    let name = "node_upgrader::images::images_that_kubeadm_starts_are_there_before_the_drain";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let _kubelet = FakeKubelet::start(&client, &[NODE], OLD).await?;
        accounts(&client).await?;
        let machine = Machine::new();
        let mut release = Release::new(NEW);
        kubelet::write_static_pods(&machine, &mut release);
        let reports = StaticPods::run(&client, machine.root(), NODE);
        let caller = Caller { machine: &machine, kubeconfig: server.kubeconfig() };
        let from = release.folder().to_str().unwrap().to_owned();
        let again = ["copy", "--from", &from, "--role", "first-control-plane", "--node", NODE];

        reports.settled().await;
        caller.fails(&again, &["kubeadm-config has no ClusterConfiguration"]).await?;
        kubeadm_config(&client).await?;
        write(&machine.place("/run/no-registry"), "", 0o644);
        let image = format!("registry.test/kube-apiserver:{NEW}");
        caller.fails(&again, &[&image, "was not pulled", "no such host"]).await?;
        caller.fails(&["containerd", "--target", NEW], &["containerd comes after copy"]).await?;
        std::fs::remove_file(machine.place("/run/no-registry"))?;

        // The release says the digest, of whatever registry its image is; this cluster has another one.
        let digest = Digest::of(b"kube-apiserver").to_string();
        let elsewhere = format!("public.example/eks/kube-apiserver:{NEW}");
        release.change(|manifest| manifest["images"] = json!([{"reference": elsewhere, "digest": digest}]));
        let other = Digest::of(b"something else").to_string();
        write(&machine.place("/run/digest"), &other, 0o644);
        caller.fails(&again, &[&format!("image {image} is {other}, and {digest} is wanted")]).await?;
        ensure!(!is_cordoned(&client).await?, "the node was cordoned");
        std::fs::remove_file(machine.place("/run/images"))?;
        write(&machine.place("/run/digest"), &digest, 0o644);
        let said = copy(&caller, &release, "first-control-plane").await?;
        ensure!(said.contains("1 images copied"), "{said}");
        ensure!(!machine.read("/run/images").contains(&elsewhere), "{}", machine.read("/run/images"));
        folder.done();
        Ok(())
    });
}
