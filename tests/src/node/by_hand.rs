//! The upgrader's program as an administrator calls it: what its image has, unpacked on the node, step by step.

use std::fs;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};
use stepgate_node::step::Step;

use super::cluster::Cluster;
use super::machine::Machine;
use super::programs::NEW;
use super::upgrader::UpgraderImage;

/// Where the image's content lies on the node.
const FOLDER: &str = "/srv/upgrader";

/// The way to the API server, from every node.
const KUBECONFIG: &str = "/root/admin.conf";

/// The program on one node.
pub struct ByHand<'a> {
    machine: &'a Machine,
    role: &'static str,
}

impl<'a> ByHand<'a> {
    /// Brings what the image has to a node.
    ///
    /// # Errors
    /// When it cannot be unpacked there.
    pub fn install(cluster: &'a Cluster, image: &UpgraderImage, machine: &'a Machine) -> anyhow::Result<Self> {
        image.unpack(&machine.place(FOLDER))?;
        fs::copy(cluster.control_plane.place("/etc/kubernetes/admin.conf"), machine.place(KUBECONFIG))?;
        let is_worker = machine.name() == cluster.worker.name();
        Ok(Self { machine, role: if is_worker { "worker" } else { "first-control-plane" } })
    }

    /// One call.
    ///
    /// # Errors
    /// When the node is off.
    pub fn call(&self, verb: &str) -> anyhow::Result<Command> {
        let from = format!("{FOLDER}/release");
        let mut arguments = vec![verb];
        match verb {
            "copy" => arguments.extend(["--from", &from, "--role", self.role, "--node", self.machine.name()]),
            "status" => {}
            _ => arguments.extend(["--target", NEW.release]),
        }
        if verb == Step::Kubeadm.as_str() {
            // Kernels with control groups of version 1.
            arguments.extend(["--ignore-preflight-error", "SystemVerification"]);
        }
        arguments.extend(["--kubeconfig", KUBECONFIG, "--soak", "3"]);
        let mut command = self.machine.command(&format!("{FOLDER}/stepgate-node"), &arguments)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// How a call ends.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn ended(&self, verb: &str) -> anyhow::Result<Output> {
        let mut command = self.call(verb)?;
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    /// A call that ends well. Returns what it says.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn succeed(&self, verb: &str) -> anyhow::Result<String> {
        let output = self.ended(verb).await?;
        if output.status.success() { Ok(said(&output)) } else { bail!("{verb}: {}: {}", output.status, said(&output)) }
    }

    /// A call that ends with this code. Returns what it says.
    ///
    /// # Errors
    /// When it ends otherwise.
    pub async fn fail(&self, verb: &str, code: i32) -> anyhow::Result<String> {
        let output = self.ended(verb).await?;
        if output.status.code() == Some(code) {
            return Ok(said(&output));
        }
        bail!("{verb} ended with {}, and {code} was expected: {}", output.status, said(&output))
    }

    /// All steps, from this one on.
    ///
    /// # Errors
    /// When one does not end well.
    pub async fn upgrade_from(&self, first: Step) -> anyhow::Result<()> {
        for step in Step::ALL.into_iter().filter(|step| *step >= first) {
            self.succeed(step.as_str()).await.with_context(|| self.machine.name().to_owned())?;
        }
        Ok(())
    }
}

/// All that a call has said.
#[must_use]
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
