//! The program beside the demo's management cluster as it is installed there: by its own manifests, under its own identity.

mod everything;
mod grants;
mod image;
mod quiet;
mod whole;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use jiff::Timestamp;
use serde_json::Value;
use tests::servers::manifests::{apply, define, kind, objects};
use tests::servers::{DemoCluster, Process, Programs, service_account};
use tests::waiting::LONG_PATIENCE;

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager"];
const SYSTEM: &str = "stepgate-system";
const IDENTITY: &str = "system:serviceaccount:stepgate-system:stepgate";

/// The policy of the fleet.
const POLICY: (&str, &str) = (
    "stepgate.yaml",
    "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {branch: deploy}\nsoak: 0s\ntimeout: 30m\n",
);

/// An installation in a cluster in which nothing is left to do.
struct Installation {
    cluster: DemoCluster,
    /// What was installed.
    manifests: Vec<Value>,
    kubeconfig: PathBuf,
    /// What the program is told besides, by its environment.
    environment: BTreeMap<&'static str, OsString>,
}

impl Installation {
    /// `files` are on the source branch besides those of the demo, `definitions` and `others` in the cluster.
    async fn start(
        programs: &Programs,
        folder: &Path,
        files: &[(&str, &str)],
        definitions: &[Value],
        others: &[Value],
    ) -> anyhow::Result<Self> {
        let program = || Ok(Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests")));
        let cluster = DemoCluster::start(
            programs,
            folder,
            &folder.join("management"),
            &[&[POLICY][..], files].concat(),
            program,
            false,
        )
        .await?;
        define(&cluster.client, definitions).await?;
        apply(&cluster.client, others).await?;
        cluster.settle().await?;
        cluster.flux.applied(&cluster.repository.head()?, None).await?;

        let exported =
            program()?.args(["install", "--export", "--repo", "https://git.corp.internal/fleet.git"]).output()?;
        ensure!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        let manifests = objects(&String::from_utf8(exported.stdout)?)?;
        let is = |wanted: &'static str| move |object: &Value| kind(object) == wanted;
        let (defined, rest): (Vec<Value>, Vec<Value>) =
            manifests.iter().cloned().partition(is("CustomResourceDefinition"));
        define(&cluster.client, &defined).await?;
        let (namespaces, rest): (Vec<Value>, Vec<Value>) = rest.into_iter().partition(is("Namespace"));
        apply(&cluster.client, &namespaces).await?;
        apply(&cluster.client, &rest).await?;
        let kubeconfig = service_account(&cluster.server, SYSTEM, "stepgate").await?;
        Ok(Self { cluster, manifests, kubeconfig, environment: BTreeMap::new() })
    }

    /// The program under the installed identity.
    fn stepgate(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = self.cluster.stepgate(&self.kubeconfig, arguments)?;
        command.envs(&self.environment);
        Ok(command)
    }

    /// What a verb prints.
    async fn said(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.stepgate(arguments)?;
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts the controller; `port` is that of its endpoints.
    fn controller(&self, name: &str, port: u16, arguments: &[&str]) -> anyhow::Result<Controller> {
        let listen = format!("127.0.0.1:{port}");
        let first = ["run", "--log-level", "info,stepgate=debug", "--listen", &listen];
        let mut command = self.stepgate(&[&first[..], arguments].concat())?;
        // As of two pods.
        command.env("XDG_CACHE_HOME", self.cluster.folder.join(format!("cache-{name}")));
        Ok(Controller { process: Process::start(&self.cluster.folder, name, command)?, port })
    }

    /// What the audit log says of the identity's requests, each as it was received.
    fn asked(&self) -> anyhow::Result<Vec<Value>> {
        let all = self.cluster.server.audit()?.into_iter();
        Ok(all.filter(|line| line["user"]["username"] == IDENTITY && line["stage"] == "RequestReceived").collect())
    }

    /// What the identity has written, from its request number `from` on; dry runs write nothing.
    fn written(&self, from: usize) -> anyhow::Result<Vec<String>> {
        let is_write = |line: &&Value| {
            let reads = ["get", "list", "watch"].iter().any(|verb| line["verb"] == **verb);
            !reads && line["requestURI"].as_str().is_none_or(|uri| !uri.contains("dryRun=All"))
        };
        let asked = self.asked()?;
        let since = asked.get(from..).unwrap_or_default();
        Ok(since.iter().filter(is_write).map(|line| format!("{} {}", line["verb"], line["requestURI"])).collect())
    }

    /// Nobody's credentials were refused, and the identity was refused nothing.
    fn assert_nothing_was_refused(&self) -> anyhow::Result<()> {
        let refused = self.cluster.server.audit()?.into_iter().filter(|line| {
            let code = &line["responseStatus"]["code"];
            *code == 401 || (*code == 403 && line["user"]["username"] == IDENTITY)
        });
        let refused: Vec<String> = refused.map(|line| format!("{} {}", line["verb"], line["requestURI"])).collect();
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        Ok(())
    }

    /// The API server had never got more requests of the identity than its pace allows since its process was started: so many in a second, and twice
    /// as many at once. Watches are not counted: each is one request in minutes. What is held up on its way, as on a busy machine, comes later and
    /// breaks no pace.
    fn assert_paced(&self, started: Timestamp, per_second: u32) -> anyhow::Result<()> {
        let asked = self.asked()?;
        let asked = asked.iter().filter(|line| line["verb"] != "watch");
        let received = asked.map(|line| Ok(line["requestReceivedTimestamp"].as_str().unwrap_or_default().parse()?));
        let mut received: Vec<Timestamp> = received.collect::<anyhow::Result<_>>()?;
        received.sort_unstable();
        for (before, at) in received.iter().enumerate() {
            let after = at.duration_since(started).as_secs_f64();
            let allowed = f64::from(2 * per_second) + after * f64::from(per_second);
            let got = u32::try_from(before + 1)?;
            ensure!(f64::from(got) <= allowed, "{got} requests within {after} s, at most {allowed} are allowed");
        }
        ensure!(received.len() > 4 * usize::try_from(per_second)?, "{} requests prove no pace", received.len());
        Ok(())
    }

    /// Waits until `holds` gives a value, as long as the controller runs.
    async fn until<T>(
        &self,
        what: &str,
        controller: &Controller,
        holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        controller.process.until_within(what, LONG_PATIENCE, holds).await
    }

    /// Waits until this stage's commit is the newest on the deploy branch.
    async fn stage_is(&self, stage: &str, controller: &Controller) -> anyhow::Result<()> {
        let is_last = async || {
            let stages = self.cluster.repository.stages()?;
            Ok((stages.len() > 1 && stages.last().is_some_and(|last| last == stage)).then_some(()))
        };
        self.until(&format!("commit of {stage}"), controller, is_last).await
    }
}

/// A running controller and its endpoints.
struct Controller {
    process: Process,
    port: u16,
}

impl Controller {
    /// Status and text of an endpoint; none while nobody listens.
    async fn get(&self, path: &str) -> Option<(u16, String)> {
        let answer = reqwest::get(format!("http://127.0.0.1:{}{path}", self.port)).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// The number of a series of `/metrics`.
    async fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }
}
