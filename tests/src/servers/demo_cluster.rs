//! The demo's management cluster on a real API server: everything is there as the deploy branch says, and nothing is left to do. What is fake
//! is what would run in it: kubelets, Flux, EKS Anywhere and Cluster API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use kube::Client;
use stepgate::demo::FleetFiles;

use super::demo::{demo_definitions, demo_files};
use super::programs::Programs;
use crate::servers::flux::fake::FakeFlux;
use crate::servers::git::fleet_repository::FleetRepository;
use crate::servers::kubernetes::api_server::{ApiServer, ApiServerOptions};
use crate::servers::kubernetes::kubelet::FakeKubelet;
use crate::servers::kubernetes::manifests::define;
use crate::servers::kubernetes::settled::{self, FakeEksAnywhere, NODES};

/// Kubernetes of the demo before its bump.
const KUBERNETES: &str = "v1.33.5";

/// How the program is started, before its arguments.
pub type Stepgate = fn() -> anyhow::Result<Command>;

/// The cluster, its fleet repository, and the program beside it.
pub struct DemoCluster {
    /// Where everything lies.
    pub folder: PathBuf,
    /// The API server.
    pub server: ApiServer,
    /// Its administrator.
    pub client: Client,
    /// The fleet repository, with this cluster alone.
    pub repository: FleetRepository,
    /// In the place of Flux.
    pub flux: FakeFlux,
    /// In the place of EKS Anywhere's controller.
    pub eks_anywhere: FakeEksAnywhere,
    /// What the demo's bump changes on the source branch.
    pub bump: Vec<(String, String)>,
    stepgate: Stepgate,
    _kubelet: FakeKubelet,
}

impl DemoCluster {
    /// Starts the servers, with nothing in them yet, and describes the fleet. `state` is where the API server keeps what it stores and logs.
    /// `files` are on the source branch besides those of the demo, or in their place. Workloads have their controllers; `movable` is that of
    /// [`ApiServerOptions`].
    ///
    /// # Errors
    /// When a server does not start, or git does not succeed.
    pub async fn start(
        programs: &Programs,
        folder: &Path,
        state: &Path,
        files: &[(&str, &str)],
        stepgate: Stepgate,
        movable: bool,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let FleetFiles { before, bump, .. } = demo_files(folder)?;
        let repository = FleetRepository::create(&folder.join("repository"))?;
        let mut texts: BTreeMap<String, String> = of_the_management_cluster(before)?.into_iter().collect();
        texts.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        repository.push("Describe the fleet", &texts)?;

        let options = ApiServerOptions { controllers: true, movable, ..ApiServerOptions::default() };
        let server = ApiServer::start(programs, state, options).await?;
        let client = server.client().await?;
        let kubelet = FakeKubelet::start(&client, &NODES, KUBERNETES).await?;
        Ok(Self {
            folder: folder.to_owned(),
            flux: FakeFlux::new(&client, &repository),
            eks_anywhere: FakeEksAnywhere::start(&client),
            bump: of_the_management_cluster(bump)?,
            server,
            client,
            repository,
            stepgate,
            _kubelet: kubelet,
        })
    }

    /// Records the cluster as it is on the source branch, and makes it so.
    ///
    /// # Errors
    /// When the program does not succeed, or an object is refused.
    pub async fn settle(&self) -> anyhow::Result<()> {
        let adopted = self.stepgate(&self.server.kubeconfig(), &["adopt", "--yes"])?.output()?;
        ensure!(adopted.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&adopted.stderr));
        define(&self.client, &demo_definitions()).await?;
        self.flux.apply().await?;
        settled::create(&self.client, KUBERNETES).await
    }

    /// The program, as whom a kubeconfig names.
    ///
    /// # Errors
    /// When it cannot be found.
    pub fn stepgate(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = (self.stepgate)()?;
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", kubeconfig)
            .env("STEPGATE_BACKUPS", self.folder.join("backups"))
            .env("STEPGATE_MIRROR", self.folder.join("mirror"))
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        Ok(command)
    }
}

fn of_the_management_cluster(files: BTreeMap<String, Vec<u8>>) -> anyhow::Result<Vec<(String, String)>> {
    let files = files.into_iter().filter(|(path, _)| !path.starts_with("clusters/team-"));
    files.map(|(path, bytes)| Ok((path, String::from_utf8(bytes)?))).collect()
}
