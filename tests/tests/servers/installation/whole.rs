//! A whole rollout by two processes that take turns, under the installed identity.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use tests::servers::manifests::list;
use tests::servers::settled::{CLUSTER, FakeEksAnywhere};
use tests::servers::{FLUX_NAMESPACE, FakeWebhooks, Folder, GitServer, isolated};

use super::grants::Grant;
use super::{Installation, NEEDED, SYSTEM, everything};

/// The commits of the deploy branch: recorded, each stage, closed.
const STAGES: [&str; 10] =
    ["verify", "cert-manager", "capi", "eks-a", "bundle", "cilium", "flux", "control-plane", "workers/md-0", "verify"];

const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// What is granted and not needed in this cluster, and why it is granted.
const NOT_NEEDED_HERE: [(&str, &str); 39] = [
    ("create subjectaccessreviews.authorization.k8s.io", "metrics are on loopback here; scraping.rs asks for it"),
    ("create tokenreviews.authentication.k8s.io", "the same"),
    ("delete machines.cluster.x-k8s.io", STACKED),
    ("get ocirepositories.source.toolkit.fluxcd.io", "Flux fetches from git here"),
    ("list *.acme.cert-manager.io", UNCHANGED),
    ("list *.cilium.io", UNCHANGED),
    ("list *.image.toolkit.fluxcd.io", UNCHANGED),
    ("list *.notification.toolkit.fluxcd.io", UNCHANGED),
    ("list *.source.toolkit.fluxcd.io", UNCHANGED),
    ("list csistoragecapacities.storage.k8s.io", NOTHING_GOES),
    ("list devicetaintrules.resource.k8s.io", NOTHING_GOES),
    ("list flowschemas.flowcontrol.apiserver.k8s.io", NOTHING_GOES),
    ("list gitrepositories.source.toolkit.fluxcd.io", "servers without watch-list are listed before they are watched"),
    ("list mutatingadmissionpolicies.admissionregistration.k8s.io", NOTHING_GOES),
    ("list mutatingadmissionpolicybindings.admissionregistration.k8s.io", NOTHING_GOES),
    ("list ocirepositories.source.toolkit.fluxcd.io", "servers without watch-list are listed before they are watched"),
    ("list prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", NOTHING_GOES),
    ("list volumeattributesclasses.storage.k8s.io", NOTHING_GOES),
    ("patch clusters.cluster.x-k8s.io", "no cluster is rendered here whose machines do not come up"),
    ("patch devmachines.infrastructure.cluster.x-k8s.io", RENDERED),
    ("patch kubeadmconfigs.bootstrap.cluster.x-k8s.io", RENDERED),
    ("patch kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", RENDERED),
    ("patch machinedeployments.cluster.x-k8s.io", RENDERED),
    ("patch vspheremachines.vmware.infrastructure.cluster.x-k8s.io", RENDERED),
    ("patch ocirepositories.source.toolkit.fluxcd.io", "Flux fetches from git here"),
    ("get *.infrastructure.cluster.vmware.com", SUPERVISOR),
    ("list *.infrastructure.cluster.vmware.com", SUPERVISOR),
    ("get *.kubernetes.vmware.com", SUPERVISOR),
    ("list *.kubernetes.vmware.com", SUPERVISOR),
    ("get *.run.tanzu.vmware.com", SUPERVISOR),
    ("list *.run.tanzu.vmware.com", SUPERVISOR),
    ("get *.vmoperator.vmware.com", SUPERVISOR),
    ("list *.vmoperator.vmware.com", SUPERVISOR),
    ("get *.vmware.infrastructure.cluster.x-k8s.io", SUPERVISOR),
    ("list *.vmware.infrastructure.cluster.x-k8s.io", SUPERVISOR),
    ("watch tanzukubernetesclusters.run.tanzu.vmware.com", SUPERVISOR),
    ("list controlplanekubeadmupgrades.inplace.stepgate.dev", IN_PLACE),
    ("list nodekubeadmupgrades.inplace.stepgate.dev", IN_PLACE),
    ("list workerskubeadmupgrades.inplace.stepgate.dev", IN_PLACE),
];

const STACKED: &str = "etcd is on the control-plane machines here; external_etcd.rs takes a member back";

const UNCHANGED: &str =
    "objects are read where a rollout changes their definition, and this one changes none of the group";

const SUPERVISOR: &str = "there is no Supervisor here; tanzu asks for it";

const RENDERED: &str = "no cluster is rendered here; tanzu::rendered has some";

const IN_PLACE: &str = "nothing is upgraded in place here; in_place_controller.rs has the definitions";

const NOTHING_GOES: &str = "objects are read where a version of theirs goes with the minor that a rollout takes";

#[test]
fn a_whole_rollout_makes_use_of_all_that_is_granted_and_is_refused_nothing() {
    let name = "installation::whole::a_whole_rollout_makes_use_of_all_that_is_granted_and_is_refused_nothing";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let overlays = everything::overlays();
        let overlays: Vec<(&str, &str)> = overlays.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let provider = json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
            "metadata": {"name": "cluster-api", "namespace": "default"}});
        let mut scene = Installation::start(
            &programs,
            folder.path(),
            &overlays,
            &everything::definitions(),
            &[provider, everything::endpoints()],
        )
        .await?;
        let _webhooks = FakeWebhooks::start(&scene.cluster.client).await?;
        scene.cluster.eks_anywhere = FakeEksAnywhere::rolling(&scene.cluster.client);
        scene.cluster.flux.released(FLUX_NAMESPACE).await?;
        leave_a_rollout(&scene).await?;

        // Whoever cannot read the repository is alive and not ready.
        let git = GitServer::start(scene.cluster.repository.served().0).await?;
        let bare = scene.cluster.repository.bare();
        let config = Command::new("git").arg("-C").arg(bare).args(["config", "http.receivepack", "true"]).status()?;
        ensure!(config.success(), "git config: {config}");
        scene.environment.insert("STEPGATE_REPO", git.url(scene.cluster.repository.served().1).into());
        scene.environment.insert("STEPGATE_INTERVAL", "2".into());
        git.be_away(true);
        // Longer than a busy machine keeps anybody from renewing it.
        let turns = ["--leader-election", "--lease-duration", "60", "--identity"];
        let mut first = scene.controller("first", 8081, &[&turns[..], &["first"]].concat())?;
        let leads = async || Ok(first.metric("stepgate_leads").await.filter(|leads| *leads == 1.0));
        scene.until("the first leads", &first, leads).await?;
        let has_failed =
            async || Ok(first.metric("stepgate_passes_total{result=\"failure\"}").await.filter(|passes| *passes > 0.0));
        scene.until("a pass has failed", &first, has_failed).await?;
        assert_eq!(first.get("/healthz").await.context("no answer")?.0, 200);
        let (status, text) = first.get("/readyz").await.context("no answer")?;
        assert_eq!((status, text.as_str()), (503, "the fleet was not read yet\n"));
        git.be_away(false);
        let is_ready = async || Ok(first.get("/readyz").await.filter(|(status, _)| *status == 200));
        scene.until("the first is ready", &first, is_ready).await?;

        // Whoever stands by is ready too.
        let second = scene.controller("second", 8082, &[&turns[..], &["second"]].concat())?;
        let is_ready = async || Ok(second.get("/readyz").await.filter(|(status, _)| *status == 200));
        scene.until("the second is ready", &second, is_ready).await?;
        assert_eq!(second.metric("stepgate_leads").await, Some(0.0));

        // A pause that ends by itself, and the bump.
        hold(&scene, "20s").await?;
        ensure!(suspended(&scene).await? > 0, "nothing is held");
        let flux = scene.cluster.flux.follow();
        let bump: Vec<(&str, &str)> =
            scene.cluster.bump.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        scene.cluster.repository.push("Take the bump", &bump)?;
        scene.stage_is("capi", &first).await?;
        assert_eq!(holder(&scene).await?, "first");
        let is_shown = async || Ok(Some(shown(&scene).await?).filter(|row| row["Ready"] == "False"));
        let row = scene.until("the Rollout is not ready", &first, is_shown).await?;
        assert_eq!(row["Name"], json!(CLUSTER), "{row}");
        first.process.kill()?;
        let leads = async || Ok(second.metric("stepgate_leads").await.filter(|leads| *leads == 1.0));
        scene.until("the second leads", &second, leads).await?;
        assert_eq!(holder(&scene).await?, "second");

        let done = async || Ok((scene.cluster.repository.stages()?.len() >= STAGES.len()).then_some(()));
        scene.until("the rollout is closed", &second, done).await?;
        assert_eq!(scene.cluster.repository.stages()?, STAGES);
        let is_shown = async || Ok(Some(shown(&scene).await?).filter(|row| row["Ready"] == "True"));
        let row = scene.until("the Rollout is ready", &second, is_shown).await?;
        assert_eq!((&row["State"], &row["Stage"]), (&json!("done"), &Value::Null), "{row}");
        let ended = async || Ok((suspended(&scene).await? == 0).then_some(()));
        scene.until("the pause has ended", &second, ended).await?;
        hold(&scene, "4h").await?;
        ensure!(scene.said(&["resume", CLUSTER, "--yes"]).await?.contains("goes on"));
        drop(flux);

        scene.assert_nothing_was_refused()?;
        let asked = scene.asked()?;
        let unused: BTreeSet<String> = Grant::of(&scene.manifests)
            .iter()
            .filter(|grant| !asked.iter().any(|request| grant.allows(request)))
            .map(ToString::to_string)
            // The stand-in for EKS Anywhere replaces all machines at once: whether one is seen outdated before is chance.
            .filter(|grant| grant != "patch machines.cluster.x-k8s.io")
            .collect();
        let expected: BTreeSet<String> = NOT_NEEDED_HERE.map(|(grant, _)| grant.to_owned()).into();
        assert_eq!(unused, expected);
        folder.done();
        Ok(())
    });
}

/// A `Rollout` of a cluster that the fleet has no longer.
async fn leave_a_rollout(scene: &Installation) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("stepgate.dev", "v1alpha1", "Rollout"));
    let api: Api<DynamicObject> = Api::namespaced_with(scene.cluster.client.clone(), SYSTEM, &resource);
    let left = json!({"apiVersion": "stepgate.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "gone"}, "spec": {"cluster": "gone"}});
    api.create(&PostParams::default(), &serde_json::from_value(left)?).await?;
    Ok(())
}

async fn hold(scene: &Installation, duration: &str) -> anyhow::Result<()> {
    let person = ["--as", "Alice <alice@example.com>", "--yes"];
    let arguments = ["hold", CLUSTER, "--reason", "the auditors are in the house", "--for", duration];
    scene.said(&[&arguments[..], &person].concat()).await.map(drop)
}

/// How many Kustomizations are paused.
async fn suspended(scene: &Installation) -> anyhow::Result<usize> {
    let all = list(&scene.cluster.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
    Ok(all.iter().filter(|known| known.data.pointer("/spec/suspend") == Some(&json!(true))).count())
}

/// Who holds the Lease.
async fn holder(scene: &Installation) -> anyhow::Result<String> {
    let lease = Api::<Lease>::namespaced(scene.cluster.client.clone(), SYSTEM).get("stepgate").await?;
    lease.spec.and_then(|spec| spec.holder_identity).context("nobody holds the Lease")
}

/// The only Rollout as `kubectl get rollouts` shows it: cells by the names of their columns.
async fn shown(scene: &Installation) -> anyhow::Result<Value> {
    let request = axum::http::Request::get(format!("/apis/stepgate.dev/v1alpha1/namespaces/{SYSTEM}/rollouts"))
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = serde_json::from_str(&scene.cluster.client.request_text(request).await?)?;
    let rows = table["rows"].as_array().context("no rows")?;
    ensure!(rows.len() == 1, "{table}");
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let cells = rows[0]["cells"].as_array().into_iter().flatten();
    Ok(columns
        .zip(cells)
        .map(|(column, cell)| (column["name"].as_str().unwrap_or_default().to_owned(), cell.clone()))
        .collect())
}
